package devnet

import (
	"github.com/stellar/go-stellar-sdk/xdr"
)

// Claimable balances (CAP-23), without conditions for claimants and without a reserve.

func checkCreateClaimable(_ xdr.AccountId, body xdr.OperationBody) outcome {
	op := body.CreateClaimableBalanceOp
	seen := map[string]bool{}
	for _, claimant := range op.Claimants {
		seen[claimant.V0.Destination.Address()] = true
		if claimant.V0.Predicate.Type != xdr.ClaimPredicateTypeClaimPredicateUnconditional {
			return notSupported
		}
	}
	if op.Amount <= 0 || !validAsset(op.Asset) || len(op.Claimants) == 0 ||
		len(seen) != len(op.Claimants) {
		return because(xdr.CreateClaimableBalanceResultCodeCreateClaimableBalanceMalformed)
	}
	return outcome{}
}

func applyCreateClaimable(l *layer, source xdr.AccountId, body xdr.OperationBody) outcome {
	op := body.CreateClaimableBalanceOp
	switch l.debit(source, op.Asset, int64(op.Amount)) {
	case xdr.PaymentResultCodePaymentSrcNoTrust:
		return because(xdr.CreateClaimableBalanceResultCodeCreateClaimableBalanceNoTrust)
	case xdr.PaymentResultCodePaymentUnderfunded:
		return because(xdr.CreateClaimableBalanceResultCodeCreateClaimableBalanceUnderfunded)
	}
	// The ID of a balance is derived from the operation that creates it.
	name := hashOf(xdr.HashIdPreimage{
		Type:        xdr.EnvelopeTypeEnvelopeTypeOpId,
		OperationId: &l.operation,
	})
	id := xdr.ClaimableBalanceId{V0: &name}
	l.put(claimableKey(id), xdr.LedgerEntryData{
		Type: xdr.LedgerEntryTypeClaimableBalance,
		ClaimableBalance: &xdr.ClaimableBalanceEntry{
			BalanceId: id,
			Claimants: op.Claimants,
			Asset:     op.Asset,
			Amount:    op.Amount,
		},
	})
	return outcome{value: id}
}

func applyClaim(l *layer, source xdr.AccountId, body xdr.OperationBody) outcome {
	key := claimableKey(body.ClaimClaimableBalanceOp.BalanceId)
	row := l.load(key)
	if row == nil {
		return because(xdr.ClaimClaimableBalanceResultCodeClaimClaimableBalanceDoesNotExist)
	}
	balance := row.Data.ClaimableBalance
	allowed := false
	for _, claimant := range balance.Claimants {
		allowed = allowed || claimant.V0.Destination.Equals(source)
	}
	if !allowed {
		return because(xdr.ClaimClaimableBalanceResultCodeClaimClaimableBalanceCannotClaim)
	}
	switch l.credit(source, balance.Asset, int64(balance.Amount)) {
	case xdr.PaymentResultCodePaymentNoTrust:
		return because(xdr.ClaimClaimableBalanceResultCodeClaimClaimableBalanceNoTrust)
	case xdr.PaymentResultCodePaymentLineFull:
		return because(xdr.ClaimClaimableBalanceResultCodeClaimClaimableBalanceLineFull)
	}
	l.set(key, nil)
	return outcome{}
}
