package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
)

// Names of events that change balances. Before CAP-67, mints and clawbacks name their admin first.
// Since then, the amount may be in a map with a muxed ID. Only the event itself shows its form: no
// hash covers the meta's version, and newer programs write older ledgers in their own version.
const (
	eventTransfer = "transfer"
	eventMint     = "mint"
	eventClawback = "clawback"
	eventBurn     = "burn"
)

// A code of 12 characters, a colon and a G address.
const assetNameSizeBytesMax = 12 + 1 + 56

// assetContract is an asset and its contract on this network. known is false for other names.
type assetContract struct {
	asset domain.Asset
	id    xdr.ContractId
	known bool
}

// balanceChange is a change by an asset contract's event. Burns and clawbacks have no to.
type balanceChange struct {
	from, to xdr.ScAddress
	minted   bool
	credited bool
	asset    domain.Asset
	amount   xdr.Int128Parts
	muxedID  string
}

func (r *reading) contractCall(i int) error {
	var failure error
	err := xdr.TryVoid(func() { failure = r.readCall(i) })
	return cmp.Or(err, failure)
}

// readCall may panic with a *xdr.ViewError, like the SDK's Must functions.
func (r *reading) readCall(i int) error {
	events, err := r.tx.eventsOf(i, r.body.operations)
	if err != nil {
		return err
	}
	n := 0
	for _, event := range events {
		change, ok, err := r.extractor.balanceChange(event)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := r.credit(i, n, change); err != nil {
			return fmt.Errorf("balance change %d: %w", n, err)
		}
		n++
	}
	return nil
}

func (t *transaction) eventsOf(i, operations int) ([]xdr.ContractEventView, error) {
	meta := t.meta
	switch meta.MustV() {
	case 0, 1, 2: // before contracts existed
		return nil, nil
	case 3:
		soroban, ok := meta.MustV3().MustSorobanMeta().MustUnwrap()
		if !ok || operations != 1 { // a contract call is always the only operation
			return nil, nil
		}
		return soroban.MustEvents().MustAll(), nil
	}
	all := meta.MustV4().MustOperations()
	if all.MustCount() != operations {
		return nil, fmt.Errorf("its transaction has %d operations and the meta of %d",
			operations,
			all.MustCount())
	}
	return all.MustAt(i).MustEvents().MustAll(), nil
}

// credit adds the payment of the n-th balance change if it credits a G address.
func (r *reading) credit(i, n int, c balanceChange) error {
	if !c.credited || c.to.Type != xdr.ScAddressTypeScAddressTypeAccount {
		return nil
	}
	p := r.payment(i, "invoke_host_function", "-"+strconv.Itoa(n))
	p.Asset, p.ToMuxedID, p.From = c.asset, c.muxedID, c.asset.Issuer
	var err error
	if p.To, err = r.address(c.to.AccountId.Ed25519[:]); err != nil {
		return fmt.Errorf("the receiver: %w", err)
	}
	if !c.minted {
		if p.From, err = c.from.String(); err != nil {
			return fmt.Errorf("the sender: %w", err)
		}
	}
	if p.From == "" {
		return errors.New("the native asset has no issuer that could have minted it")
	}
	if c.amount.Hi != 0 || c.amount.Lo > math.MaxInt64 {
		if p.To == c.asset.Issuer {
			// a burn of an amount that only contracts can hold; no account's balance is so large
			r.payments = r.payments[:len(r.payments)-1]
			return nil
		}
		return errors.New("the amount does not fit an account's balance")
	}
	p.AmountStroops = int64(c.amount.Lo)
	return nil
}

// balanceChange decodes an event if it was emitted by the contract of the asset that it names.
func (e *Extractor) balanceChange(view xdr.ContractEventView) (balanceChange, bool, error) {
	if !mayChangeBalance(view) {
		return balanceChange{}, false, nil
	}
	var event xdr.ContractEvent
	if err := decode("an event", &event, view.MustRaw()); err != nil {
		return balanceChange{}, false, err
	}
	topics := event.Body.MustV0().Topics
	if len(topics) < 3 {
		return balanceChange{}, false, nil
	}
	name, ok := topics[len(topics)-1].GetStr()
	if !ok {
		return balanceChange{}, false, nil
	}
	contract := e.contractOf(string(name))
	if !contract.known || event.ContractId == nil || contract.id != *event.ContractId {
		return balanceChange{}, false, nil
	}
	change := balanceChange{asset: contract.asset}
	if !change.readAmount(event.Body.MustV0().Data) || !change.readParties(topics) {
		return balanceChange{}, false, nil
	}
	return change, true, nil
}

// mayChangeBalance checks the type and name of an event, so that other events need not be decoded.
func mayChangeBalance(view xdr.ContractEventView) bool {
	f := must(view.Fields())
	if f.Type.MustValue() != xdr.ContractEventTypeContract {
		return false
	}
	topics := f.Body.MustV0().MustTopics()
	if topics.MustCount() == 0 {
		return false
	}
	first := topics.MustAt(0)
	if first.MustType() != xdr.ScValTypeScvSymbol {
		return false
	}
	switch string(first.MustSym().MustValue()) {
	case eventTransfer, eventMint, eventClawback, eventBurn:
		return true
	}
	return false
}

// readAmount reads the event's data, which is the amount, or a map with the amount and a muxed ID.
func (c *balanceChange) readAmount(data xdr.ScVal) (ok bool) {
	entries, isMap := data.GetMap()
	if !isMap {
		c.amount, ok = data.GetI128()
		return ok
	}
	if entries == nil || len(*entries) != 2 {
		return false
	}
	var hasAmount, hasID bool
	for _, entry := range *entries {
		key, _ := entry.Key.GetSym()
		switch key {
		case "amount":
			c.amount, hasAmount = entry.Val.GetI128()
		case "to_muxed_id":
			var id xdr.Uint64
			id, hasID = entry.Val.GetU64()
			c.muxedID = strconv.FormatUint(uint64(id), 10)
		}
	}
	return hasAmount && hasID
}

func (c *balanceChange) readParties(topics xdr.ScVec) bool {
	name, _ := topics[0].GetSym()
	var parties []xdr.ScAddress
	for _, topic := range topics[1 : len(topics)-1] {
		party, ok := topic.GetAddress()
		if !ok {
			return false
		}
		parties = append(parties, party)
	}
	if len(parties) == 2 && (name == eventMint || name == eventClawback) {
		parties = parties[1:] // skip the admin
	}
	switch {
	case name == eventTransfer && len(parties) == 2:
		c.from, c.to, c.credited = parties[0], parties[1], true
	case name == eventMint && len(parties) == 1:
		c.to, c.minted, c.credited = parties[0], true, true
	case (name == eventClawback || name == eventBurn) && len(parties) == 1:
		c.from = parties[0]
	default:
		return false
	}
	return true
}

// contractOf returns the contract of an asset, "native" or CODE:ISSUER (SEP-11).
func (e *Extractor) contractOf(name string) assetContract {
	if len(name) > assetNameSizeBytesMax {
		return assetContract{}
	}
	if contract, ok := e.contracts.Get(name); ok {
		return contract
	}
	contract := e.deriveContract(name)
	e.contracts.Add(name, contract)
	return contract
}

func (e *Extractor) deriveContract(name string) assetContract {
	asset, ok := parseAsset(name)
	if !ok {
		return assetContract{}
	}
	called, err := named(asset)
	if err != nil {
		return assetContract{}
	}
	id, err := asset.ContractID(e.passphrase)
	return assetContract{asset: called, id: id, known: err == nil}
}

var native = xdr.Asset{Type: xdr.AssetTypeAssetTypeNative}

func parseAsset(name string) (xdr.Asset, bool) {
	if name == "native" {
		return native, true
	}
	code, issuer, ok := strings.Cut(name, ":")
	if !ok || !strkey.IsValidEd25519PublicKey(issuer) {
		return xdr.Asset{}, false
	}
	asset, err := xdr.NewCreditAsset(code, issuer)
	return asset, err == nil
}

func decode(what string, into interface{ UnmarshalBinary([]byte) error }, raw []byte) error {
	if err := into.UnmarshalBinary(raw); err != nil {
		return fmt.Errorf("%s cannot be read: %w", what, err)
	}
	return nil
}
