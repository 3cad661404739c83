package devnet

import (
	"github.com/stellar/go-stellar-sdk/xdr"
)

// Claimable balances (CAP-23). One locks up no reserve of its creator's.

func checkCreateClaimable(_ xdr.AccountId, body xdr.OperationBody) outcome {
	op := body.CreateClaimableBalanceOp
	seen, valid := map[string]bool{}, true
	for _, claimant := range op.Claimants {
		seen[claimant.V0.Destination.Address()] = true
		valid = valid && validPredicate(claimant.V0.Predicate, 1)
	}
	if !valid || op.Amount <= 0 || !validAsset(op.Asset) || len(op.Claimants) == 0 ||
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
	claimants := make([]xdr.Claimant, len(op.Claimants))
	for i, claimant := range op.Claimants {
		v0 := *claimant.V0
		v0.Predicate = absolute(v0.Predicate, l.closeTime)
		claimants[i] = xdr.Claimant{Type: claimant.Type, V0: &v0}
	}
	// The balance is named after the operation that creates it.
	name := hashOf(xdr.HashIdPreimage{
		Type:        xdr.EnvelopeTypeEnvelopeTypeOpId,
		OperationId: &l.operation,
	})
	id := xdr.ClaimableBalanceId{V0: &name}
	l.put(claimableKey(id), xdr.LedgerEntryData{
		Type: xdr.LedgerEntryTypeClaimableBalance,
		ClaimableBalance: &xdr.ClaimableBalanceEntry{
			BalanceId: id,
			Claimants: claimants,
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
		allowed = allowed || claimant.V0.Destination.Equals(source) &&
			holds(claimant.V0.Predicate, l.closeTime)
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

const maxPredicateDepth = 4

// parts are the conditions that a condition is made of.
func parts(p xdr.ClaimPredicate) []xdr.ClaimPredicate {
	switch p.Type {
	case xdr.ClaimPredicateTypeClaimPredicateAnd:
		return *p.AndPredicates
	case xdr.ClaimPredicateTypeClaimPredicateOr:
		return *p.OrPredicates
	case xdr.ClaimPredicateTypeClaimPredicateNot:
		if *p.NotPredicate != nil {
			return []xdr.ClaimPredicate{**p.NotPredicate}
		}
	}
	return nil
}

// validPredicate reports whether the network takes a condition.
func validPredicate(p xdr.ClaimPredicate, depth int) bool {
	if depth > maxPredicateDepth {
		return false
	}
	for _, part := range parts(p) {
		if !validPredicate(part, depth+1) {
			return false
		}
	}
	switch p.Type {
	case xdr.ClaimPredicateTypeClaimPredicateAnd, xdr.ClaimPredicateTypeClaimPredicateOr:
		return len(parts(p)) == 2
	case xdr.ClaimPredicateTypeClaimPredicateNot:
		return len(parts(p)) == 1
	case xdr.ClaimPredicateTypeClaimPredicateBeforeAbsoluteTime:
		return *p.AbsBefore >= 0
	case xdr.ClaimPredicateTypeClaimPredicateBeforeRelativeTime:
		return *p.RelBefore >= 0
	}
	return true
}

// absolute turns times that count from now into times of the clock, in a copy.
func absolute(p xdr.ClaimPredicate, now int64) xdr.ClaimPredicate {
	var changed []xdr.ClaimPredicate
	for _, part := range parts(p) {
		changed = append(changed, absolute(part, now))
	}
	switch p.Type {
	case xdr.ClaimPredicateTypeClaimPredicateAnd:
		p.AndPredicates = &changed
	case xdr.ClaimPredicateTypeClaimPredicateOr:
		p.OrPredicates = &changed
	case xdr.ClaimPredicateTypeClaimPredicateNot:
		not := &changed[0]
		p.NotPredicate = &not
	case xdr.ClaimPredicateTypeClaimPredicateBeforeRelativeTime:
		until := xdr.Int64(now) + min(*p.RelBefore, xdr.Int64(unlimited-now))
		return xdr.ClaimPredicate{
			Type:      xdr.ClaimPredicateTypeClaimPredicateBeforeAbsoluteTime,
			AbsBefore: &until,
		}
	}
	return p
}

// holds reports whether a condition of absolute times is true now.
func holds(p xdr.ClaimPredicate, now int64) bool {
	inner := parts(p)
	switch p.Type {
	case xdr.ClaimPredicateTypeClaimPredicateAnd:
		return holds(inner[0], now) && holds(inner[1], now)
	case xdr.ClaimPredicateTypeClaimPredicateOr:
		return holds(inner[0], now) || holds(inner[1], now)
	case xdr.ClaimPredicateTypeClaimPredicateNot:
		return !holds(inner[0], now)
	case xdr.ClaimPredicateTypeClaimPredicateBeforeAbsoluteTime:
		return int64(*p.AbsBefore) > now
	}
	return true
}
