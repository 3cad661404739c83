package domain_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

const second = int64(1000)

// TestMatches checks which facts follow from a match (G2).
func TestMatches(t *testing.T) {
	match := domain.MatchInput{
		AccountID:     ownAccount,
		EndpointID:    endpointID,
		WatchID:       "wat_1",
		WalletAddress: "GWALLET",
		Event:         domain.Event{ID: "evt_1", Type: domain.PaymentReceived},
	}
	created := domain.DeliveryCreated{
		AccountID:     ownAccount,
		EndpointID:    endpointID,
		WatchID:       "wat_1",
		WalletAddress: "GWALLET",
		Event:         match.Event,
		Sequence:      1,
	}
	missing := domain.DeliveryCancelled{EventID: "evt_1", Reason: domain.CancelMissing}
	cancelled := domain.DeliveryCancelled{EventID: "evt_1", Reason: domain.CancelDeleted}
	other := match
	other.AccountID = "acc_other"
	for name, c := range map[string]struct {
		given *story
		when  domain.MatchInput
		then  []domain.FactBody
	}{
		"active":   {newStory(), match, facts(created)},
		"disabled": {newStory().given(domain.EndpointDisabled{}), match, facts(created)},
		"again":    {newStory().given(created), match, nil},
		"settled":  {newStory().given(created).failedRun("evt_1", 500), match, nil},
		"deleted":  {newStory().given(domain.EndpointDeleted{}), match, facts(created, cancelled)},
		"unknown":  {&story{}, match, facts(created, missing)},
		"another account's": {newStory(), other, facts(domain.DeliveryCreated{
			AccountID:     "acc_other",
			EndpointID:    endpointID,
			WatchID:       "wat_1",
			WalletAddress: "GWALLET",
			Event:         match.Event,
			Sequence:      1,
		}, missing)},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, domain.DecideMatch(c.given.endpoint, c.given.deliveries["evt_1"], c.when), nil, "",
				c.then...)
		})
	}
}

// Every delivery gets the endpoint's next number, whatever creates it, even if the endpoint is
// deleted. Facts from before there were numbers use none.
func TestEachDeliveryHasTheNextNumber(t *testing.T) {
	s := newStory().given(matched("evt_of_before"))
	next := func(facts []domain.FactBody) uint64 {
		t.Helper()
		s.given(facts...)
		return facts[0].(domain.DeliveryCreated).Sequence
	}
	match := func(id string) []domain.FactBody {
		return domain.DecideMatch(s.endpoint, domain.Delivery{}, domain.MatchInput{
			AccountID:  ownAccount,
			EndpointID: endpointID,
			WatchID:    "wat_1",
			Event:      domain.Event{ID: id, Type: domain.PaymentReceived},
			Moved:      domain.Moved{Moves: 1, Attempts: 3, Runs: 1},
		})
	}
	first := next(match("evt_1"))
	test, rejection := domain.DecideTest(s.endpoint, domain.Delivery{},
		s.command(domain.TestEndpoint{EndpointID: endpointID}), s.nowMillis)
	if rejection != nil {
		t.Fatal(rejection)
	}
	second := next(test)
	s.failedRun("evt_1", 500)
	s.given(domain.DeliveryRequeued{EventID: "evt_1", Run: 3}, domain.EndpointDeleted{})
	third, fourth := next(match("evt_2")), next(match("evt_3"))
	if first != 1 || second != 2 || third != 3 || fourth != 4 {
		t.Errorf("the numbers are %d, %d, %d, %d", first, second, third, fourth)
	}
	if none, kept := s.deliveries["evt_of_before"], s.deliveries["evt_1"]; none.Sequence != 0 ||
		kept.Sequence != 1 || s.endpoint.Sequence != 4 {
		t.Errorf("%+v, %+v, of an endpoint at %d", none, kept, s.endpoint.Sequence)
	}
}

// A delivery is in the line of its wallet if it was created while the endpoint was ordered by
// wallet. It leaves the line when it ends, and requeuing it does not put it back.
func TestWhichEventsStandInALine(t *testing.T) {
	s := newStory()
	change := func(to domain.Ordering) domain.FactBody {
		return domain.EndpointUpdated{Change: domain.EndpointChange{Ordering: &to}}
	}
	match := func(event, wallet string) domain.Delivery {
		t.Helper()
		s.given(domain.DecideMatch(s.endpoint, domain.Delivery{}, domain.MatchInput{
			AccountID:     ownAccount,
			EndpointID:    endpointID,
			WalletAddress: wallet,
			Event:         domain.Event{ID: event, Type: domain.PaymentReceived},
		})...)
		return s.deliveries[event]
	}
	before := match("evt_before", "GA")
	s.given(change(domain.OrderingWallet))
	while, ofNone := match("evt_while", "GA"), match("evt_of_none", "")
	s.given(change(domain.OrderingNone))
	after := match("evt_after", "GA")
	if before.Line != "" || while.Line != "GA" || ofNone.Line != "" || after.Line != "" {
		t.Errorf("the lines are %q, %q, %q and %q", before.Line, while.Line, ofNone.Line, after.Line)
	}
	s.given(domain.DeliveryRequeued{EventID: "evt_while", Run: 2})
	if d := s.deliveries["evt_while"]; d.Line != "GA" {
		t.Errorf("sent again before it has ended: %+v", d)
	}
	s.failedRun("evt_while", 500)
	if d := s.deliveries["evt_while"]; d.State != domain.StateFailed || d.Line != "" {
		t.Errorf("at its end: %+v", d)
	}
	s.given(domain.DeliveryRequeued{EventID: "evt_while", Run: 3})
	if d := s.deliveries["evt_while"]; d.Line != "" {
		t.Errorf("sent again: %+v", d)
	}
	s.given(change(domain.OrderingWallet), domain.EndpointDeleted{})
	if d := match("evt_late", "GA"); d.Line != "" {
		t.Errorf("of a deleted endpoint: %+v", d)
	}
}

func TestAnOrderingThatIsNone(t *testing.T) {
	for ordering, want := range map[domain.Ordering]bool{
		domain.OrderingNone: true, domain.OrderingWallet: true, "endpoint": false,
	} {
		err := domain.Command{
			ID:        "cmd_1",
			AccountID: domain.DeriveID(domain.AccountPrefix, "1"),
			Body: domain.UpdateEndpoint{
				EndpointID: domain.DeriveID(domain.EndpointPrefix, "1"),
				Change:     domain.EndpointChange{Ordering: &ordering},
			},
		}.WellFormed()
		if (err == nil) != want {
			t.Errorf("%q: %v", ordering, err)
		}
	}
}

func TestAttemptResults(t *testing.T) {
	queued := func() *story { return newStory().given(matched("evt_1")) }
	lastDue := func(s *story) *story { // after nine attempts
		for range 9 {
			s.attempt("evt_1", domain.AttemptResult{StatusCode: 500})
		}
		return s
	}
	gone, none := domain.DisabledGone, domain.DisabledReason("")
	ping := func() *story {
		return newStory().causedBy("cmd_1",
			domain.DeliveryCreated{
				AccountID:  ownAccount,
				EndpointID: endpointID,
				Event:      domain.Event{ID: "evt_1", Type: domain.TestPing},
			})
	}
	nineteen := func(s *story) *story {
		return lastDue(s.failedRuns("evt_x", 19))
	}
	status := func(code int) domain.AttemptResult { return domain.AttemptResult{StatusCode: code} }
	for name, c := range map[string]struct {
		given   *story
		when    domain.AttemptResult
		state   domain.DeliveryState
		disable domain.DisabledReason
	}{
		"200": {queued(), status(200), domain.StateDelivered, none},
		"299": {queued(), status(299), domain.StateDelivered, none},
		"200, too large": {
			queued(), domain.AttemptResult{StatusCode: 200, Error: domain.AttemptBodyTooLarge},
			domain.StateDelivered, none,
		},
		"200, cut off": {
			queued(), domain.AttemptResult{StatusCode: 200, Error: domain.AttemptTimeout},
			domain.StateWaiting, none,
		},
		"404": {queued(), status(404), domain.StateWaiting, none},
		"301": {
			queued(), domain.AttemptResult{StatusCode: 301, Error: domain.AttemptRedirect},
			domain.StateWaiting, none,
		},
		"no answer": {
			queued(), domain.AttemptResult{Error: domain.AttemptDNS}, domain.StateWaiting,
			none,
		},
		"410": {queued(), status(410), domain.StateWaiting, gone},
		"410, too large": {
			queued(), domain.AttemptResult{StatusCode: 410, Error: domain.AttemptBodyTooLarge},
			domain.StateWaiting, gone,
		},
		"410, cut off": {
			queued(), domain.AttemptResult{StatusCode: 410, Error: domain.AttemptTimeout},
			domain.StateWaiting, none,
		},
		"410 to a test": {ping(), status(410), domain.StateWaiting, gone},
		"410, disabled": {
			queued().given(domain.EndpointDisabled{}), status(410), domain.StateWaiting, none,
		},
		"410, the tenth": {lastDue(queued()), status(410), domain.StateFailed, gone},
		"500, the tenth": {lastDue(queued()), status(500), domain.StateFailed, none},
		"200, the tenth": {lastDue(queued()), status(200), domain.StateDelivered, none},
		"the twentieth run": {
			nineteen(queued()), status(500), domain.StateFailed,
			domain.DisabledConsecutiveFailures,
		},
		"410 ends the twentieth run": {nineteen(queued()), status(410), domain.StateFailed, gone},
		"the twentieth, disabled": {
			nineteen(queued()).given(domain.EndpointDisabled{Reason: domain.DisabledManual}),
			status(500), domain.StateFailed, none,
		},
		"the twentieth, enabled before": {
			nineteen(queued()).given(domain.EndpointDisabled{}, domain.EndpointEnabled{}),
			status(500), domain.StateFailed, none,
		},
		"the twentieth, of a test": {nineteen(ping()), status(500), domain.StateFailed, none},
		"disabled": {
			queued().given(domain.EndpointDisabled{}), status(500), domain.StateWaiting, none,
		},
		"disabled, 200": {
			queued().given(domain.EndpointDisabled{}), status(200), domain.StateDelivered,
			none,
		},
		"deleted": {
			queued().given(domain.EndpointDeleted{}), status(500), domain.StateCancelled, none,
		},
		"deleted, 200": {
			queued().given(domain.EndpointDeleted{}), status(200), domain.StateDelivered, none,
		},
		"deleted, 410": {
			queued().given(domain.EndpointDeleted{}), status(410), domain.StateCancelled, none,
		},
		"cancelled": {
			queued().given(domain.EndpointDeleted{}, domain.DeliveryCancelled{EventID: "evt_1"}),
			status(200), domain.StateCancelled, none,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.given.deliveries["evt_1"]
			facts := c.given.attempt("evt_1", c.when)
			made := facts[0].(domain.AttemptMade)
			after := c.given.deliveries["evt_1"]
			if after.State != c.state || after.Attempts != before.Attempts+1 ||
				made.Number != after.Attempts || made.Run != 1 || made.EventType != before.EventType {
				t.Errorf("%+v made it %+v", made, after)
			}
			if (after.NextAttemptAtMillis != 0) != after.State.Pending() {
				t.Errorf("%s with a next attempt at %d", after.State, after.NextAttemptAtMillis)
			}
			want := slices.Clone(facts[:1]) // the other facts must not come from the code under test
			if c.disable != none {
				want = append(want,
					domain.EndpointDisabled{
						Reason:         c.disable,
						EventID:        "evt_1",
						LastStatusCode: c.when.StatusCode,
						LastError:      c.when.Error,

						FailingSinceMillis: made.Trouble.SinceMillis,
					})
				if made.EventType != domain.TestPing && made.Trouble.SinceMillis != startedAt {
					t.Errorf("the trouble began at %d", made.Trouble.SinceMillis)
				}
			}
			expect(t, facts, nil, "", want...)
			if again := domain.DecideAttempt(c.given.endpoint, after, made.Number, c.when, c.given.policy,
				startedAt); len(again) != 0 {
				t.Errorf("the same attempt is recorded twice (G7): %+v", again)
			}
		})
	}
}

func TestTheStreak(t *testing.T) {
	s := newStory().failedRuns("evt_", 19)
	if s.endpoint.ConsecutiveFailures != 19 {
		t.Fatalf("%d after 19 failed runs", s.endpoint.ConsecutiveFailures)
	}
	s.given(domain.DeliveryCreated{
		Event: domain.Event{ID: "evt_test", Type: domain.TestPing},
	}).attempt("evt_test", domain.AttemptResult{StatusCode: 200})
	if s.endpoint.ConsecutiveFailures != 19 {
		t.Error("a delivered test resets the streak")
	}
	s.given(domain.DeliveryRequeued{
		EventID:             "evt_a",
		Run:                 2,
		NextAttemptAtMillis: s.nowMillis,
	}).failedRun("evt_a", 500)
	if s.endpoint.Status != domain.StatusDisabled || s.endpoint.ConsecutiveFailures != 20 ||
		s.endpoint.DisabledReason != domain.DisabledConsecutiveFailures {
		t.Errorf("a replay that fails is the twentieth run, and the endpoint is %+v", s.endpoint)
	}
	s.given(domain.EndpointEnabled{})
	if s.endpoint.ConsecutiveFailures != 0 {
		t.Error("enabling keeps the streak")
	}
	s.failedRuns("evt_y", 3).given(matched("evt_z")).attempt("evt_z",
		domain.AttemptResult{StatusCode: 500})
	s.attempt("evt_z", domain.AttemptResult{StatusCode: 204})
	if s.endpoint.ConsecutiveFailures != 0 {
		t.Error("a success, though not the first attempt, keeps the streak")
	}
	s.policy.DisableAfter = 0
	if s.failedRuns("evt_n", 26); s.endpoint.Status != domain.StatusActive {
		t.Error("0 disables")
	}
}

// A receiver can lengthen a wait, at most to the base of the next step, and only if the policy
// honours Retry-After.
func TestRetryAfter(t *testing.T) {
	schedule := domain.Schedule{WaitsMillis: []int64{30 * second, 120 * second, 600 * second}}
	for _, c := range []struct {
		honoured         bool
		attemptsBefore   int
		asksSeconds      int64
		atLeast, atMost  int64
		becauseOfTheRule string
	}{
		{false, 0, 3600, 24, 36, "the schedule stands"},
		{true, 0, 0, 24, 36, "nothing is asked"},
		{true, 0, 5, 24, 36, "it cannot shorten"},
		{true, 0, 60, 60, 60, "it lengthens"},
		{true, 0, 3600, 120, 120, "at most to the next step's base"},
		{true, 1, 3600, 600, 600, "at most to the next step's base"},
		{true, 2, 3600, 480, 720, "there is no next step"},
	} {
		s := newStory().given(matched("evt_1"))
		s.policy = domain.Policy{Schedule: schedule, HonourRetryAfter: c.honoured}
		for range c.attemptsBefore {
			s.attempt("evt_1", domain.AttemptResult{StatusCode: 500})
		}
		facts := s.attempt("evt_1",
			domain.AttemptResult{StatusCode: 503, RetryAfterMillis: c.asksSeconds * second})
		if wait := (s.deliveries["evt_1"].NextAttemptAtMillis - s.nowMillis) / second; wait < c.atLeast ||
			wait > c.atMost {
			t.Errorf("%+v: waits %d s", c, wait)
		}
		if kept := facts[0].(domain.AttemptMade).Result.RetryAfterMillis; kept != 0 {
			t.Errorf("the fact keeps %d", kept)
		}
	}
}

func TestResends(t *testing.T) {
	created := func() *story { return newStory().given(matched("evt_1")) }
	waiting := func() *story { s := created(); s.attempt("evt_1", domain.AttemptResult{}); return s }
	delivered := func() *story {
		s := created()
		s.attempt("evt_1",
			domain.AttemptResult{StatusCode: 200})
		return s
	}
	failed := func() *story { return created().failedRun("evt_1", 500) }
	secondRun := facts(domain.DeliveryRequeued{
		EventID:             "evt_1",
		Run:                 2,
		NextAttemptAtMillis: startedAt,
		Reason:              domain.RequeueResend,
	})
	again := secondRun[0].(domain.DeliveryRequeued)
	again.Body = []byte("body") // which is kept until the delivery settles
	disabled, deleted, cancelled := domain.EndpointDisabled{}, domain.EndpointDeleted{},
		domain.DeliveryCancelled{EventID: "evt_1"}
	for name, c := range map[string]struct {
		given    *story
		inFlight bool
		code     string
		then     []domain.FactBody
	}{
		"queued":             {created(), false, "", nil},
		"in flight":          {created(), true, "", nil},
		"waiting":            {waiting(), false, "", secondRun},
		"waiting, in flight": {waiting(), true, "", nil},
		"delivered":          {delivered(), false, "", facts(again)},
		"failed":             {failed(), false, "", secondRun},
		"failed, disabled":   {failed().given(disabled), false, "", secondRun},
		"cancelled":          {created().given(deleted, cancelled), false, domain.CodeNoEndpoint, nil},
		"about to be":        {waiting().given(deleted), false, domain.CodeDeliveryEnding, nil},
		"cancelled, in flight": {
			created().given(deleted, cancelled), true, domain.CodeDeliveryEnding, nil,
		},
		"delivered, deleted": {delivered().given(deleted), false, domain.CodeEndpointDeleted, nil},
		"unknown":            {newStory(), false, domain.CodeNotFound, nil},
		"of another endpoint": {
			newStory().given(domain.DeliveryCreated{
				AccountID:  ownAccount,
				EndpointID: "ep_2",
				Event:      domain.Event{ID: "evt_1"},
			}),
			false, domain.CodeNotFound, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.given
			got, rejection := domain.DecideResend(s.endpoint, s.deliveries["evt_1"], ownAccount,
				asked(""), c.inFlight, s.nowMillis)
			expect(t, got, rejection, c.code, c.then...)
			if len(got) == 0 {
				return
			}
			before := s.deliveries["evt_1"]
			d := s.given(got...).deliveries["evt_1"]
			if d.State != domain.StateQueued || d.Run != 2 || d.RunAttempts != 0 ||
				d.Attempts != before.Attempts || d.NextAttemptAtMillis != startedAt ||
				d.Version != s.endpoint.Version {
				t.Errorf("requeued as %+v", d)
			}
			if s.failedRun("evt_1", 500); s.deliveries["evt_1"].Attempts != before.Attempts+10 {
				t.Errorf("a new run made %d attempts", s.deliveries["evt_1"].Attempts-before.Attempts)
			}
		})
	}
}

// asked returns a command that resends evt_1 to another endpoint, with the event's body from the
// history.
func asked(to string) domain.ResendEvent {
	return domain.ResendEvent{
		EndpointID:   endpointID,
		EventID:      "evt_1",
		ToEndpointID: to,
		Remembered:   &domain.Remembered{Body: []byte("body")},
	}
}

// A forgotten delivery is recalled from the history, if the history is up to date, and then
// resent like any other. If the delivery moved to another endpoint, even an outdated history is
// enough to know where.
func TestAForgottenDeliveryIsRecalled(t *testing.T) {
	was := domain.Delivery{
		EventID:    "evt_1",
		AccountID:  ownAccount,
		EndpointID: endpointID,
		WatchID:    "wat_1",
		State:      domain.StateDelivered,
		Attempts:   4,
		Run:        2,
	}
	with := func(change func(*domain.Delivery)) domain.ResendEvent {
		d, c := was, asked("ep_2")
		change(&d)
		c.Remembered.Delivery = d
		return c
	}
	same := func(*domain.Delivery) {}
	left := with(func(d *domain.Delivery) { d.State, d.MovedTo = domain.StateCancelled, "ep_2" })
	recalled := facts(domain.DeliveryRecalled{Delivery: was})
	for name, c := range map[string]struct {
		asked    domain.ResendEvent
		account  string
		upToDate bool
		code     string
		then     []domain.FactBody
	}{
		"settled":            {with(same), ownAccount, true, "", recalled},
		"a history behind":   {with(same), ownAccount, false, domain.CodeHistoryBehind, nil},
		"of another account": {with(same), "acc_other", true, "", nil},
		"pending there": {
			with(func(d *domain.Delivery) { d.State = domain.StateWaiting }), ownAccount, true, "", nil,
		},
		"unknown there":          {asked("ep_2"), ownAccount, true, "", nil},
		"unknown to one behind":  {asked("ep_2"), ownAccount, false, domain.CodeHistoryBehind, nil},
		"gone on, by one behind": {left, ownAccount, false, "", nil},
		"nothing is known of it": {
			domain.ResendEvent{EndpointID: endpointID}, ownAccount, true, "", nil,
		},
		"gone on, and of a strange": {left, "acc_other", false, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, rejection := domain.DecideRestoreDelivery(domain.Delivery{}, c.account, c.asked, c.upToDate)
			expect(t, got, rejection, c.code, c.then...)
			got, rejection = domain.DecideRestoreDelivery(was, c.account, c.asked, c.upToDate)
			if len(got) > 0 ||
				rejection != nil {
				t.Errorf("one that is here is recalled: %+v, %+v", got, rejection)
			}
		})
	}
	s := newStory().given(recalled...)
	d := s.deliveries["evt_1"]
	if d.State != domain.StateDelivered || d.Attempts != 4 || d.Version != s.endpoint.Version {
		t.Fatalf("recalled as %+v", d)
	}
	got, rejection := domain.DecideResend(s.endpoint, d, ownAccount, asked(""), false, s.nowMillis)
	expect(t, got, rejection, "", domain.DeliveryRequeued{
		EventID:             "evt_1",
		Run:                 3,
		NextAttemptAtMillis: startedAt,
		Reason:              domain.RequeueResend,
		Body:                []byte("body"),
	})
	got, rejection = domain.DecideResend(s.endpoint, left.Left(), "acc_other", left, false,
		s.nowMillis)
	expect(t, got, rejection, domain.CodeNotFound)
	got, rejection = domain.DecideResend(s.endpoint, left.Left(), ownAccount, left, false, s.nowMillis)
	expect(t, got, rejection, "")
}

// An event whose delivery was cancelled can move to another endpoint once, and keeps its history.
func TestAnEventOfACancelledDeliveryMoves(t *testing.T) {
	cancelled := func(m domain.DeliveryCreated) *story {
		return newStory().given(m, domain.EndpointDeleted{}, domain.DeliveryCancelled{EventID: "evt_1"})
	}
	ask := func(s *story, to string) ([]domain.FactBody, *domain.Rejection) {
		return domain.DecideResend(s.endpoint, s.deliveries["evt_1"], ownAccount, asked(to), false,
			s.nowMillis)
	}
	s := cancelled(matched("evt_1"))
	got, rejection := ask(s, "ep_2")
	moved := domain.DeliveryMoved{
		EventID:      "evt_1",
		ToEndpointID: "ep_2",
		Moves:        1,
		Body:         []byte("body"),
	}
	expect(t, got, rejection, "", moved)
	s.causedBy("cmd_7", moved)
	if d := s.deliveries["evt_1"]; d.State != domain.StateCancelled || d.MovedTo != "ep_2" ||
		d.MovedBy != "cmd_7" {
		t.Errorf("moved as %+v", d)
	}
	for _, to := range []string{"ep_2", "ep_3", ""} { // already handed over
		got, rejection = ask(s, to)
		expect(t, got, rejection, "")
	}

	later := matched("evt_1")
	later.Moved = domain.Moved{Moves: 2, FormerEndpointIDs: []string{"ep_0", "ep_2"}}
	for _, to := range []string{endpointID, "ep_0", "ep_2"} { // it was there before
		got, rejection = ask(cancelled(later), to)
		expect(t, got, rejection, domain.CodeNoEndpoint)
	}
	often := matched("evt_1")
	often.Moved.Moves = domain.MaxMoves
	got, rejection = ask(cancelled(often), "ep_2")
	expect(t, got, rejection, domain.CodeTooManyMoves)
	for _, ours := range []domain.EventType{ // events that belong to no watch do not move
		domain.TestPing, domain.EndpointFailingEvent, domain.EndpointDisabledEvent,
	} {
		test := matched("evt_1")
		test.WatchID, test.Event.Type = "", ours
		got, rejection = ask(cancelled(test), "ep_2")
		expect(t, got, rejection, domain.CodeDeliveryCancelled)
		if notice := ours.TellsOfEndpoint(); strings.Contains(rejection.Detail, "noticesTo") != notice {
			t.Errorf("%s: %s", ours, rejection.Detail)
		}
	}
	for _, c := range []domain.ResendEvent{ // the body of a settled event is only in the history
		{EndpointID: endpointID, EventID: "evt_1", ToEndpointID: "ep_2"},
		{
			EndpointID: endpointID, EventID: "evt_1", ToEndpointID: "ep_2",
			Remembered: new(domain.Remembered{}),
		},
	} {
		s := cancelled(matched("evt_1"))
		got, rejection = domain.DecideResend(s.endpoint, s.deliveries["evt_1"], ownAccount, c, false,
			s.nowMillis)
		expect(t, got, rejection, domain.CodeHistoryBehind)
		s = newStory().given(matched("evt_1"))
		s.attempt("evt_1", domain.AttemptResult{StatusCode: 200})
		got, rejection = domain.DecideResend(s.endpoint, s.deliveries["evt_1"], ownAccount, c, false,
			s.nowMillis)
		expect(t, got, rejection, domain.CodeHistoryBehind)
	}
}

// When an event moves, its counts of attempts and runs continue, and the receiving endpoint
// stores a single delivery.
func TestAMovedEventGoesOn(t *testing.T) {
	s := newStory().given(matched("evt_1"))
	for range 3 {
		s.attempt("evt_1", domain.AttemptResult{StatusCode: 500})
	}
	s.given(domain.EndpointDeleted{}, domain.DeliveryCancelled{EventID: "evt_1"},
		domain.DeliveryMoved{EventID: "evt_1", ToEndpointID: "ep_2", Moves: 1})
	before := s.deliveries["evt_1"]
	in := before.HandOver([]byte(`{"data":{"watch":{"walletAddress":"GABC"}}}`))
	want := domain.Moved{Moves: 1, Attempts: 3, Runs: 1, FormerEndpointIDs: []string{endpointID}}
	if in.EndpointID != "ep_2" || in.WatchID != "wat_1" || in.WalletAddress != "GABC" ||
		in.Event.ID != "evt_1" || !reflect.DeepEqual(in.Moved, want) {
		t.Errorf("handed over as %+v", in)
	}

	in.EndpointID = endpointID // from here on the only endpoint is the receiving one
	to := newStory()
	facts := domain.DecideMatch(to.endpoint, domain.Delivery{}, in)
	d := to.given(facts...).deliveries["evt_1"]
	if d.State != domain.StateQueued || d.Attempts != 3 || d.Run != 2 || d.RunAttempts != 0 ||
		d.Moves != 1 {
		t.Errorf("goes on as %+v", d)
	}
	if again := domain.DecideMatch(to.endpoint, d, in); len(again) != 0 {
		t.Errorf("arrives twice: %+v", again)
	}
	before.EndpointID = "ep_0" // the former endpoint is in the same partition
	if facts := domain.DecideMatch(to.endpoint, before, in); len(facts) != 1 {
		t.Errorf("the latest delivery does not replace the one before: %+v", facts)
	}
	if seen := d.SeenFrom("ep_0"); seen.MovedTo != endpointID || seen.State != domain.StateCancelled {
		t.Errorf("the former endpoint knows of %+v", seen)
	}
	if seen := d.SeenFrom(endpointID); !reflect.DeepEqual(seen, d) {
		t.Errorf("its own endpoint knows of %+v", seen)
	}
	// A resend at the former endpoint is no error. The delivery continues at its current
	// endpoint.
	for account, code := range map[string]string{ownAccount: "", "acc_other": domain.CodeNotFound} {
		facts, rejection := domain.DecideResend(domain.Endpoint{ID: "ep_0"}, d, account,
			domain.ResendEvent{EndpointID: "ep_0", EventID: "evt_1"}, false, to.nowMillis)
		expect(t, facts, rejection, code)
	}
}

func TestReplays(t *testing.T) {
	s := newStory()
	var failed []domain.Delivery
	for n := range 4 { // recorded long after their events were created, as after an outage
		id := fmt.Sprint("evt_", n)
		m := matched(id)
		m.Event.CreatedAtMillis = startedAt + int64(n)*second
		s.at(startedAt+3600*second).given(m).failedRun(id, 500)
		failed = append(failed, s.deliveries[id])
	}
	s.given(matched("evt_waiting")).attempt("evt_waiting", domain.AttemptResult{})
	ping := matched("evt_ping")
	ping.Event.Type, ping.Event.CreatedAtMillis = domain.TestPing, startedAt+2*second
	s.given(ping).failedRun("evt_ping", 500)
	candidates := append(failed, s.deliveries["evt_waiting"], s.deliveries["evt_ping"])
	for name, c := range map[string]struct {
		since, until int64
		want         []string
	}{
		"all":             {0, 0, []string{"evt_0", "evt_1", "evt_2", "evt_3"}},
		"since, included": {startedAt + second, 0, []string{"evt_1", "evt_2", "evt_3"}},
		"since, past it":  {startedAt + second + 1, 0, []string{"evt_2", "evt_3"}},
		"until, excluded": {startedAt + second, startedAt + 3*second, []string{"evt_1", "evt_2"}},
		"until, past it": {
			startedAt + second, startedAt + 3*second + 1, []string{"evt_1", "evt_2", "evt_3"},
		},
		"nothing":   {startedAt + 4*second, 0, nil},
		"backwards": {startedAt + 2*second, startedAt + second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var want []domain.FactBody
			for i, id := range c.want { // due in the order of their events
				want = append(want,
					domain.DeliveryRequeued{
						EventID:             id,
						Run:                 2,
						NextAttemptAtMillis: s.nowMillis + int64(i),
						Reason:              domain.RequeueReplay,
					})
			}
			got, result, rejection := domain.DecideReplay(s.endpoint, ownAccount,
				domain.ReplayEndpoint{SinceMillis: c.since, UntilMillis: c.until}, candidates, len(want),
				s.nowMillis)
			expect(t, got, rejection, "", want...)
			if result != (domain.ReplayResult{Queued: len(want), Matched: len(want)}) {
				t.Errorf("says %+v", result)
			}
		})
	}
	many := make([]domain.Delivery, domain.MaxReplay+5)
	for n := range many {
		many[n] = domain.Delivery{EventID: fmt.Sprint("evt_", n), State: domain.StateFailed, Run: 1}
	}
	s.given(domain.EndpointDisabled{})
	got, result, rejection := domain.DecideReplay(s.endpoint, ownAccount, domain.ReplayEndpoint{},
		many,
		3000, s.nowMillis)
	if rejection != nil || len(got) != 1000 || got[0].(domain.DeliveryRequeued).EventID != "evt_0" ||
		result != (domain.ReplayResult{Queued: 1000, Matched: 3000, Truncated: true}) {
		t.Errorf("%d facts, %+v, %v", len(got), result, rejection)
	}
	got, result, _ = domain.DecideReplay(s.endpoint, ownAccount, domain.ReplayEndpoint{}, many[:1000],
		1000, s.nowMillis)
	if len(got) != 1000 || result != (domain.ReplayResult{Queued: 1000, Matched: 1000}) {
		t.Errorf("%d facts, %+v", len(got), result)
	}
}

// Deliveries that are still failed at the endpoint are queued in the order in which they were
// chosen, each once, at most 1,000. The result shows whether some were left out.
func TestChosenReplays(t *testing.T) {
	s := newStory().failedRuns("evt_", 3)
	s.given(matched("evt_waiting")).attempt("evt_waiting", domain.AttemptResult{})
	ping, elsewhere := matched("evt_ping"), s.deliveries["evt_a"]
	ping.Event.Type = domain.TestPing
	s.given(ping).failedRun("evt_ping", 500)
	elsewhere.EventID, elsewhere.EndpointID = "evt_elsewhere", "ep_2"
	s.deliveries["evt_elsewhere"] = elsewhere
	for name, c := range map[string]struct {
		chosen  string
		matched int
		queued  string
		want    domain.ReplayResult
	}{
		"in their order": {"evt_c evt_a", 2, "evt_c evt_a", domain.ReplayResult{Queued: 2, Matched: 2}},
		"twice": {
			"evt_a evt_b evt_a", 3, "evt_a evt_b", domain.ReplayResult{Queued: 2, Matched: 3},
		},
		"others": {
			"evt_waiting evt_ping evt_elsewhere evt_b", 4, "evt_b",
			domain.ReplayResult{Queued: 1, Matched: 4},
		},
		"none": {"", 0, "", domain.ReplayResult{}},
		"of more": {
			"evt_b", 2, "evt_b", domain.ReplayResult{Queued: 1, Matched: 2, Truncated: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ids := strings.Fields(c.chosen)
			var candidates []domain.Delivery
			for _, id := range ids {
				candidates = append(candidates, s.deliveries[id])
			}
			var want []domain.FactBody
			for i, id := range strings.Fields(c.queued) {
				want = append(want, domain.DeliveryRequeued{
					EventID: id, Run: 2, NextAttemptAtMillis: s.nowMillis + int64(i),
					Reason: domain.RequeueReplay,
				})
			}
			asked := domain.ReplayEvents{EndpointID: endpointID, EventIDs: ids, Matched: c.matched}
			got, result, rejection := domain.DecideReplayEvents(s.endpoint, ownAccount, asked, candidates,
				s.nowMillis)
			expect(t, got, rejection, "", want...)
			if result != c.want {
				t.Errorf("says %+v", result)
			}
			got, _, rejection = domain.DecideReplayEvents(s.endpoint, "acc_other", asked, candidates,
				s.nowMillis)
			expect(t, got, rejection, domain.CodeNotFound)
		})
	}
	many := make([]domain.Delivery, 1001)
	for n := range many {
		many[n] = domain.Delivery{
			EventID: fmt.Sprint("evt_", n), EndpointID: endpointID, State: domain.StateFailed,
		}
	}
	got, result, _ := domain.DecideReplayEvents(s.endpoint, ownAccount,
		domain.ReplayEvents{EndpointID: endpointID}, many, s.nowMillis)
	if len(got) != 1000 || result.Queued != 1000 {
		t.Errorf("%d facts, %+v", len(got), result)
	}
}

// A test command creates one test.ping delivery and is answered once.
func TestTests(t *testing.T) {
	s := newStory()
	c := s.command(domain.TestEndpoint{EndpointID: endpointID})
	eventID := domain.TestEventID(c.ID)
	body := `{"id":"` + eventID + `","type":"test.ping","apiVersion":"2026-11-01","createdAt":"2023-11-14T22:13:20.000Z","data":{"endpoint":{"id":"ep_1","url":"https://shop.example/hook","description":"shop"}}}`
	created, rejection := domain.DecideTest(s.endpoint, domain.Delivery{}, c, s.nowMillis)
	expect(t, created, rejection, "", domain.DeliveryCreated{
		AccountID:    ownAccount,
		EndpointID:   endpointID,
		TestBodyHash: []byte("hash"),
		Event: domain.Event{
			ID:              eventID,
			Type:            domain.TestPing,
			CreatedAtMillis: startedAt,
			Body:            []byte(body),
		},
		Sequence: 1,
	})
	s.causedBy(c.ID, created...)
	queued := s.deliveries[eventID]
	again, rejection := domain.DecideTest(s.endpoint, queued, c, s.nowMillis)
	expect(t, again, rejection, "")
	deleted := s.endpoint
	deleted.Status = domain.StatusDeleted
	again, rejection = domain.DecideTest(deleted, queued, c, s.nowMillis)
	expect(t, again, rejection, "") // the end of the delivery answers the command
	r := domain.AttemptResult{StatusCode: 500, DurationMillis: 5}
	made := s.attempt(eventID, r)[0].(domain.AttemptMade)
	handled, ok := domain.TestAnswered(queued, made)
	if !ok || handled.CommandID != c.ID || string(handled.BodyHash) != "hash" ||
		handled.Answer.Test == nil || handled.Answer.Test.EventID != eventID ||
		handled.Answer.Test.Result.StatusCode != 500 {
		t.Errorf("answered %+v, %v", handled, ok)
	}
	waiting := s.deliveries[eventID]
	if _, ok := domain.TestAnswered(waiting, s.attempt(eventID, r)[0].(domain.AttemptMade)); ok {
		t.Error("the second attempt answers too")
	}
	if _, ok := domain.TestAnswered(newStory().given(matched("evt_1")).deliveries["evt_1"],
		domain.AttemptMade{Number: 1}); ok {
		t.Error("a payment's attempt answers a command")
	}
	forgotten, rejection := domain.DecideTest(s.endpoint, s.deliveries[eventID], c, s.nowMillis)
	expect(t, forgotten, rejection, domain.CodeAlreadyExists)
	for code, fact := range map[string]domain.FactBody{
		domain.CodeEndpointDisabled: domain.EndpointDisabled{},
		domain.CodeNotFound:         domain.EndpointDeleted{},
	} {
		s := newStory().given(fact)
		facts, rejection := domain.DecideTest(s.endpoint, domain.Delivery{}, c, s.nowMillis)
		expect(t, facts, rejection, code)
	}
}

// Only the receiver of a sample sees a payment, and everything else sees a test.ping. The payment
// has no value and belongs to no wallet.
func TestASampleIsATestOfAnotherForm(t *testing.T) {
	s := newStory()
	c := s.command(domain.TestEndpoint{EndpointID: endpointID, Sample: domain.PaymentReceived})
	got, rejection := domain.DecideTest(s.endpoint, domain.Delivery{}, c, s.nowMillis)
	zeros, wallet := strings.Repeat("0", 64), "G"+strings.Repeat("A", 52)+"WHF"
	expect(t, got, rejection, "", domain.DeliveryCreated{
		AccountID:    ownAccount,
		EndpointID:   endpointID,
		TestBodyHash: []byte("hash"),
		Event: domain.Event{
			ID:              domain.TestEventID(c.ID),
			Type:            domain.TestPing,
			CreatedAtMillis: startedAt,
			Body: []byte(`{"id":"` + domain.TestEventID(c.ID) + `","type":"payment.received",` +
				`"apiVersion":"2026-11-01","createdAt":"2023-11-14T22:13:20.000Z","data":{"payment":` +
				`{"id":"0","txHash":"` + zeros + `","ledger":1,"ledgerClosedAt":"2023-11-14T22:13:20Z",` +
				`"from":"` + wallet + `","to":"` + wallet + `","toMuxedId":null,"memo":"sample",` +
				`"memoType":"text","asset":{"code":"XLM","issuer":null},"amount":"0.0000000",` +
				`"amountStroops":"0"},"watch":{"id":"wat_00000000000000000000000000",` +
				`"label":"sample: no payment","walletAddress":"` + wallet + `"},` +
				`"verification":{"outcome":"VERIFIED","reasons":[]}}}`),
		},
		Sequence: 1,
	})
}

// A delivery that has not ended awaits its next attempt, even if it was cancelled in the
// meantime.
func TestWhichAttemptIsAwaited(t *testing.T) {
	open := domain.Delivery{
		EventID: "evt_1", EndpointID: endpointID, State: domain.StateWaiting, Attempts: 2,
	}
	for name, c := range map[string]struct {
		change func(*domain.Delivery)
		number int
		want   bool
	}{
		"the next":       {func(*domain.Delivery) {}, 3, true},
		"one made":       {func(*domain.Delivery) {}, 2, false},
		"a later one":    {func(*domain.Delivery) {}, 4, false},
		"queued":         {func(d *domain.Delivery) { d.State = domain.StateQueued }, 3, true},
		"cancelled":      {func(d *domain.Delivery) { d.State = domain.StateCancelled }, 3, true},
		"delivered":      {func(d *domain.Delivery) { d.State = domain.StateDelivered }, 3, false},
		"failed":         {func(d *domain.Delivery) { d.State = domain.StateFailed }, 3, false},
		"handed over":    {func(d *domain.Delivery) { d.MovedTo = "ep_2" }, 3, false},
		"at another":     {func(d *domain.Delivery) { d.EndpointID = "ep_2" }, 3, false},
		"never existing": {func(d *domain.Delivery) { d.EventID = "" }, 3, false},
	} {
		d := open
		c.change(&d)
		a := domain.Attempt{EventID: "evt_1", EndpointID: endpointID, Number: c.number}
		if got := d.Awaits(a); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Pending deliveries of a deleted endpoint are cancelled (G3).
func TestCancelling(t *testing.T) {
	cancelled := domain.DeliveryCancelled{EventID: "evt_1", Reason: domain.CancelDeleted}
	deleted := domain.EndpointDeleted{}
	cancel := func(s *story) []domain.FactBody {
		return domain.DecideCancel(s.endpoint,
			s.deliveries["evt_1"])
	}
	created := func() *story { return newStory().given(matched("evt_1")) }
	expect(t, cancel(created()), nil, "")
	expect(t, cancel(created().given(domain.EndpointDisabled{})), nil, "")
	expect(t, cancel(created().given(deleted)), nil, "", cancelled)
	waiting := created()
	waiting.attempt("evt_1", domain.AttemptResult{})
	expect(t, cancel(waiting.given(deleted)), nil, "", cancelled)
	expect(t, cancel(created().failedRun("evt_1", 500).given(deleted)), nil, "")
	expect(t, cancel(created().given(deleted, cancelled)), nil, "")
	expect(t, cancel(newStory().given(deleted)), nil, "")
}

// A test that was never sent is answered with the reason. A test that was attempted has been
// answered with that attempt, and waits like any other delivery.
func TestATestThatIsNotSentIsAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		then      domain.FactBody
		attempted bool
		code      string
		facts     int
	}{
		"disabled":            {domain.EndpointDisabled{}, false, domain.CodeEndpointDisabled, 2},
		"deleted":             {domain.EndpointDeleted{}, false, domain.CodeNotFound, 2},
		"nothing happened":    {domain.SecretRotated{}, false, "", 0},
		"attempted, disabled": {domain.EndpointDisabled{}, true, "", 0},
		"attempted, deleted":  {domain.EndpointDeleted{}, true, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			asked := s.command(domain.TestEndpoint{})
			ping, _ := domain.DecideTest(s.endpoint, domain.Delivery{}, asked, startedAt)
			id := domain.TestEventID(asked.ID)
			s.causedBy(asked.ID, ping...)
			if c.attempted {
				s.attempt(id, domain.AttemptResult{StatusCode: 500})
			}
			s.given(c.then)
			facts := domain.DecideCancel(s.endpoint, s.deliveries[id])
			if len(facts) != c.facts {
				t.Fatalf("facts %+v", facts)
			}
			if c.code == "" {
				return
			}
			reason := domain.CancelDisabled
			if s.endpoint.Deleted() {
				reason = domain.CancelDeleted
			}
			if facts[0] != (domain.DeliveryCancelled{EventID: id, Reason: reason}) {
				t.Errorf("cancelled: %+v", facts[0])
			}
			handled, ok := facts[1].(domain.CommandHandled)
			if !ok || handled.CommandID != asked.ID || handled.Answer.Rejection == nil ||
				handled.Answer.Rejection.Code != c.code {
				t.Errorf("facts %+v", facts)
			}
		})
	}
}

func TestAnEpochIsTheEndpointsAtTheLastFact(t *testing.T) {
	s := newStory().given(matched("evt_1"), matched("evt_2"), domain.EndpointDisabled{},
		domain.EndpointEnabled{})
	s.attempt("evt_2", domain.AttemptResult{})
	if s.deliveries["evt_1"].EndpointEpoch != 0 || s.deliveries["evt_2"].EndpointEpoch != 1 ||
		s.endpoint.Epoch != 1 {
		t.Errorf("epochs %+v", s.deliveries)
	}
}
