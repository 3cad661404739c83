package devnet

import (
	"math"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// The devnet supports one function of the asset contracts: transfer, from the calling account to a
// plain or muxed account. It has the effect of a payment and emits the same event as the real
// contracts: transfer, mint if the issuer sends, or burn if the issuer receives.

type transferCall struct {
	contract xdr.ContractId
	from, to xdr.AccountId
	muxedID  *xdr.Uint64
	amount   int64
}

func parseTransfer(f xdr.HostFunction) (call transferCall, ok bool) {
	invoke, isCall := f.GetInvokeContract()
	if !isCall || invoke.FunctionName != "transfer" || len(invoke.Args) != 3 ||
		invoke.ContractAddress.ContractId == nil {
		return call, false
	}
	from, isFrom := invoke.Args[0].GetAddress()
	to, isTo := invoke.Args[1].GetAddress()
	amount, isAmount := invoke.Args[2].GetI128()
	if !isFrom || !isTo || !isAmount || from.AccountId == nil || amount.Hi != 0 ||
		amount.Lo > math.MaxInt64 {
		return call, false
	}
	call = transferCall{
		contract: *invoke.ContractAddress.ContractId,
		from:     *from.AccountId,
		amount:   int64(amount.Lo),
	}
	switch {
	case to.AccountId != nil:
		call.to = *to.AccountId
	case to.MuxedAccount != nil:
		key := to.MuxedAccount.Ed25519
		call.to = xdr.AccountId{Type: xdr.PublicKeyTypePublicKeyTypeEd25519, Ed25519: &key}
		call.muxedID = &to.MuxedAccount.Id
	default:
		return call, false
	}
	return call, true
}

func checkTransfer(source xdr.AccountId, body xdr.OperationBody) outcome {
	call, ok := parseTransfer(body.InvokeHostFunctionOp.HostFunction)
	switch {
	case !ok:
		return notSupported
	case !call.from.Equals(source): // another account would need an authorization entry
		return because(xdr.InvokeHostFunctionResultCodeInvokeHostFunctionTrapped)
	}
	return outcome{}
}

func applyTransfer(l *layer, source xdr.AccountId, body xdr.OperationBody) outcome {
	call, _ := parseTransfer(body.InvokeHostFunctionOp.HostFunction)
	asset, known := l.assetOf(call.contract)
	if !known || l.pay(source, call.to, asset, call.amount) != xdr.PaymentResultCodePaymentSuccess {
		return because(xdr.InvokeHostFunctionResultCodeInvokeHostFunctionTrapped)
	}
	l.events = append(l.events, call.event(asset))
	return outcome{
		value: hashOf(xdr.InvokeHostFunctionSuccessPreImage{ReturnValue: nothing, Events: l.events}),
	}
}

var nothing = xdr.ScVal{Type: xdr.ScValTypeScvVoid}

func (l *layer) assetOf(contract xdr.ContractId) (xdr.Asset, bool) {
	for _, asset := range []xdr.Asset{xdr.MustNewNativeAsset(), l.demo} {
		if id, err := asset.ContractID(l.passphrase); err == nil && xdr.ContractId(id) == contract {
			return asset, true
		}
	}
	return xdr.Asset{}, false
}

// event returns the transfer's event (CAP-67, SEP-41).
func (c transferCall) event(asset xdr.Asset) xdr.ContractEvent {
	name, topics := "transfer", []xdr.ScVal{addressValue(c.from), addressValue(c.to)}
	switch {
	case isIssuer(c.from, asset):
		name, topics = "mint", topics[1:]
	case isIssuer(c.to, asset):
		name, topics = "burn", topics[:1]
	}
	text := xdr.ScString(asset.StringCanonical())
	topics = append(append([]xdr.ScVal{symbol(name)}, topics...),
		xdr.ScVal{Type: xdr.ScValTypeScvString, Str: &text})
	data := xdr.ScVal{Type: xdr.ScValTypeScvI128, I128: &xdr.Int128Parts{Lo: xdr.Uint64(c.amount)}}
	if c.muxedID != nil && name != "burn" {
		entries := &xdr.ScMap{
			{Key: symbol("amount"), Val: data},
			{Key: symbol("to_muxed_id"), Val: xdr.ScVal{Type: xdr.ScValTypeScvU64, U64: c.muxedID}},
		}
		data = xdr.ScVal{Type: xdr.ScValTypeScvMap, Map: &entries}
	}
	return xdr.ContractEvent{
		ContractId: &c.contract,
		Type:       xdr.ContractEventTypeContract,
		Body:       xdr.ContractEventBody{V0: &xdr.ContractEventV0{Topics: topics, Data: data}},
	}
}

func symbol(text string) xdr.ScVal {
	s := xdr.ScSymbol(text)
	return xdr.ScVal{Type: xdr.ScValTypeScvSymbol, Sym: &s}
}

func addressValue(id xdr.AccountId) xdr.ScVal {
	return xdr.ScVal{
		Type:    xdr.ScValTypeScvAddress,
		Address: &xdr.ScAddress{Type: xdr.ScAddressTypeScAddressTypeAccount, AccountId: &id},
	}
}
