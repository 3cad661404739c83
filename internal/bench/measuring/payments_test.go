package measuring_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
	"github.com/lumenhook/lumenhook/schemas"
)

// TestBodySize: events are of the size that figures are said to be of.
func TestBodySize(t *testing.T) {
	const label = ", and more to tell by"
	p := measuring.Payments{
		Account:   "acc_1",
		Endpoints: []string{"ep_1", "ep_2"},
		Label:     label,
	}
	for _, n := range []int{0, 123_456, 10_000_000} {
		record, body := p.Match("x", n), p.Body("x", n)
		in, err := schemas.DecodePaymentMatched(schemas.Read(record.Value, record))
		least := 750 + len(label)
		if err != nil || !json.Valid(in.Event.Body) || len(body) < least || len(body) > least+50 {
			t.Errorf("body of %d bytes, %v", len(body), err)
		}
		if in.Event.ID != measuring.EventID("x", n) || !bytes.Contains(body, []byte(in.Event.ID)) {
			t.Errorf("the match of %d is of %s, its body %s", n, in.Event.ID, body)
		}
	}
}
