package devnet

import (
	"crypto/sha256"
	"fmt"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// Account merges, and claimable balances. A claimable balance locks up no reserve of its creator's.

func applyAccountMerge(
	l *layer, source xdr.AccountId, body xdr.OperationBody,
) (xdr.OperationResult, bool) {
	destination := body.Destination.ToAccountId()
	from, to := account(l, source), account(l, destination)
	switch {
	case to == nil:
		return mergeResult(xdr.AccountMergeResultCodeAccountMergeNoAccount, nil)
	case from.NumSubEntries != 0:
		return mergeResult(xdr.AccountMergeResultCodeAccountMergeHasSubEntries, nil)
	case int64(from.SeqNum) >= int64(l.sequence)<<32:
		return mergeResult(xdr.AccountMergeResultCodeAccountMergeSeqnumTooFar, nil)
	case roomFor(to) < int64(from.Balance):
		return mergeResult(xdr.AccountMergeResultCodeAccountMergeDestFull, nil)
	}
	balance := from.Balance
	l.editAccount(destination).Balance += balance
	l.set(accountKey(source), nil)
	return mergeResult(xdr.AccountMergeResultCodeAccountMergeSuccess, &balance)
}

func checkAccountMerge(source xdr.AccountId, body xdr.OperationBody) (xdr.OperationResult, bool) {
	if destination := body.Destination.ToAccountId(); destination.Equals(source) {
		return mergeResult(xdr.AccountMergeResultCodeAccountMergeMalformed, nil)
	}
	return mergeResult(xdr.AccountMergeResultCodeAccountMergeSuccess, new(xdr.Int64))
}

func mergeResult(code xdr.AccountMergeResultCode, balance *xdr.Int64) (xdr.OperationResult, bool) {
	result := xdr.AccountMergeResult{Code: code, SourceAccountBalance: balance}
	return inner(xdr.OperationResultTr{
			Type:               xdr.OperationTypeAccountMerge,
			AccountMergeResult: &result,
		}),
		code == xdr.AccountMergeResultCodeAccountMergeSuccess
}

func checkCreateClaimable(_ xdr.AccountId, body xdr.OperationBody) (xdr.OperationResult, bool) {
	op := body.CreateClaimableBalanceOp
	seen, fine := map[string]bool{}, true
	for _, claimant := range op.Claimants {
		seen[claimant.V0.Destination.Address()] = true
		fine = fine && wellFormed(claimant.V0.Predicate, 1)
	}
	if !fine || op.Amount <= 0 || !validAsset(op.Asset) || len(op.Claimants) == 0 ||
		len(seen) != len(op.Claimants) {
		return createClaimableResult(xdr.CreateClaimableBalanceResultCodeCreateClaimableBalanceMalformed,
			nil)
	}
	return createClaimableResult(xdr.CreateClaimableBalanceResultCodeCreateClaimableBalanceSuccess,
		&xdr.ClaimableBalanceId{V0: &xdr.Hash{}})
}

func applyCreateClaimable(
	l *layer, source xdr.AccountId, body xdr.OperationBody,
) (xdr.OperationResult, bool) {
	op := body.CreateClaimableBalanceOp
	code := xdr.CreateClaimableBalanceResultCodeCreateClaimableBalanceSuccess
	switch {
	case op.Asset.IsNative() && available(account(l, source)) < int64(op.Amount):
		code = xdr.CreateClaimableBalanceResultCodeCreateClaimableBalanceUnderfunded
	case op.Asset.IsNative():
		l.editAccount(source).Balance -= op.Amount
	case !isIssuer(source, op.Asset):
		switch debitAsset(l, source, &xdr.PaymentOp{Asset: op.Asset, Amount: op.Amount}) {
		case xdr.PaymentResultCodePaymentSrcNoTrust:
			code = xdr.CreateClaimableBalanceResultCodeCreateClaimableBalanceNoTrust
		case xdr.PaymentResultCodePaymentUnderfunded:
			code = xdr.CreateClaimableBalanceResultCodeCreateClaimableBalanceUnderfunded
		}
	}
	if code != xdr.CreateClaimableBalanceResultCodeCreateClaimableBalanceSuccess {
		return createClaimableResult(code, nil)
	}
	id := l.balanceID()
	l.set(claimableKey(id), &xdr.LedgerEntry{Data: xdr.LedgerEntryData{
		Type: xdr.LedgerEntryTypeClaimableBalance,
		ClaimableBalance: &xdr.ClaimableBalanceEntry{
			BalanceId: id,
			Claimants: claimantsFrom(op.Claimants, l.closeTime),
			Asset:     op.Asset,
			Amount:    op.Amount,
		},
	}})
	return createClaimableResult(code, &id)
}

// claimantsFrom are the claimants with conditions whose times are counted from now.
func claimantsFrom(asked []xdr.Claimant, now int64) []xdr.Claimant {
	claimants := make([]xdr.Claimant, len(asked))
	for i, claimant := range asked {
		v0 := *claimant.V0
		v0.Predicate = absolute(v0.Predicate, now)
		claimants[i] = xdr.Claimant{Type: claimant.Type, V0: &v0}
	}
	return claimants
}

// balanceID names a claimable balance after the operation that makes it.
func (l *layer) balanceID() xdr.ClaimableBalanceId {
	preimage := xdr.HashIdPreimage{Type: xdr.EnvelopeTypeEnvelopeTypeOpId, OperationId: &l.operation}
	raw, err := preimage.MarshalBinary()
	if err != nil {
		panic(fmt.Sprintf("devnet: the name of an operation does not encode: %v", err))
	}
	hash := xdr.Hash(sha256.Sum256(raw))
	return xdr.ClaimableBalanceId{Type: xdr.ClaimableBalanceIdTypeClaimableBalanceIdTypeV0, V0: &hash}
}

func claimableKey(id xdr.ClaimableBalanceId) entryKey {
	return keyOf(xdr.LedgerKey{
		Type:             xdr.LedgerEntryTypeClaimableBalance,
		ClaimableBalance: &xdr.LedgerKeyClaimableBalance{BalanceId: id},
	})
}

func checkClaim(xdr.AccountId, xdr.OperationBody) (xdr.OperationResult, bool) {
	return claimResult(xdr.ClaimClaimableBalanceResultCodeClaimClaimableBalanceSuccess)
}

func applyClaim(
	l *layer, source xdr.AccountId, body xdr.OperationBody,
) (xdr.OperationResult, bool) {
	key := claimableKey(body.ClaimClaimableBalanceOp.BalanceId)
	row := l.load(key)
	if row == nil {
		return claimResult(xdr.ClaimClaimableBalanceResultCodeClaimClaimableBalanceDoesNotExist)
	}
	balance := row.Data.ClaimableBalance
	code := xdr.ClaimClaimableBalanceResultCodeClaimClaimableBalanceCannotClaim
	for _, claimant := range balance.Claimants {
		if claimant.V0.Destination.Equals(source) && met(claimant.V0.Predicate, l.closeTime) {
			code = creditClaim(l, source, balance)
		}
	}
	if code == xdr.ClaimClaimableBalanceResultCodeClaimClaimableBalanceSuccess {
		l.set(key, nil)
	}
	return claimResult(code)
}

func creditClaim(
	l *layer, to xdr.AccountId, balance *xdr.ClaimableBalanceEntry,
) xdr.ClaimClaimableBalanceResultCode {
	switch {
	case balance.Asset.IsNative() && roomFor(account(l, to)) < int64(balance.Amount):
		return xdr.ClaimClaimableBalanceResultCodeClaimClaimableBalanceLineFull
	case balance.Asset.IsNative():
		l.editAccount(to).Balance += balance.Amount
	case !isIssuer(to, balance.Asset):
		switch creditAsset(l, to, &xdr.PaymentOp{Asset: balance.Asset, Amount: balance.Amount}) {
		case xdr.PaymentResultCodePaymentNoTrust:
			return xdr.ClaimClaimableBalanceResultCodeClaimClaimableBalanceNoTrust
		case xdr.PaymentResultCodePaymentLineFull:
			return xdr.ClaimClaimableBalanceResultCodeClaimClaimableBalanceLineFull
		}
	}
	return xdr.ClaimClaimableBalanceResultCodeClaimClaimableBalanceSuccess
}

func createClaimableResult(
	code xdr.CreateClaimableBalanceResultCode, id *xdr.ClaimableBalanceId,
) (xdr.OperationResult, bool) {
	result := xdr.CreateClaimableBalanceResult{Code: code, BalanceId: id}
	return inner(xdr.OperationResultTr{
			Type:                         xdr.OperationTypeCreateClaimableBalance,
			CreateClaimableBalanceResult: &result,
		}),
		code == xdr.CreateClaimableBalanceResultCodeCreateClaimableBalanceSuccess
}

func claimResult(code xdr.ClaimClaimableBalanceResultCode) (xdr.OperationResult, bool) {
	result := xdr.ClaimClaimableBalanceResult{Code: code}
	return inner(xdr.OperationResultTr{
			Type:                        xdr.OperationTypeClaimClaimableBalance,
			ClaimClaimableBalanceResult: &result,
		}),
		code == xdr.ClaimClaimableBalanceResultCodeClaimClaimableBalanceSuccess
}
