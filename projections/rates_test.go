package projections_test

import (
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/schemas"
)

// Rates count each attempt once, by minute, for an account or an endpoint.
func TestRatesCountAttempts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := newStory(1), newStory(2)
	for _, s := range []*story{one, two} {
		r.appendRecord(schemas.TopicEndpoints, s.endpointID, schemas.EncodeEndpoint(domain.Endpoint{
			ID: s.endpointID, AccountID: testAccount, Status: domain.StatusActive,
			CreatedAtMillis: startMillis,
		}))
	}
	minute := int64(startMillis) / 60_000 * 60_000
	at := func(n, durationMillis int64, status int, fault domain.AttemptError) domain.AttemptResult {
		return domain.AttemptResult{
			SentAtMillis: minute + n*60_000 + 7, DurationMillis: durationMillis,
			StatusCode: status, Error: fault,
		}
	}
	r.append(one.created(0), one.created(1), two.created(0),
		one.attempted(0, 1, domain.StateWaiting, at(0, 10, 503, "")),
		one.attempted(0, 2, domain.StateDelivered, at(1, 20, 200, "")),
		one.attempted(1, 1, domain.StateWaiting, at(1, 1000, 0, domain.AttemptTimeout)),
		two.attempted(0, 1, domain.StateDelivered, at(2, 30, 204, "")))
	r.project(nil).finish2(r)
	h := r.history(0)
	ask := func(account, endpoint string, minutes int64) readmodel.Rates {
		t.Helper()
		rates, err := h.Rates(t.Context(), readmodel.RatesFilter{
			AccountID: account, EndpointID: endpoint, FromMillis: minute,
			ToMillis: minute + minutes*60_000,
		})
		must(t, err)
		return rates
	}
	all := ask(testAccount, "", 3)
	if len(all.Minutes) != 3 || all.Delivered != 2 || all.Refused != 1 || all.Unmet != 1 ||
		all.Minutes[1] != (readmodel.RatesMinute{AtMillis: minute + 60_000, Delivered: 1, Unmet: 1}) ||
		all.MedianMillis != 25 || all.P99Millis < 900 {
		t.Errorf("%+v", all)
	}
	if own := ask(testAccount, two.endpointID, 3); own.Delivered != 1 || own.Refused != 0 ||
		own.MedianMillis != 30 {
		t.Errorf("of one endpoint: %+v", own)
	}
	if first := ask(testAccount, "", 1); first.Refused != 1 || first.Delivered != 0 {
		t.Errorf("of the first minute: %+v", first)
	}
	if none := ask("acc_00000000000000000000000002", "", 3); len(none.Minutes) != 0 ||
		none.MedianMillis != 0 || none.P99Millis != 0 {
		t.Errorf("of another account: %+v", none)
	}
}
