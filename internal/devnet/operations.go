package devnet

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"regexp"

	"github.com/stellar/go-stellar-sdk/xdr"
)

type operation struct {
	// check checks what depends only on the operation. If it fails, the transaction is refused.
	check func(source xdr.AccountId, body xdr.OperationBody) outcome
	// apply applies the operation to a layer. If it fails, the layer is discarded.
	apply func(l *layer, source xdr.AccountId, body xdr.OperationBody) outcome
}

var operations = map[xdr.OperationType]operation{
	xdr.OperationTypeCreateAccount:            {checkCreateAccount, applyCreateAccount},
	xdr.OperationTypePayment:                  {checkPayment, applyPayment},
	xdr.OperationTypeChangeTrust:              {checkChangeTrust, applyChangeTrust},
	xdr.OperationTypePathPaymentStrictSend:    {checkPath, applyPath},
	xdr.OperationTypePathPaymentStrictReceive: {checkPath, applyPath},
	xdr.OperationTypeAccountMerge:             {checkMerge, applyMerge},
	xdr.OperationTypeCreateClaimableBalance:   {checkCreateClaimable, applyCreateClaimable},
	xdr.OperationTypeClaimClaimableBalance:    {noCheck, applyClaim},
	xdr.OperationTypeInvokeHostFunction:       {checkTransfer, applyTransfer},
}

var (
	notSupported = general(xdr.OperationResultCodeOpNotSupported)
	tooManyOwned = general(xdr.OperationResultCodeOpTooManySubentries)
)

const maxSubEntries = 1000

func noCheck(xdr.AccountId, xdr.OperationBody) outcome { return outcome{} }

func checkCreateAccount(source xdr.AccountId, body xdr.OperationBody) outcome {
	op := body.CreateAccountOp
	if op.StartingBalance < 0 || op.Destination.Equals(source) {
		return because(xdr.CreateAccountResultCodeCreateAccountMalformed)
	}
	return outcome{}
}

func applyCreateAccount(l *layer, source xdr.AccountId, body xdr.OperationBody) outcome {
	op := body.CreateAccountOp
	switch {
	case account(l, op.Destination) != nil:
		return because(xdr.CreateAccountResultCodeCreateAccountAlreadyExist)
	case int64(op.StartingBalance) < minBalance(&xdr.AccountEntry{}):
		return because(xdr.CreateAccountResultCodeCreateAccountLowReserve)
	case available(account(l, source)) < int64(op.StartingBalance):
		return because(xdr.CreateAccountResultCodeCreateAccountUnderfunded)
	}
	l.editAccount(source).Balance -= op.StartingBalance
	l.createAccount(op.Destination, int64(op.StartingBalance), int64(l.sequence)<<32)
	return outcome{}
}

func checkPayment(_ xdr.AccountId, body xdr.OperationBody) outcome {
	if op := body.PaymentOp; op.Amount <= 0 || !validAsset(op.Asset) {
		return because(xdr.PaymentResultCodePaymentMalformed)
	}
	return outcome{}
}

func applyPayment(l *layer, source xdr.AccountId, body xdr.OperationBody) outcome {
	op := body.PaymentOp
	return because(l.pay(source, op.Destination.ToAccountId(), op.Asset, int64(op.Amount)))
}

// checkChangeTrust refuses the issuer's own trustline, like the network since protocol 16.
func checkChangeTrust(source xdr.AccountId, body xdr.OperationBody) outcome {
	op := body.ChangeTrustOp
	if op.Line.Type == xdr.AssetTypeAssetTypePoolShare {
		return notSupported
	}
	asset := op.Line.ToAsset()
	if op.Limit < 0 || asset.IsNative() || !validAsset(asset) || isIssuer(source, asset) {
		return because(xdr.ChangeTrustResultCodeChangeTrustMalformed)
	}
	return outcome{}
}

// applyChangeTrust creates authorized trustlines, because there are no account flags.
func applyChangeTrust(l *layer, source xdr.AccountId, body xdr.OperationBody) outcome {
	op := body.ChangeTrustOp
	asset := op.Line.ToAsset()
	key, line := trustlineKey(source, asset), trustline(l, source, asset)
	issuer, _ := asset.GetIssuerAccountId()
	switch {
	case line == nil && op.Limit == 0,
		line != nil && op.Limit < line.Balance:
		return because(xdr.ChangeTrustResultCodeChangeTrustInvalidLimit)
	case op.Limit == 0:
		l.set(key, nil)
		l.editAccount(source).NumSubEntries--
		return outcome{}
	case account(l, issuer) == nil:
		return because(xdr.ChangeTrustResultCodeChangeTrustNoIssuer)
	case line != nil:
		l.edit(key).TrustLine.Limit = op.Limit
		return outcome{}
	}
	switch tooMany, low := l.reserveEntry(source); {
	case tooMany:
		return tooManyOwned
	case low:
		return because(xdr.ChangeTrustResultCodeChangeTrustLowReserve)
	}
	l.put(key, xdr.LedgerEntryData{
		Type: xdr.LedgerEntryTypeTrustline,
		TrustLine: &xdr.TrustLineEntry{
			AccountId: source,
			Asset:     asset.ToTrustLineAsset(),
			Limit:     op.Limit,
			Flags:     xdr.Uint32(xdr.TrustLineFlagsAuthorizedFlag),
		},
	})
	return outcome{}
}

func isIssuer(id xdr.AccountId, asset xdr.Asset) bool {
	issuer, err := asset.GetIssuerAccountId()
	return err == nil && issuer.Equals(id)
}

// Asset codes: one to four characters in the short form, five to twelve in the long form.
var (
	shortCode = regexp.MustCompile(`^[0-9A-Za-z]{1,4}\x00*$`)
	longCode  = regexp.MustCompile(`^[0-9A-Za-z]{5,12}\x00*$`)
)

func validAsset(asset xdr.Asset) bool {
	switch asset.Type {
	case xdr.AssetTypeAssetTypeCreditAlphanum4:
		return shortCode.Match(asset.AlphaNum4.AssetCode[:])
	case xdr.AssetTypeAssetTypeCreditAlphanum12:
		return longCode.Match(asset.AlphaNum12.AssetCode[:])
	default:
		return asset.IsNative()
	}
}

func checkMerge(source xdr.AccountId, body xdr.OperationBody) outcome {
	if destination := body.Destination.ToAccountId(); destination.Equals(source) {
		return because(xdr.AccountMergeResultCodeAccountMergeMalformed)
	}
	return outcome{}
}

func applyMerge(l *layer, source xdr.AccountId, body xdr.OperationBody) outcome {
	destination := body.Destination.ToAccountId()
	from, to := account(l, source), account(l, destination)
	switch {
	case to == nil:
		return because(xdr.AccountMergeResultCodeAccountMergeNoAccount)
	case from.NumSubEntries != 0:
		return because(xdr.AccountMergeResultCodeAccountMergeHasSubEntries)
	case int64(from.SeqNum) >= int64(l.sequence)<<32:
		return because(xdr.AccountMergeResultCodeAccountMergeSeqnumTooFar)
	case to.Balance > unlimited-from.Balance:
		return because(xdr.AccountMergeResultCodeAccountMergeDestFull)
	}
	l.editAccount(destination).Balance += from.Balance
	l.set(accountKey(source), nil)
	return outcome{value: from.Balance}
}

func hashOf(v encodable) xdr.Hash {
	return sha256.Sum256(mustEncode(v))
}

// outcome is the outcome of an operation or its check. The zero value is success. In XDR, all kinds
// of results have the same form: a code of the kind and, after a success, a return value.
type outcome struct {
	general xdr.OperationResultCode // OpInner if code applies
	code    int32                   // code of the operation's kind; 0 is success
	value   encodable               // nil if there is none
}

type encodable interface{ MarshalBinary() ([]byte, error) }

func (o outcome) ok() bool { return o.general == xdr.OperationResultCodeOpInner && o.code == 0 }

func general(code xdr.OperationResultCode) outcome { return outcome{general: code} }

func because[C ~int32](code C) outcome { return outcome{code: int32(code)} }

func (o outcome) result(kind xdr.OperationType) xdr.OperationResult {
	if o.general != xdr.OperationResultCodeOpInner {
		return xdr.OperationResult{Code: o.general}
	}
	raw := binary.BigEndian.AppendUint32(make([]byte, 4, 64), uint32(kind))
	raw = binary.BigEndian.AppendUint32(raw, uint32(o.code))
	if o.ok() && o.value != nil {
		raw = append(raw, mustEncode(o.value)...)
	}
	return decodeResult(raw)
}

// notAsked returns the result of an operation that was not checked because another one was refused.
// It is all zeros, as on the real network.
func notAsked(kind xdr.OperationType) xdr.OperationResult {
	return decodeResult(binary.BigEndian.AppendUint32(make([]byte, 4, 64), uint32(kind)))
}

// decodeResult decodes a result, with missing bytes set to zero.
func decodeResult(raw []byte) (result xdr.OperationResult) {
	padded := append(raw, make([]byte, 256)...)
	if _, err := xdr.Unmarshal(bytes.NewReader(padded), &result); err != nil {
		return xdr.OperationResult{Code: xdr.OperationResultCodeOpNotSupported}
	}
	return result
}
