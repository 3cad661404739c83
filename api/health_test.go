package api_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

type counted struct {
	Attempts, Delivered int
	SuccessRate         *float64
}

type shownHealth struct {
	ID     string
	Health *struct {
		State                                         string
		LastSuccessAt, LastFailureAt, OldestPendingAt *string
		Hour, Day, Week                               counted
		Sparkline                                     []counted
	}
	HealthUnavailable string
}

// clinic returns a world with an endpoint in each state, by state.
func clinic(t *testing.T) (w *world, apiKey string, endpoints map[domain.HealthState]string) {
	t.Helper()
	w = newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	endpoints = make(map[domain.HealthState]string)
	for _, state := range []domain.HealthState{"idle", "healthy", "disabled", "failing", "down"} {
		endpoints[state] = w.newEndpoint(k)
		w.now = w.now.Add(time.Millisecond)
	}
	sent := func(ago time.Duration, r domain.AttemptResult) domain.AttemptResult {
		r.SentAtMillis = w.now.Add(-ago).UnixMilli()
		return r
	}
	ok, refused := domain.AttemptResult{StatusCode: 200}, domain.AttemptResult{StatusCode: 503}
	w.deliveredOf("1", account("a"), endpoints["healthy"], domain.StateDelivered,
		sent(2*time.Hour, refused), sent(time.Minute, ok))
	w.deliveredOf("2", account("a"), endpoints["failing"], domain.StateDelivered,
		sent(20*time.Minute, refused), sent(time.Minute, ok))
	w.deliveredOf("3", account("a"), endpoints["down"], domain.StateWaiting,
		sent(30*time.Hour, ok), sent(5*time.Hour, refused),
		sent(time.Hour, domain.AttemptResult{Error: domain.AttemptTimeout}))
	wantStatus(t, w.call("POST", "/v1/endpoints/"+endpoints["disabled"]+"/disable", k, ""), 200)
	return w, k, endpoints
}

// An endpoint's state must be shown in a word, for one endpoint and in lists, which can be sorted
// worst first.
func TestEndpointsSayHowTheyDo(t *testing.T) {
	w, k, endpoints := clinic(t)
	type page struct {
		Data       []shownHealth
		NextCursor *string
	}
	list := func(query string) page {
		t.Helper()
		return decode[page](t, wantStatus(t, w.call("GET", "/v1/endpoints"+query, k, ""), 200).body)
	}
	var states []string
	for cursor := ""; ; {
		p := list("?sort=health&limit=2" + cursor)
		for _, e := range p.Data {
			states = append(states, e.Health.State)
			if endpoints[domain.HealthState(e.Health.State)] != e.ID {
				t.Errorf("%s is shown as %s", e.ID, e.Health.State)
			}
		}
		if p.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *p.NextCursor
	}
	if got := strings.Join(states, " "); got != "down failing disabled healthy idle" {
		t.Errorf("worst first: %s", got)
	}
	if newest := list("").Data; newest[0].ID != endpoints["down"] ||
		newest[4].ID != endpoints["idle"] {
		t.Error("without sort it is not newest first")
	}
	got := decode[shownHealth](t,
		wantStatus(t, w.call("GET", "/v1/endpoints/"+endpoints["down"], k, ""), 200).body).Health
	if got.Hour.Attempts != 0 || got.Hour.SuccessRate != nil ||
		got.Day != (counted{2, 0, got.Day.SuccessRate}) ||
		*got.Day.SuccessRate != 0 || got.Week.Attempts != 3 || *got.Week.SuccessRate != 0.3333 ||
		*got.LastSuccessAt != "2026-11-20T04:15:30.128Z" ||
		*got.LastFailureAt != "2026-11-21T09:15:30.128Z" ||
		got.OldestPendingAt == nil || len(got.Sparkline) != 24 || got.Sparkline[18].Attempts != 1 {
		t.Errorf("%+v", got)
	}
	wantProblem(t, w.call("GET", "/v1/endpoints?sort=worst", k, ""), 400, "INVALID_PARAMETER")
	type rates struct{ Hour, Day, Week counted }
	all := decode[rates](t, wantStatus(t, w.call("GET", "/v1/attempts/rates", k, ""), 200).body)
	if all.Hour.Attempts != 3 || all.Day.Attempts != 6 || all.Week.Delivered != 3 ||
		*all.Hour.SuccessRate != 0.6666 {
		t.Errorf("of all: %+v", all)
	}
}

// The history must be queried for all endpoints of the account rather than for an unbounded list of
// ids. Pages must contain each endpoint once.
func TestManyEndpointsAreSortedByHealth(t *testing.T) {
	w, k, endpoints := clinic(t)
	const added = 250
	for range added {
		w.newEndpoint(k)
		w.now = w.now.Add(time.Millisecond)
	}
	var first string
	seen := make(map[string]bool)
	for cursor, more := "", true; more; {
		got := w.call("GET", "/v1/endpoints?sort=health&limit=250"+cursor, k, "")
		page := decode[struct {
			Data       []shownHealth
			NextCursor *string
		}](t, wantStatus(t, got, 200).body)
		if n := len(w.healthAsked.EndpointIDs); n > 0 || w.healthAsked.AccountID != account("a") {
			t.Fatalf("the history was asked for %d endpoints", n)
		}
		for _, e := range page.Data {
			first = cmp.Or(first, e.ID)
			seen[e.ID] = true
		}
		if more = page.NextCursor != nil; more {
			cursor = "&cursor=" + *page.NextCursor
		}
	}
	if len(seen) != added+5 || first != endpoints["down"] {
		t.Errorf("%d endpoints are listed, first %s", len(seen), first)
	}
}

// Without the history, endpoints must still be shown, with the reason why their health is not.
func TestEndpointsWithoutTheHistory(t *testing.T) {
	w, k, endpoints := clinic(t)
	for err, why := range map[error]string{
		readmodel.ErrBehind:                  "HISTORY_BEHIND",
		readmodel.ErrUnavailable:             "HISTORY_UNAVAILABLE",
		readmodel.Missing{Why: "it is away"}: "HISTORY_UNAVAILABLE",
	} {
		w.historyErr = err
		for _, query := range []string{"", "?sort=health"} {
			got := decode[struct{ Data []shownHealth }](t,
				wantStatus(t, w.call("GET", "/v1/endpoints"+query, k, ""), 200).body).Data
			if len(got) != 5 || got[0].Health != nil || got[0].HealthUnavailable != why {
				t.Errorf("%v: %+v", err, got)
			}
		}
		one := decode[shownHealth](t,
			wantStatus(t, w.call("GET", "/v1/endpoints/"+endpoints["down"], k, ""), 200).body)
		if one.Health != nil || one.HealthUnavailable != why {
			t.Errorf("%v: %+v", err, one)
		}
	}
}

func TestListedDeliveriesSayWhy(t *testing.T) {
	w, k, endpoints := clinic(t)
	type listed struct {
		Data []struct {
			Delivery struct {
				Attempts       int
				LastStatusCode *int
				LastError      *string
			}
		}
	}
	last := func(state domain.HealthState) (d struct {
		Attempts       int
		LastStatusCode *int
		LastError      *string
	}) {
		t.Helper()
		path := "/v1/events?endpointId=" + endpoints[state]
		got := decode[listed](t, wantStatus(t, w.call("GET", path, k, ""), 200).body)
		return got.Data[0].Delivery
	}
	if d := last("down"); d.Attempts != 3 || d.LastStatusCode != nil || *d.LastError != "TIMEOUT" {
		t.Errorf("%+v", d)
	}
	if d := last("healthy"); d.Attempts != 2 || *d.LastStatusCode != 200 || d.LastError != nil {
		t.Errorf("%+v", d)
	}
}

// If an endpoint has pending events, the API and the console must say why few of them are sent at a
// time.
func TestASlowedEndpointIsExplained(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	d := newDesk(t, w)
	d.signIn(k)
	slow, quick := w.newEndpoint(k), w.newEndpoint(k)
	w.deliveredOf("1", account("a"), slow, domain.StateWaiting, domain.AttemptResult{
		Error: domain.AttemptTimeout, SentAtMillis: w.now.Add(-time.Minute).UnixMilli(),
	})
	w.deliveredOf("2", account("a"), quick, domain.StateDelivered, domain.AttemptResult{
		StatusCode: 200, SentAtMillis: w.now.Add(-time.Minute).UnixMilli(),
	})
	for id, want := range map[string]string{
		slow: "1 of 1 attempts in the last hour failed. Each timeout and each 5xx " +
			"response reduces the number of attempts in flight.",
		quick: "",
	} {
		got := decode[struct{ Health struct{ SlowedDown *string } }](t,
			wantStatus(t, w.call("GET", "/v1/endpoints/"+id, k, ""), 200).body).Health.SlowedDown
		if got == nil || *got != want {
			t.Errorf("the API says %v, not %q", got, want)
		}
		page := d.open("/console/endpoints/" + id)
		if strings.Contains(page, "Slowed down") != (want != "") || !strings.Contains(page, want) {
			t.Errorf("the page of an endpoint with %q is %s", want, page)
		}
	}
}
