package devnet

import (
	"github.com/stellar/go-stellar-sdk/xdr"
)

// operationKind is one kind of operation the network applies.
type operationKind struct {
	// unsupported refuses a form of the operation that the network here does not know.
	unsupported func(xdr.OperationBody) bool
	// check asks what depends on the operation alone; its refusals keep a transaction out of the
	// ledger.
	check func(source xdr.AccountId, body xdr.OperationBody) (xdr.OperationResult, bool)
	// apply changes the layer. When it answers false the layer is thrown away.
	apply func(l *layer, source xdr.AccountId, body xdr.OperationBody) (xdr.OperationResult, bool)
}

var operations = map[xdr.OperationType]operationKind{
	xdr.OperationTypeCreateAccount: {check: checkCreateAccount, apply: applyCreateAccount},
	xdr.OperationTypePayment:       {check: checkPayment, apply: applyPayment},
	xdr.OperationTypeChangeTrust: {
		unsupported: isPoolShare,
		check:       checkChangeTrust,
		apply:       applyChangeTrust,
	},

	xdr.OperationTypePathPaymentStrictSend:    {check: checkStrictSend, apply: applyStrictSend},
	xdr.OperationTypePathPaymentStrictReceive: {check: checkStrictReceive, apply: applyStrictReceive},
	xdr.OperationTypeManageSellOffer:          offering(sellWish, sellOfferResult),
	xdr.OperationTypeManageBuyOffer:           offering(buyWish, buyOfferResult),
	// The network answers a passive offer in the form of one to sell, and its readers know it.
	xdr.OperationTypeCreatePassiveSellOffer: offering(passiveWish, sellOfferResult),
	xdr.OperationTypeAccountMerge:           {check: checkAccountMerge, apply: applyAccountMerge},
	xdr.OperationTypeCreateClaimableBalance: {
		check: checkCreateClaimable,
		apply: applyCreateClaimable,
	},
	xdr.OperationTypeClaimClaimableBalance: {check: checkClaim, apply: applyClaim},
	xdr.OperationTypeManageData:            {check: checkManageData, apply: applyManageData},
	xdr.OperationTypeSetOptions: {
		unsupported: changesKeys,
		check:       checkSetOptions,
		apply:       applySetOptions,
	},
	xdr.OperationTypeInvokeHostFunction: {
		unsupported: isNoTransfer,
		check:       checkTransfer,
		apply:       applyTransfer,
	},
}

// maxSubEntries is the network's bound on the trustlines of one account.
const maxSubEntries = 1000

func checkCreateAccount(source xdr.AccountId, body xdr.OperationBody) (xdr.OperationResult, bool) {
	op := body.CreateAccountOp
	if op.StartingBalance < 0 || op.Destination.Equals(source) {
		return createAccountResult(xdr.CreateAccountResultCodeCreateAccountMalformed)
	}
	return createAccountResult(xdr.CreateAccountResultCodeCreateAccountSuccess)
}

func applyCreateAccount(
	l *layer, source xdr.AccountId, body xdr.OperationBody,
) (xdr.OperationResult, bool) {
	op := body.CreateAccountOp
	switch {
	case account(l, op.Destination) != nil:
		return createAccountResult(xdr.CreateAccountResultCodeCreateAccountAlreadyExist)
	case int64(op.StartingBalance) < minBalance(&xdr.AccountEntry{}):
		return createAccountResult(xdr.CreateAccountResultCodeCreateAccountLowReserve)
	case available(account(l, source)) < int64(op.StartingBalance):
		return createAccountResult(xdr.CreateAccountResultCodeCreateAccountUnderfunded)
	}
	l.editAccount(source).Balance -= op.StartingBalance
	l.createAccount(op.Destination, int64(op.StartingBalance), int64(l.sequence)<<32)
	return createAccountResult(xdr.CreateAccountResultCodeCreateAccountSuccess)
}

func checkPayment(_ xdr.AccountId, body xdr.OperationBody) (xdr.OperationResult, bool) {
	if op := body.PaymentOp; op.Amount <= 0 || !validAsset(op.Asset) {
		return paymentResult(xdr.PaymentResultCodePaymentMalformed)
	}
	return paymentResult(xdr.PaymentResultCodePaymentSuccess)
}

// applyPayment credits the destination before it debits the source, as the network does: with
// both at fault, the destination's is the one that is reported.
func applyPayment(
	l *layer, source xdr.AccountId, body xdr.OperationBody,
) (xdr.OperationResult, bool) {
	op := body.PaymentOp
	destination := op.Destination.ToAccountId()
	if op.Asset.IsNative() {
		return paymentResult(payLumens(l, source, destination, int64(op.Amount)))
	}
	// A payment back to the issuer burns the asset and goes through even when the issuer is gone.
	if !isIssuer(destination, op.Asset) {
		if code := creditAsset(l, destination, op); code != xdr.PaymentResultCodePaymentSuccess {
			return paymentResult(code)
		}
	}
	if isIssuer(source, op.Asset) {
		return paymentResult(xdr.PaymentResultCodePaymentSuccess)
	}
	return paymentResult(debitAsset(l, source, op))
}

func payLumens(l *layer, source, destination xdr.AccountId, amount int64) xdr.PaymentResultCode {
	to := account(l, destination)
	switch {
	case to == nil:
		return xdr.PaymentResultCodePaymentNoDestination
	case source.Equals(destination):
		return xdr.PaymentResultCodePaymentSuccess // whatever the balance, and nothing changes
	case roomFor(to) < amount:
		return xdr.PaymentResultCodePaymentLineFull
	case available(account(l, source)) < amount:
		return xdr.PaymentResultCodePaymentUnderfunded
	}
	l.editAccount(destination).Balance += xdr.Int64(amount)
	l.editAccount(source).Balance -= xdr.Int64(amount)
	return xdr.PaymentResultCodePaymentSuccess
}

func creditAsset(l *layer, id xdr.AccountId, op *xdr.PaymentOp) xdr.PaymentResultCode {
	if account(l, id) == nil {
		return xdr.PaymentResultCodePaymentNoDestination
	}
	line := trustline(l, id, op.Asset)
	switch {
	case line == nil:
		return xdr.PaymentResultCodePaymentNoTrust
	case lineRoom(line) < int64(op.Amount):
		return xdr.PaymentResultCodePaymentLineFull
	}
	l.editTrustline(id, op.Asset).Balance += op.Amount
	return xdr.PaymentResultCodePaymentSuccess
}

func debitAsset(l *layer, id xdr.AccountId, op *xdr.PaymentOp) xdr.PaymentResultCode {
	line := trustline(l, id, op.Asset)
	switch {
	case line == nil:
		return xdr.PaymentResultCodePaymentSrcNoTrust
	case lineAvailable(line) < int64(op.Amount):
		return xdr.PaymentResultCodePaymentUnderfunded
	}
	l.editTrustline(id, op.Asset).Balance -= op.Amount
	return xdr.PaymentResultCodePaymentSuccess
}

func isPoolShare(body xdr.OperationBody) bool {
	return body.ChangeTrustOp.Line.Type == xdr.AssetTypeAssetTypePoolShare
}

// checkChangeTrust refuses a trustline to oneself as malformed: since protocol 16 the network
// never gets as far as CHANGE_TRUST_SELF_NOT_ALLOWED.
func checkChangeTrust(source xdr.AccountId, body xdr.OperationBody) (xdr.OperationResult, bool) {
	op := body.ChangeTrustOp
	asset := op.Line.ToAsset()
	if op.Limit < 0 || asset.IsNative() || !validAsset(asset) || isIssuer(source, asset) {
		return changeTrustResult(xdr.ChangeTrustResultCodeChangeTrustMalformed)
	}
	return changeTrustResult(xdr.ChangeTrustResultCodeChangeTrustSuccess)
}

func applyChangeTrust(
	l *layer, source xdr.AccountId, body xdr.OperationBody,
) (xdr.OperationResult, bool) {
	op := body.ChangeTrustOp
	asset := op.Line.ToAsset()
	line := trustline(l, source, asset)
	switch {
	case line == nil:
		return addTrustline(l, source, asset, op.Limit)
	case op.Limit < line.Balance+line.Liabilities().Buying:
		return changeTrustResult(xdr.ChangeTrustResultCodeChangeTrustInvalidLimit)
	case op.Limit == 0:
		l.set(trustlineKey(source, asset), nil)
		l.editAccount(source).NumSubEntries--
	case !issuerExists(l, asset):
		return changeTrustResult(xdr.ChangeTrustResultCodeChangeTrustNoIssuer)
	default:
		l.editTrustline(source, asset).Limit = op.Limit
	}
	return changeTrustResult(xdr.ChangeTrustResultCodeChangeTrustSuccess)
}

func addTrustline(
	l *layer, source xdr.AccountId, asset xdr.Asset, limit xdr.Int64,
) (xdr.OperationResult, bool) {
	holder := account(l, source)
	switch {
	case limit == 0:
		return changeTrustResult(xdr.ChangeTrustResultCodeChangeTrustInvalidLimit)
	case !issuerExists(l, asset):
		return changeTrustResult(xdr.ChangeTrustResultCodeChangeTrustNoIssuer)
	case holder.NumSubEntries >= maxSubEntries:
		return xdr.OperationResult{Code: xdr.OperationResultCodeOpTooManySubentries}, false
	case available(holder) < BaseReserveStroops:
		return changeTrustResult(xdr.ChangeTrustResultCodeChangeTrustLowReserve)
	}
	l.editAccount(source).NumSubEntries++
	l.createTrustline(source, asset, int64(limit))
	return changeTrustResult(xdr.ChangeTrustResultCodeChangeTrustSuccess)
}

func issuerExists(s state, asset xdr.Asset) bool {
	issuer, err := asset.GetIssuerAccountId()
	return err == nil && account(s, issuer) != nil
}

func isIssuer(id xdr.AccountId, asset xdr.Asset) bool {
	issuer, err := asset.GetIssuerAccountId()
	return err == nil && issuer.Equals(id)
}

// validAsset checks the code of a credit asset: letters and digits, then only padding; one to
// four of them in the short form, five to twelve in the long one.
func validAsset(asset xdr.Asset) bool {
	switch asset.Type {
	case xdr.AssetTypeAssetTypeNative:
		return true
	case xdr.AssetTypeAssetTypeCreditAlphanum4:
		return validCode(asset.AlphaNum4.AssetCode[:], 1)
	case xdr.AssetTypeAssetTypeCreditAlphanum12:
		return validCode(asset.AlphaNum12.AssetCode[:], 5)
	default:
		return false
	}
}

func validCode(code []byte, minLength int) bool {
	length := 0
	for i, c := range code {
		switch {
		case c == 0:
			continue
		case i != length: // something after the padding began
			return false
		case c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z':
			length++
		default:
			return false
		}
	}
	return length >= minLength
}

func createAccountResult(code xdr.CreateAccountResultCode) (xdr.OperationResult, bool) {
	return inner(xdr.OperationResultTr{
			Type:                xdr.OperationTypeCreateAccount,
			CreateAccountResult: &xdr.CreateAccountResult{Code: code},
		}),
		code == xdr.CreateAccountResultCodeCreateAccountSuccess
}

func paymentResult(code xdr.PaymentResultCode) (xdr.OperationResult, bool) {
	return inner(xdr.OperationResultTr{
			Type:          xdr.OperationTypePayment,
			PaymentResult: &xdr.PaymentResult{Code: code},
		}),
		code == xdr.PaymentResultCodePaymentSuccess
}

func changeTrustResult(code xdr.ChangeTrustResultCode) (xdr.OperationResult, bool) {
	return inner(xdr.OperationResultTr{
			Type:              xdr.OperationTypeChangeTrust,
			ChangeTrustResult: &xdr.ChangeTrustResult{Code: code},
		}),
		code == xdr.ChangeTrustResultCodeChangeTrustSuccess
}

func inner(tr xdr.OperationResultTr) xdr.OperationResult {
	return xdr.OperationResult{Code: xdr.OperationResultCodeOpInner, Tr: &tr}
}

// noPayment stands in the results of path payments that were not asked.
var noPayment = xdr.SimplePaymentResult{
	Destination: xdr.AccountId{Ed25519: &xdr.Uint256{}},
	Asset:       xdr.MustNewNativeAsset(),
}

// noOffer stands in the results of offers that were not asked.
var noOffer = xdr.ManageOfferSuccessResultOffer{Effect: xdr.ManageOfferEffectManageOfferDeleted}

// successOf stands in the results for an operation that was not asked because another one was
// refused.
func successOf(kind xdr.OperationType) xdr.OperationResult {
	var result xdr.OperationResult
	switch kind {
	case xdr.OperationTypeCreateAccount:
		result, _ = createAccountResult(xdr.CreateAccountResultCodeCreateAccountSuccess)
	case xdr.OperationTypePayment:
		result, _ = paymentResult(xdr.PaymentResultCodePaymentSuccess)
	case xdr.OperationTypeChangeTrust:
		result, _ = changeTrustResult(xdr.ChangeTrustResultCodeChangeTrustSuccess)
	case xdr.OperationTypePathPaymentStrictSend:
		result, _ = strictSendResult(xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendSuccess,
			&xdr.PathPaymentStrictSendResultSuccess{Last: noPayment})
	case xdr.OperationTypePathPaymentStrictReceive:
		result, _ = strictReceiveResult(
			xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveSuccess,
			&xdr.PathPaymentStrictReceiveResultSuccess{Last: noPayment},
		)
	case xdr.OperationTypeManageSellOffer, xdr.OperationTypeCreatePassiveSellOffer:
		result, _ = sellOfferResult(granted{}, xdr.ManageOfferSuccessResult{Offer: noOffer})
	case xdr.OperationTypeManageBuyOffer:
		result, _ = buyOfferResult(granted{}, xdr.ManageOfferSuccessResult{Offer: noOffer})
	case xdr.OperationTypeAccountMerge:
		result, _ = mergeResult(xdr.AccountMergeResultCodeAccountMergeSuccess, new(xdr.Int64))
	case xdr.OperationTypeCreateClaimableBalance:
		result, _ = createClaimableResult(
			xdr.CreateClaimableBalanceResultCodeCreateClaimableBalanceSuccess,
			&xdr.ClaimableBalanceId{V0: &xdr.Hash{}},
		)
	case xdr.OperationTypeClaimClaimableBalance:
		result, _ = claimResult(xdr.ClaimClaimableBalanceResultCodeClaimClaimableBalanceSuccess)
	case xdr.OperationTypeManageData:
		result, _ = manageDataResult(xdr.ManageDataResultCodeManageDataSuccess)
	case xdr.OperationTypeSetOptions:
		result, _ = setOptionsResult(xdr.SetOptionsResultCodeSetOptionsSuccess)
	case xdr.OperationTypeInvokeHostFunction:
		result, _ = invokeResult(xdr.InvokeHostFunctionResultCodeInvokeHostFunctionSuccess, &xdr.Hash{})
	default:
		result = xdr.OperationResult{Code: xdr.OperationResultCodeOpNotSupported}
	}
	return result
}
