package domain

import (
	"bytes"
	"slices"
)

// AmountKind is the kind of an amount rule.
type AmountKind string

// Kinds of amount rules (specification, "Amount rule"). Limits are inclusive.
const (
	AmountAny   AmountKind = "any"
	AmountExact AmountKind = "exact"
	AmountMin   AmountKind = "min"
	AmountMax   AmountKind = "max"
	AmountRange AmountKind = "range"
)

// AmountRule restricts the amount of a payment. AmountStroops is used by exact, min and max;
// MinStroops and MaxStroops are used by range.
type AmountRule struct {
	Kind          AmountKind
	AmountStroops int64
	MinStroops    int64
	MaxStroops    int64
}

// MemoKind is the kind of a memo rule.
type MemoKind string

// Kinds of memo rules (specification, "Memo rule").
const (
	MemoAny     MemoKind = "any"
	MemoPresent MemoKind = "present"
	MemoAbsent  MemoKind = "absent"
	MemoEquals  MemoKind = "equals"
)

// MemoRule restricts the memo of a payment. Value is used by equals and compared with the raw memo.
type MemoRule struct {
	Kind  MemoKind
	Value Memo
}

// Equal reports whether two rules are equal.
func (r MemoRule) Equal(other MemoRule) bool {
	return r.Kind == other.Kind && r.Value.Type == other.Value.Type &&
		bytes.Equal(r.Value.Raw, other.Value.Raw)
}

// Reason is a rule that a payment doesn't meet.
type Reason string

// Reasons, in the order in which they are checked and reported.
const (
	ReasonAssetNotAccepted Reason = "ASSET_NOT_ACCEPTED"
	ReasonAmountMismatch   Reason = "AMOUNT_MISMATCH"
	ReasonAmountTooLow     Reason = "AMOUNT_TOO_LOW"
	ReasonAmountTooHigh    Reason = "AMOUNT_TOO_HIGH"
	ReasonMemoRequired     Reason = "MEMO_REQUIRED"
	ReasonMemoNotAllowed   Reason = "MEMO_NOT_ALLOWED"
	ReasonMemoTypeMismatch Reason = "MEMO_TYPE_MISMATCH"
	ReasonMemoMismatch     Reason = "MEMO_MISMATCH"
	ReasonSenderNotAllowed Reason = "SENDER_NOT_ALLOWED"
)

// Outcome is the result of verifying a payment.
type Outcome string

// Outcomes of verifying a payment.
const (
	OutcomeVerified Outcome = "VERIFIED"
	OutcomeRejected Outcome = "REJECTED"
)

// Verification is the result of verifying a payment. Reasons is empty if it is verified.
type Verification struct {
	Outcome Outcome
	Reasons []Reason
}

// Rules are a watch's requirements for payments to its wallet.
type Rules struct {
	Assets          []Asset
	Amount          AmountRule
	Memo            MemoRule
	SenderAllowlist []string // empty means anyone
}

// Verify checks a payment against all rules, so that a merchant sees every reason for a rejection.
func (r Rules) Verify(p Payment) Verification {
	var reasons []Reason
	if !slices.Contains(r.Assets, p.Asset) {
		reasons = append(reasons, ReasonAssetNotAccepted)
	}
	if reason := r.Amount.judge(p.AmountStroops); reason != "" {
		reasons = append(reasons, reason)
	}
	if reason := r.Memo.judge(p.Memo); reason != "" {
		reasons = append(reasons, reason)
	}
	if len(r.SenderAllowlist) > 0 && !slices.Contains(r.SenderAllowlist, p.From) {
		reasons = append(reasons, ReasonSenderNotAllowed)
	}
	if len(reasons) > 0 {
		return Verification{Outcome: OutcomeRejected, Reasons: reasons}
	}
	return Verification{Outcome: OutcomeVerified}
}

func (r AmountRule) judge(stroops int64) Reason {
	switch r.Kind {
	case AmountAny:
	case AmountExact:
		if stroops != r.AmountStroops {
			return ReasonAmountMismatch
		}
	case AmountMin:
		return outside(stroops, r.AmountStroops, stroops)
	case AmountMax:
		return outside(stroops, stroops, r.AmountStroops)
	case AmountRange:
		return outside(stroops, r.MinStroops, r.MaxStroops)
	}
	return ""
}

func outside(stroops, minStroops, maxStroops int64) Reason {
	switch {
	case stroops < minStroops:
		return ReasonAmountTooLow
	case stroops > maxStroops:
		return ReasonAmountTooHigh
	}
	return ""
}

func (r MemoRule) judge(m Memo) Reason {
	switch {
	case r.Kind == MemoAbsent && m.Type != MemoNone:
		return ReasonMemoNotAllowed
	case r.Kind != MemoPresent && r.Kind != MemoEquals:
		return ""
	case m.Type == MemoNone:
		return ReasonMemoRequired
	case r.Kind == MemoPresent:
		return ""
	case m.Type != r.Value.Type:
		return ReasonMemoTypeMismatch
	case !bytes.Equal(m.Raw, r.Value.Raw):
		return ReasonMemoMismatch
	}
	return ""
}
