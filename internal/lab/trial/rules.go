package trial

import (
	"fmt"
	"slices"
	"time"
)

// Rules are a watch's rules in the specification's terms. Senders are payers. The asset is XLM.
type Rules struct {
	Amount  string   `json:"amount"` // any, exact, min, max or range
	Low     int64    `json:"low,omitempty"`
	High    int64    `json:"high,omitempty"`
	MemoIs  string   `json:"memoIs"` // any, present, absent or equals
	Memo    *Memo    `json:"memo,omitempty"`
	Senders []int    `json:"senders,omitempty"`
	Types   []string `json:"types"`
	Expires int      `json:"expires,omitempty"` // milliseconds after the start; 0: never
}

// expiry returns when a watch with these rules expires; nil: never.
func (r Rules) expiry(w *world) *time.Time {
	if r.Expires == 0 {
		return nil
	}
	at := w.began.Add(time.Duration(r.Expires) * time.Millisecond).UTC().Truncate(time.Millisecond)
	return &at
}

// stroopsPerUnit is the number of stroops in one unit of an asset.
const stroopsPerUnit = 10_000_000

// lumens is XLM in the API's form.
var lumens = map[string]any{"code": "XLM", "issuer": nil}

func decimal(stroops int64) string {
	return fmt.Sprintf("%d.%07d", stroops/stroopsPerUnit, stroops%stroopsPerUnit)
}

// reasons returns why a payment does not match, in the order in which events list them.
func (r Rules) reasons(p Payment, w *world) []string {
	reasons := []string{}
	if reason := r.amountReason(p.Stroops); reason != "" {
		reasons = append(reasons, reason)
	}
	if reason := r.memoReason(p.Memo); reason != "" {
		reasons = append(reasons, reason)
	}
	allowed := func(payer int) bool { return w.payers[payer].Address() == p.From }
	if len(r.Senders) > 0 && !slices.ContainsFunc(r.Senders, allowed) {
		reasons = append(reasons, "SENDER_NOT_ALLOWED")
	}
	return reasons
}

func (r Rules) amountReason(stroops int64) string {
	switch {
	case r.Amount == "exact" && stroops != r.Low:
		return "AMOUNT_MISMATCH"
	case (r.Amount == "min" || r.Amount == "range") && stroops < r.Low:
		return "AMOUNT_TOO_LOW"
	case r.Amount == "max" && stroops > r.Low, r.Amount == "range" && stroops > r.High:
		return "AMOUNT_TOO_HIGH"
	}
	return ""
}

func (r Rules) memoReason(memo *Memo) string {
	switch {
	case r.MemoIs == "absent" && memo != nil:
		return "MEMO_NOT_ALLOWED"
	case r.MemoIs != "present" && r.MemoIs != "equals":
		return ""
	case memo == nil:
		return "MEMO_REQUIRED"
	case r.MemoIs == "present":
		return ""
	case memo.Type != r.Memo.Type:
		return "MEMO_TYPE_MISMATCH"
	case memo.Value != r.Memo.Value:
		return "MEMO_MISMATCH"
	}
	return ""
}

// body returns the rules in the API's form.
func (r Rules) body(w *world) map[string]any {
	senders := []string{}
	for _, payer := range r.Senders {
		senders = append(senders, w.payers[payer].Address())
	}
	memo := map[string]any{"kind": r.MemoIs}
	if r.MemoIs == "equals" {
		memo["type"], memo["value"] = r.Memo.Type, r.Memo.Value
	}
	return map[string]any{
		"assets": []any{lumens}, "amountRule": r.amountBody(), "memoRule": memo,
		"senderAllowlist": senders, "eventTypes": r.Types, "expiresAt": r.expiry(w),
	}
}

func (r Rules) amountBody() map[string]any {
	rule := map[string]any{"kind": r.Amount}
	switch r.Amount {
	case "exact", "min", "max":
		rule["amount"] = decimal(r.Low)
	case "range":
		rule["min"], rule["max"] = decimal(r.Low), decimal(r.High)
	}
	return rule
}
