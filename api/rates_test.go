package api_test

import (
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

func TestRatesAreOfTheLastMinutes(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	sent := func(before time.Duration, r domain.AttemptResult) domain.AttemptResult {
		r.SentAtMillis = w.now.Add(-before).UnixMilli()
		return r
	}
	w.delivered(account("a"), e, domain.StateDelivered,
		sent(2*time.Hour, domain.AttemptResult{StatusCode: 500}),
		sent(30*time.Minute, domain.AttemptResult{StatusCode: 503}),
		sent(2*time.Minute, domain.AttemptResult{Error: domain.AttemptTimeout}),
		sent(0, domain.AttemptResult{StatusCode: 200}))
	type rates struct {
		From, To                       time.Time
		Delivered, Refused, Unanswered int
		MedianMs, P99Ms                *int
		Minutes                        []struct{ Minute time.Time }
	}
	ask := func(key, query string) rates {
		t.Helper()
		return decode[rates](t,
			wantStatus(t, w.call("GET", "/v1/attempts/rates"+query, key, ""), 200).body)
	}
	hour := ask(k, "")
	if hour.Delivered != 1 || hour.Refused != 1 || hour.Unanswered != 1 || len(hour.Minutes) != 3 ||
		hour.To.Sub(hour.From) != time.Hour || hour.To.Before(w.now) || hour.MedianMs == nil {
		t.Errorf("%+v", hour)
	}
	if got := ask(k, "?minutes=5&endpointId="+e); got.Refused != 0 || got.Unanswered != 1 {
		t.Errorf("of five minutes: %+v", got)
	}
	other := domain.DeriveID(domain.EndpointPrefix, "other")
	if got := ask(k, "?endpointId="+other); got.Delivered != 0 || got.MedianMs != nil {
		t.Errorf("of another endpoint: %+v", got)
	}
	stranger := w.newKey(account("b"), domain.Permissions()...)
	if got := ask(stranger, "?endpointId="+e); got.Delivered != 0 || len(got.Minutes) != 0 {
		t.Errorf("of another account: %+v", got)
	}
	wantProblem(t, w.call("GET", "/v1/attempts/rates?minutes=1441", k, ""), 400, "INVALID_PARAMETER")
	w.historyErr = readmodel.ErrBehind
	wantProblem(t, w.call("GET", "/v1/attempts/rates", k, ""), 503, "HISTORY_BEHIND")
}
