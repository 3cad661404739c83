package ledger

import (
	"bytes"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// If BACKFILL_STELLAR_ASSET_EVENTS is set, as on many RPC servers and lakes, stellar-core rewrites
// the events of asset contracts in ledgers of protocols 20 to 22 to the form used since protocol 23
// (CAP-67). A transfer from or to the issuer becomes a mint or a burn, and the administrator is
// removed from other events. The hash in the result covers the original events. The removed address
// can be recovered, because there are few candidates and the hash decides between them.

// Protocols whose asset contracts wrote events in the older form: from the first up to but
// excluding the second. The ledger that upgrades the network has the newer protocol number,
// although its calls ran before the upgrade.
const (
	protocolContracts = 20
	protocolUnified   = 23
)

// Limits for events that may have been rewritten, several times the network's own limits.
const (
	rewrittenSizeBytesMax = 128 << 10
	administratorsMax     = 256
)

// formSizeBytesMore is the maximum extra size of an earlier form: an address, and a longer name.
const formSizeBytesMore = 64

const eventSetAuthorized = "set_authorized"

func (p *prover) mayBeRewritten() bool {
	return p.protocol >= protocolContracts && p.protocol <= protocolUnified
}

// provesRewritten reports whether the events had the claimed hash before they were rewritten.
func (p *prover) provesRewritten(
	claimed xdr.Hash, returned, encoded []byte, envelope xdr.TransactionEnvelopeView,
) bool {
	if len(returned)+len(encoded) > rewrittenSizeBytesMax {
		return false
	}
	s := scanner{raw: encoded}
	search := formerSearch{prover: p, claimed: claimed}
	search.all = make([]rewritable, s.count(listed))
	administered := false
	for i := range search.all {
		event := s.encodedEvent()
		if s.bad {
			return false
		}
		search.all[i] = p.formerForms(event)
		administered = administered || search.all[i].administered
	}
	if administered {
		var transaction xdr.TransactionEnvelope
		if transaction.UnmarshalBinary(envelope) != nil {
			return false
		}
		search.administrators = administratorsOf(transaction)
	}
	search.head = make([]byte, 0,
		len(returned)+len(encoded)+len(search.all)*formSizeBytesMore)
	search.head = append(append(search.head, returned...), encoded[:eventsHeadSizeBytes]...)
	if search.run() {
		return true
	}
	for i := range search.all {
		search.all[i].group = ""
	}
	return search.run()
}

// formerForms returns the possible earlier forms of an event. All events of an asset's own
// contract, and no others, were rewritten. Of these, only a burn may be unchanged.
func (p *prover) formerForms(e encodedEvent) rewritable {
	asIs := form{}
	r := rewritable{encodedEvent: e, forms: []form{asIs}}
	if len(e.topics) != 3 {
		return r
	}
	issuing, ok := p.issuedBy(e)
	if !ok {
		return r
	}
	kind := textOf(e.topics[0], xdr.ScValTypeScvSymbol)
	r.group = kind + string(e.topics[2])
	switch kind {
	case eventMint:
		r.forms = []form{{name: transferTopic, more: issuing, at: 1}, {more: issuing, at: 1}}
		r.administered = true
	case eventBurn:
		r.forms = []form{asIs, {name: transferTopic, more: issuing, at: 2}}
	case eventClawback, eventSetAuthorized:
		r.forms = []form{{more: issuing, at: 1}}
		r.administered = true
	}
	return r
}

// issuedBy returns the issuer of the asset in an event's last topic, encoded as a topic, if the
// event was emitted by that asset's contract on this network.
func (p *prover) issuedBy(e encodedEvent) (issuing []byte, ok bool) {
	asset, ok := parseAsset(textOf(e.topics[len(e.topics)-1], xdr.ScValTypeScvString))
	if !ok || asset.IsNative() {
		return nil, false
	}
	id, err := asset.ContractID(p.passphrase)
	if err != nil || !bytes.Equal(id[:], e.contract) {
		return nil, false
	}
	return encodedAddress(accountAddress(xdr.MustAddress(asset.GetIssuer()))), true
}

// textOf returns the text of a topic of the given type (symbol or string), or "" for other topics.
func textOf(topic []byte, kind xdr.ScValType) string {
	s := scanner{raw: topic}
	if s.uint32() != uint32(kind) {
		return ""
	}
	return string(s.opaque(assetNameSizeBytesMax))
}

// administratorsOf returns the forms that name a possible administrator: each signer and each
// contract in the footprint of a contract call.
func administratorsOf(envelope xdr.TransactionEnvelope) (all []form) {
	seen := map[string]bool{}
	add := func(a xdr.ScAddress) {
		topic := encodedAddress(a)
		if len(all) < administratorsMax && !seen[string(topic)] {
			seen[string(topic)] = true
			all = append(all, form{more: topic, at: 1})
		}
	}
	add(accountAddress(envelope.SourceAccount().ToAccountId()))
	for _, operation := range envelope.Operations() {
		if operation.SourceAccount != nil {
			add(accountAddress(operation.SourceAccount.ToAccountId()))
		}
		call, _ := operation.Body.GetInvokeHostFunctionOp()
		if invoked, ok := call.HostFunction.GetInvokeContract(); ok {
			add(invoked.ContractAddress)
		}
		for _, entry := range call.Auth {
			if signed, ok := entry.Credentials.GetAddress(); ok {
				add(signed.Address)
			}
		}
	}
	data, ok := sorobanData(envelope)
	if !ok {
		return all
	}
	footprint := data.Resources.Footprint
	for _, keys := range [][]xdr.LedgerKey{footprint.ReadOnly, footprint.ReadWrite} {
		for _, key := range keys {
			if data, ok := key.GetContractData(); ok {
				add(data.Contract)
			}
		}
	}
	return all
}

func sorobanData(envelope xdr.TransactionEnvelope) (xdr.SorobanTransactionData, bool) {
	switch envelope.Type {
	case xdr.EnvelopeTypeEnvelopeTypeTx:
		return envelope.V1.Tx.Ext.GetSorobanData()
	case xdr.EnvelopeTypeEnvelopeTypeTxFeeBump:
		return envelope.FeeBump.Tx.InnerTx.V1.Tx.Ext.GetSorobanData()
	}
	return xdr.SorobanTransactionData{}, false
}

func accountAddress(id xdr.AccountId) xdr.ScAddress {
	return xdr.ScAddress{Type: xdr.ScAddressTypeScAddressTypeAccount, AccountId: &id}
}

func encodedAddress(a xdr.ScAddress) []byte {
	return encodedTopic(xdr.ScVal{Type: xdr.ScValTypeScvAddress, Address: &a})
}

var transferTopic = func() []byte {
	symbol := xdr.ScSymbol(eventTransfer)
	return encodedTopic(xdr.ScVal{Type: xdr.ScValTypeScvSymbol, Sym: &symbol})
}()

// encodedTopic can't fail, because all values were created here or decoded before.
func encodedTopic(v xdr.ScVal) []byte { return must(v.MarshalBinary()) }
