package draw

import "slices"

// StroopsPerUnit is the number of stroops in a unit of an asset.
const StroopsPerUnit = 10_000_000

// Types of events that a payment can create.
const (
	Received = "payment.received"
	Rejected = "payment.rejected"
)

// Payment holds the fields of a payment that rules use.
type Payment struct {
	Payer   int    // number of the payer
	Asset   string // empty means XLM
	Stroops int64
	Memo    *Memo
}

// Memo is a memo in the API's format.
type Memo struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// Rules are a watch's rules in the specification's terms.
type Rules struct {
	Assets  []string `json:"assets,omitempty"` // accepted assets in addition to XLM
	Amount  string   `json:"amount"`           // any, exact, min, max or range
	Low     int64    `json:"low,omitempty"`
	High    int64    `json:"high,omitempty"`
	MemoIs  string   `json:"memoIs"` // any, present, absent or equals
	Memo    *Memo    `json:"memo,omitempty"`
	Senders []int    `json:"senders,omitempty"` // numbers of payers
	Types   []string `json:"types"`
	Expires int      `json:"expires,omitempty"` // milliseconds after the start; 0 means never
}

// Event returns the type of the event that a payment creates before the rules expire, or "" if
// there is none. reasons explain a rejection, in the order in which events list them.
func (r Rules) Event(p Payment) (kind string, reasons []string) {
	reasons = []string{}
	add := func(reason string) {
		if reason != "" {
			reasons = append(reasons, reason)
		}
	}
	if p.Asset != "" && !slices.Contains(r.Assets, p.Asset) {
		add("ASSET_NOT_ACCEPTED")
	}
	add(r.amountReason(p.Stroops))
	add(r.memoReason(p.Memo))
	if len(r.Senders) > 0 && !slices.Contains(r.Senders, p.Payer) {
		add("SENDER_NOT_ALLOWED")
	}
	if kind = Received; len(reasons) > 0 {
		kind = Rejected
	}
	if !slices.Contains(r.Types, kind) {
		kind = ""
	}
	return kind, reasons
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
