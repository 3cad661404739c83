package devnet

import (
	"math"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// Conditions under which a claimable balance can be claimed (CAP-23).

const predicateDepthMax = 4

// wellFormed reports whether a condition is one that the network takes.
func wellFormed(p xdr.ClaimPredicate, depth int) bool {
	if depth > predicateDepthMax {
		return false
	}
	switch p.Type {
	case xdr.ClaimPredicateTypeClaimPredicateUnconditional:
		return true
	case xdr.ClaimPredicateTypeClaimPredicateAnd:
		return bothWellFormed(*p.AndPredicates, depth)
	case xdr.ClaimPredicateTypeClaimPredicateOr:
		return bothWellFormed(*p.OrPredicates, depth)
	case xdr.ClaimPredicateTypeClaimPredicateNot:
		return *p.NotPredicate != nil && wellFormed(**p.NotPredicate, depth+1)
	case xdr.ClaimPredicateTypeClaimPredicateBeforeAbsoluteTime:
		return *p.AbsBefore >= 0
	case xdr.ClaimPredicateTypeClaimPredicateBeforeRelativeTime:
		return *p.RelBefore >= 0
	}
	return false
}

func bothWellFormed(both []xdr.ClaimPredicate, depth int) bool {
	return len(both) == 2 && wellFormed(both[0], depth+1) && wellFormed(both[1], depth+1)
}

// absolute turns the times that count from now into times of the clock. What it is given stays.
func absolute(p xdr.ClaimPredicate, now int64) xdr.ClaimPredicate {
	switch p.Type {
	case xdr.ClaimPredicateTypeClaimPredicateAnd:
		both := eachAbsolute(*p.AndPredicates, now)
		p.AndPredicates = &both
	case xdr.ClaimPredicateTypeClaimPredicateOr:
		both := eachAbsolute(*p.OrPredicates, now)
		p.OrPredicates = &both
	case xdr.ClaimPredicateTypeClaimPredicateNot:
		not := absolute(**p.NotPredicate, now)
		pointer := &not
		p.NotPredicate = &pointer
	case xdr.ClaimPredicateTypeClaimPredicateBeforeRelativeTime:
		until := xdr.Int64(math.MaxInt64)
		if int64(*p.RelBefore) < math.MaxInt64-now {
			until = *p.RelBefore + xdr.Int64(now)
		}
		return xdr.ClaimPredicate{
			Type:      xdr.ClaimPredicateTypeClaimPredicateBeforeAbsoluteTime,
			AbsBefore: &until,
		}
	}
	return p
}

func eachAbsolute(all []xdr.ClaimPredicate, now int64) []xdr.ClaimPredicate {
	out := make([]xdr.ClaimPredicate, len(all))
	for i := range all {
		out[i] = absolute(all[i], now)
	}
	return out
}

// met reports whether a condition of absolute times holds now.
func met(p xdr.ClaimPredicate, now int64) bool {
	switch p.Type {
	case xdr.ClaimPredicateTypeClaimPredicateAnd:
		return met((*p.AndPredicates)[0], now) && met((*p.AndPredicates)[1], now)
	case xdr.ClaimPredicateTypeClaimPredicateOr:
		return met((*p.OrPredicates)[0], now) || met((*p.OrPredicates)[1], now)
	case xdr.ClaimPredicateTypeClaimPredicateNot:
		return !met(**p.NotPredicate, now)
	case xdr.ClaimPredicateTypeClaimPredicateBeforeAbsoluteTime:
		return int64(*p.AbsBefore) > now
	}
	return true
}
