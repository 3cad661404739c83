package draw_test

import (
	"slices"
	"testing"

	"github.com/lumenhook/lumenhook/internal/lab/draw"
)

// Reasons come in the specification's order, and the edges of a range are inclusive.
func TestAPaymentMakesTheEventOfTheSpecification(t *testing.T) {
	both := []string{draw.Received, draw.Rejected}
	order := &draw.Memo{Type: "text", Value: "order 1"}
	strict := draw.Rules{
		Amount: "range", Low: 5, High: 9, MemoIs: "equals", Memo: order, Senders: []int{1}, Types: both,
	}
	for name, c := range map[string]struct {
		rules   draw.Rules
		payment draw.Payment
		kind    string
		reasons []string
	}{
		"anything":  {*draw.Anything(), draw.Payment{Stroops: 1}, draw.Received, nil},
		"low edge":  {strict, draw.Payment{Payer: 1, Stroops: 5, Memo: order}, draw.Received, nil},
		"high edge": {strict, draw.Payment{Payer: 1, Stroops: 9, Memo: order}, draw.Received, nil},
		"another asset": {
			*draw.Anything(), draw.Payment{Asset: "USDC"}, "", []string{"ASSET_NOT_ACCEPTED"},
		},
		"all at once": {
			strict, draw.Payment{Asset: "USDC", Stroops: 10, Memo: &draw.Memo{Type: "id", Value: "1"}},
			draw.Rejected,
			[]string{
				"ASSET_NOT_ACCEPTED", "AMOUNT_TOO_HIGH", "MEMO_TYPE_MISMATCH", "SENDER_NOT_ALLOWED",
			},
		},
		"no memo": {
			strict, draw.Payment{Payer: 1, Stroops: 4}, draw.Rejected,
			[]string{"AMOUNT_TOO_LOW", "MEMO_REQUIRED"},
		},
	} {
		kind, reasons := c.rules.Event(c.payment)
		if kind != c.kind || !slices.Equal(reasons, c.reasons) {
			t.Errorf("%s: %q %v, want %q %v", name, kind, reasons, c.kind, c.reasons)
		}
	}
}
