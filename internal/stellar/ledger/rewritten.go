package ledger

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// A stellar-core that was told to (BACKFILL_STELLAR_ASSET_EVENTS), as those behind many RPC
// servers and lakes are, writes the events of asset contracts in ledgers of protocol 20 to 22
// as they are since protocol 23 (CAP-67): a transfer from or to the issuer becomes a mint or a
// burn, and the administrator is left out of the others. The hash in the result is that of the
// events as they were. What was left out is found again: it is one of a few addresses, and the
// hash says which.

// Protocols whose asset contracts wrote events in the older form: from the first up to, and not
// with, the second. The ledger that upgrades the network names the newer protocol, and what was
// called in it ran before.
const (
	protocolContracts = 20
	protocolUnified   = 23
)

// Bounds of events that may have been rewritten, and of those who may have been administrators:
// several times what the network allows.
const (
	rewrittenSizeBytesMax = 128 << 10
	administratorsMax     = 256
)

const eventSetAuthorized = "set_authorized"

// rewritable is an event and the forms, encoded, that it may have had before.
type rewritable struct {
	group string // events of one group were most likely rewritten in the same way
	forms [][]byte
}

func (p *prover) mayBeRewritten() bool {
	return p.protocol >= protocolContracts && p.protocol <= protocolUnified
}

// provesRewritten reports whether events have the hash as they were before they were rewritten.
func (p *prover) provesRewritten(
	claimed xdr.Hash, returned, encoded []byte, envelope xdr.TransactionEnvelopeView,
) bool {
	if len(returned)+len(encoded) > rewrittenSizeBytesMax {
		return false
	}
	var image xdr.InvokeHostFunctionSuccessPreImage
	if image.UnmarshalBinary(append(returned[:len(returned):len(returned)], encoded...)) != nil {
		return false
	}
	var transaction xdr.TransactionEnvelope
	if transaction.UnmarshalBinary(envelope) != nil {
		return false
	}
	administrators := addressesOf(transaction)
	administrators = administrators[:min(len(administrators), administratorsMax)]
	all := make([]rewritable, len(image.Events))
	for i, event := range image.Events {
		forms, err := p.formerForms(event, administrators)
		if err != nil {
			return false
		}
		all[i] = forms
	}
	head := binary.BigEndian.AppendUint32(returned[:len(returned):len(returned)],
		uint32(len(all)))
	if p.tryForms(claimed, head, all) {
		return true
	}
	for i := range all {
		all[i].group = ""
	}
	return p.tryForms(claimed, head, all)
}

// tryForms looks for the forms that have the hash. Events without a group are on their own.
func (p *prover) tryForms(claimed xdr.Hash, head []byte, all []rewritable) bool {
	tries := unprovedMax
	chosen := map[string]int{}
	var search func(i int, image []byte) bool
	search = func(i int, image []byte) bool {
		if i == len(all) {
			tries--
			return p.spend(len(image)) && sha256.Sum256(image) == claimed
		}
		e := all[i]
		if form, ok := chosen[e.group]; ok && form < len(e.forms) {
			return search(i+1, append(image, e.forms[form]...))
		}
		for form := 0; form < len(e.forms) && tries > 0 && p.leftBytes > 0; form++ {
			if e.group != "" {
				chosen[e.group] = form
			}
			if search(i+1, append(image, e.forms[form]...)) {
				return true
			}
		}
		delete(chosen, e.group)
		return false
	}
	return search(0, head[:len(head):len(head)])
}

// formerForms gives the forms that an event may have had. Only those of an asset's own contract
// were rewritten, and all of them: of those only a burn may have been as it is.
func (p *prover) formerForms(
	event xdr.ContractEvent, administrators []xdr.ScAddress,
) (r rewritable, err error) {
	add := func(topics ...xdr.ScVal) {
		former := event
		former.Body.V0 = &xdr.ContractEventV0{Topics: topics, Data: event.Body.V0.Data}
		encoded, e := former.MarshalBinary()
		if e != nil {
			err = e
		}
		p.spend(len(encoded))
		r.forms = append(r.forms, encoded)
	}
	topics := event.Body.MustV0().Topics
	asset, ok := p.issuedBy(event)
	if !ok || len(topics) != 3 {
		add(topics...)
		return r, err
	}
	kind, _ := topics[0].GetSym()
	r.group = string(kind) + " " + asset.StringCanonical()
	issuing := addressValue(accountAddress(xdr.MustAddress(asset.GetIssuer())))
	switch kind {
	case eventMint:
		add(symbolValue(eventTransfer), issuing, topics[1], topics[2])
	case eventBurn:
		add(topics...)
		add(symbolValue(eventTransfer), topics[1], issuing, topics[2])
	case eventClawback, eventSetAuthorized:
	default:
		add(topics...)
	}
	if kind == eventMint || kind == eventClawback || kind == eventSetAuthorized {
		add(topics[0], issuing, topics[1], topics[2])
		for _, administrator := range administrators {
			add(topics[0], addressValue(administrator), topics[1], topics[2])
		}
	}
	return r, err
}

// issuedBy gives the asset that an event names last, if it has an issuer and the event is of its
// contract on this network.
func (p *prover) issuedBy(event xdr.ContractEvent) (asset xdr.Asset, ok bool) {
	topics := event.Body.MustV0().Topics
	if len(topics) == 0 || event.ContractId == nil {
		return asset, false
	}
	name, _ := topics[len(topics)-1].GetStr()
	if len(name) > assetNameSizeBytesMax {
		return asset, false
	}
	asset, ok = parseAsset(string(name))
	if !ok || asset.IsNative() {
		return asset, false
	}
	id, err := asset.ContractID(p.passphrase)
	return asset, err == nil && id == *event.ContractId
}

// addressesOf are those who may have been an asset's administrator in a contract call: whoever
// signed for it, and each contract that it says it touches.
func addressesOf(envelope xdr.TransactionEnvelope) (all []xdr.ScAddress) {
	seen := map[string]bool{}
	add := func(a xdr.ScAddress) {
		if text, err := a.String(); err == nil && !seen[text] {
			seen[text] = true
			all = append(all, a)
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

func addressValue(a xdr.ScAddress) xdr.ScVal {
	return xdr.ScVal{Type: xdr.ScValTypeScvAddress, Address: &a}
}

func symbolValue(text string) xdr.ScVal {
	symbol := xdr.ScSymbol(text)
	return xdr.ScVal{Type: xdr.ScValTypeScvSymbol, Sym: &symbol}
}
