package domain_test

import (
	"encoding/json"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// fails makes attempts at an endpoint at the given minutes, and returns the facts that notify
// another endpoint.
func fails(t *testing.T, e *domain.Endpoint, statuses map[int64]int, until int64) []domain.Fact {
	t.Helper()
	var told []domain.Fact
	for at := int64(1); at <= until; at++ {
		status := statuses[at]
		if status == 0 {
			continue
		}
		millis := at * 60_000
		d := domain.Delivery{
			EventID:    domain.DeriveID(domain.EventPrefix, string(rune('a'+at))),
			EventType:  domain.PaymentReceived,
			AccountID:  e.AccountID,
			EndpointID: e.ID,
			State:      domain.StateQueued,
			Run:        1,
		}
		for _, body := range domain.DecideAttempt(*e, d, 1, domain.AttemptResult{StatusCode: status},
			domain.DefaultPolicy(), millis) {
			f := domain.Fact{Aggregate: e.ID, Version: e.Version + 1, AtMillis: millis, Body: body}
			*e, d = domain.EvolveEndpoint(*e, d, f)
			if f.Telling().EndpointID != "" {
				told = append(told, f)
			}
		}
	}
	return told
}

func tellingEndpoint() domain.Endpoint {
	return domain.Endpoint{
		ID:        "ep_fails",
		AccountID: "acc_1",
		Status:    domain.StatusActive,
		EndpointSettings: domain.EndpointSettings{
			URL:       "https://shop.example/hook",
			NoticesTo: "ep_told",
		},
	}
}

// An endpoint is reported as failing once, after an hour and at least five failed attempts. If it
// succeeds and then fails again, a second event reports that.
func TestAnEndpointIsSaidToFailOnceATrouble(t *testing.T) {
	e := tellingEndpoint()
	told := fails(t, &e, map[int64]int{
		1: 500, 2: 500, 3: 500, 4: 500, 30: 500, // five failures, less than an hour
		61: 500, 62: 500, // an hour
		70:  200,
		100: 500, 170: 500, 171: 500, 172: 500, // an hour, but four failures
		173: 500, 400: 500,
	}, 500)
	if len(told) != 2 || told[0].AtMillis != 61*60_000 || told[1].AtMillis != 173*60_000 {
		t.Fatalf("told %+v", told)
	}
	if told[0].Telling().EventID == told[1].Telling().EventID {
		t.Error("two troubles are one event")
	}
	in, is := told[0].Told(e, 3)
	if !is || in.EndpointID != "ep_told" || in.Event.ID != told[0].Telling().EventID ||
		in.Event.Type != domain.EndpointFailingEvent || in.WatchID != "" {
		t.Errorf("tells %+v", in)
	}
	var body struct {
		Data struct {
			FailingSince   string
			FailedAttempts int
			LastAttempt    struct{ StatusCode int }
		}
	}
	if err := json.Unmarshal(in.Event.Body, &body); err != nil || body.Data.FailedAttempts != 6 ||
		body.Data.FailingSince != "1970-01-01T00:01:00.000Z" || body.Data.LastAttempt.StatusCode != 500 {
		t.Errorf("%s: %v", in.Event.Body, err)
	}
}

// If Lumenhook disables an endpoint, each disabling is reported under its own id. If the account
// disables it, nothing is reported.
func TestADisablingIsTold(t *testing.T) {
	e := tellingEndpoint()
	first := fails(t, &e, map[int64]int{1: 410}, 1)
	if len(first) != 1 || e.Status != domain.StatusDisabled {
		t.Fatalf("told %+v, and is %s", first, e.Status)
	}
	if in, _ := first[0].Told(e, 0); in.Event.Type != domain.EndpointDisabledEvent ||
		in.AccountID != "acc_1" {
		t.Errorf("tells %+v", in)
	}
	asked, _ := domain.DecideEndpoint(tellingEndpoint(), domain.Command{
		AccountID: "acc_1",
		Body:      domain.DisableEndpoint{EndpointID: "ep_fails"},
	}, 1)
	if f := (domain.Fact{Body: asked[0]}); f.Telling() != (domain.Telling{}) {
		t.Errorf("who disables an endpoint is told of it: %+v", f.Telling())
	}
	enabled := domain.Fact{Aggregate: e.ID, Version: e.Version + 1, Body: domain.EndpointEnabled{}}
	e, _ = domain.EvolveEndpoint(e, domain.Delivery{}, enabled)
	again := fails(t, &e, map[int64]int{2: 410}, 2)
	if len(again) != 1 || again[0].Telling().EventID == first[0].Telling().EventID {
		t.Errorf("a second disabling is told as %+v", again)
	}
}

// An endpoint can't receive the notices about itself, because it can't receive anything while it
// fails.
func TestNoEndpointIsToldOfItself(t *testing.T) {
	c := domain.Command{ID: "cmd_1", AccountID: "acc_1", Body: domain.UpdateEndpoint{
		EndpointID: "ep_fails",
		Change:     domain.EndpointChange{NoticesTo: new("ep_fails")},
	}}
	if err := c.WellFormed(); err == nil {
		t.Error("an endpoint is told of itself")
	}
}

// An endpoint is also reported as failing when half of the runs that would disable it, rounded
// down, have failed, however soon that is. If a single run disables an endpoint, there is no
// half.
func TestAnEndpointIsSaidToFailAtHalfOfTheRuns(t *testing.T) {
	for _, c := range []struct {
		disableAfter, before int // runs that failed before
		lastAttempt          bool
		told                 bool
	}{
		{20, 8, true, false}, {20, 9, true, true}, {20, 9, false, false}, {20, 10, true, true},
		{3, 0, true, true}, {2, 0, true, true}, {1, 0, true, false}, {0, 30, true, false},
	} {
		e := tellingEndpoint()
		e.ConsecutiveFailures = c.before
		d := domain.Delivery{
			EventID:    "evt_1",
			EventType:  domain.PaymentReceived,
			AccountID:  e.AccountID,
			EndpointID: e.ID,
			State:      domain.StateWaiting,
			Run:        1,
		}
		if c.lastAttempt {
			d.Attempts, d.RunAttempts = 9, 9
		}
		policy := domain.DefaultPolicy()
		policy.DisableAfter = c.disableAfter
		made := domain.DecideAttempt(e, d, d.Attempts+1, domain.AttemptResult{StatusCode: 500}, policy,
			60_000)[0].(domain.AttemptMade)
		if told := made.Telling.EndpointID != ""; told != c.told || made.Trouble.Told != c.told {
			t.Errorf("%+v: told %t", c, told)
		}
	}
}

// The event about a disabling contains the last attempt, with its status if a response arrived
// and its error if there was one.
func TestADisablingContainsTheLastAttempt(t *testing.T) {
	for want, f := range map[string]domain.EndpointDisabled{
		`{"eventId":"evt_1","statusCode":410,"error":null}`: {
			LastStatusCode: 410,
		},
		`{"eventId":"evt_1","statusCode":null,"error":"TIMEOUT"}`: {
			LastError: domain.AttemptTimeout,
		},
	} {
		f.EventID, f.Telling.EndpointID = "evt_1", "ep_told"
		in, _ := (domain.Fact{Body: f}).Told(tellingEndpoint(), 0)
		var body struct {
			Data struct{ LastAttempt json.RawMessage }
		}
		err := json.Unmarshal(in.Event.Body, &body)
		if got := string(body.Data.LastAttempt); err != nil || got != want {
			t.Errorf("%s, want %s (%v)", got, want, err)
		}
	}
}
