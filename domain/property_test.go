package domain_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lumenhook/lumenhook/domain"
)

// TestEverySequence feeds random sequences of inputs to an endpoint with several deliveries, as
// the engine does. After every step it checks the guarantees in docs/architecture.md against an
// independent model.
func TestEverySequence(t *testing.T) {
	reached := make(map[string]int)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		steps := w.steps()
		for range rapid.SampledFrom([]int{10, 100, 400, 800}).Draw(t, "steps") {
			steps[rapid.IntRange(0, len(steps)-1).Draw(t, "step")](t)
			w.check(t)
		}
		w.checkRefold(t)
		w.checkTracked(t)
		w.tally(reached)
		w.tallyMails(reached)
	})
	if testing.Short() { // rapid tries a fifth of the sequences, which reach fewer states
		return
	}
	for _, want := range []string{
		"QUEUED", "WAITING", "DELIVERED", "FAILED", "CANCELLED", "moved", "gone",
		"consecutive_failures", "manual", "deleted", "requeued", "tested", "three runs", "mail ordered",
		"mail sent", "mail retried", "mail refused", "mail nobody",
	} {
		if reached[want] == 0 {
			t.Errorf("no sequence came to %s: the test holds less than it says (%v)", want, reached)
		}
	}
}

// steps returns the inputs. Frequent inputs are listed several times.
func (w *world) steps() []func(*rapid.T) {
	enable := func(t *rapid.T) { w.ask(t, domain.EnableEndpoint{}) }
	disable := func(t *rapid.T) { w.ask(t, domain.DisableEndpoint{}) }
	rotate := func(t *rapid.T) { w.ask(t, domain.RotateSecret{SealedSecret: []byte("x")}) }
	reseal := func(t *rapid.T) {
		w.ask(t,
			domain.ResealSecrets{Values: []domain.Resealed{
				{Was: []byte("x"), Sealed: []byte("y")}, {Was: []byte("0"), Sealed: []byte("1")},
			}})
	}
	return []func(*rapid.T){
		w.start, w.start, w.start, w.start, w.outcome, w.outcome, w.outcome, w.outcome, w.outcome,
		w.outcome, w.pass, w.pass, w.pass,
		w.match, w.match, w.match, w.test, w.outcomeAgain, w.outcomeOfNone, w.resend, w.resend, w.replay,
		w.replay,
		w.mail, w.mail, w.mail, w.mail, w.mail, w.mail, w.mail, w.mail, enable, enable, enable, disable,
		w.update, rotate, reseal, w.delete,
		w.sweep,
	}
}

func (w *world) tally(reached map[string]int) {
	reached[string(w.endpoint.Status)]++
	for _, f := range w.facts {
		if b, ok := f.Body.(domain.EndpointDisabled); ok {
			reached[string(b.Reason)]++
		}
		if _, ok := f.Body.(domain.DeliveryRequeued); ok {
			reached["requeued"]++
		}
	}
	for _, d := range w.deliveries {
		reached[string(d.State)]++
		if d.MovedTo != "" {
			reached["moved"]++
		}
		if d.Run > 2 {
			reached["three runs"]++
		}
		if d.TestCommandID != "" && d.Attempts > 0 {
			reached["tested"]++
		}
	}
}

// world is the story of one endpoint, together with the rest of the engine's state.
type world struct {
	story
	facts    []domain.Fact
	inFlight map[string]int        // number of the attempt in flight, by event
	made     map[string][]int      // numbers of the recorded attempts, by event
	ended    map[string]int        // attempts with an outcome, by event
	answered map[string]int        // answers to test commands, by command
	runs     map[string]int        // runs that have begun, by event
	streak   int                   // counted independently
	status   domain.EndpointStatus // likewise
}

func newWorld() *world {
	w := &world{
		story: story{
			deliveries: make(map[string]domain.Delivery),
			notices:    make(map[uint64]domain.Notice),
			nowMillis:  startedAt,
			policy: domain.Policy{
				Schedule:     domain.Schedule{WaitsMillis: []int64{1000, 5000}},
				DisableAfter: 2,
			},
		},
		inFlight: make(map[string]int),
		made:     make(map[string][]int),
		ended:    make(map[string]int),
		answered: make(map[string]int),
		runs:     make(map[string]int),
		status:   domain.StatusActive,
	}
	w.record(nil, "",
		domain.EndpointCreated{
			EndpointID:       endpointID,
			AccountID:        ownAccount,
			EndpointSettings: domain.EndpointSettings{URL: "https://shop.example/0"},
			Secret:           domain.SealedSecret{Sealed: []byte("0")},
		})
	return w
}

// record folds facts and checks that the state diagram allows each transition of a delivery.
func (w *world) record(t *rapid.T, commandID string, bodies ...domain.FactBody) {
	for _, body := range bodies {
		id := eventOf(body)
		before := w.deliveries[id]
		w.causedBy(commandID, body)
		w.facts = append(w.facts,
			domain.Fact{
				Aggregate: endpointID,
				Version:   w.endpoint.Version,
				AtMillis:  w.nowMillis,
				Cause:     commandID,
				Body:      body,
			})
		if id != "" && !before.State.Allows(body, w.deliveries[id].State) {
			t.Fatalf("%s leads from %q to %s", body.FactType(), before.State, w.deliveries[id].State)
		}
		if made, ok := body.(domain.AttemptMade); ok && made.State == domain.StateWaiting &&
			w.endpoint.Deleted() {
			t.Fatal("G3: a delivery waits for a deleted endpoint")
		}
		w.keepCount(t, body)
	}
}

// keepCount counts independently of the fold.
func (w *world) keepCount(t *rapid.T, body domain.FactBody) {
	switch b := body.(type) {
	case domain.DeliveryCreated:
		w.runs[b.Event.ID] = 1
	case domain.DeliveryRequeued:
		w.runs[b.EventID]++
	case domain.EndpointEnabled:
		w.streak, w.status = 0, domain.StatusActive
	case domain.EndpointDisabled:
		if w.status != domain.StatusActive {
			t.Fatalf("an endpoint that is %s was disabled", w.status)
		}
		w.status = domain.StatusDisabled
	case domain.EndpointDeleted:
		w.status = domain.StatusDeleted
	case domain.AttemptMade:
		w.made[b.EventID] = append(w.made[b.EventID], b.Number)
		switch {
		case b.EventType == domain.TestPing || w.status == domain.StatusDeleted:
		case b.State == domain.StateDelivered:
			w.streak = 0
		case b.State == domain.StateFailed && w.status == domain.StatusActive:
			w.streak++
		}
	case domain.CommandHandled:
		w.answered[b.CommandID]++
	default: // counts nothing
	}
}

func (w *world) check(t *rapid.T) {
	e := w.endpoint
	switch {
	case e.Version != uint64(len(w.facts)):
		t.Fatalf("version %d after %d facts", e.Version, len(w.facts))
	case e.Status != w.status:
		t.Fatalf("the endpoint is %s and should be %s", e.Status, w.status)
	case w.status != domain.StatusDeleted &&
		e.ConsecutiveFailures != w.streak, e.ConsecutiveFailures > w.policy.DisableAfter:
		t.Fatalf("a streak of %d, counted by hand %d", e.ConsecutiveFailures, w.streak)
	case e.Status == domain.StatusActive && e.ConsecutiveFailures >= w.policy.DisableAfter:
		t.Fatalf("active after %d failed runs in a row", e.ConsecutiveFailures)
	case (e.DisabledReason != "") != (e.Status == domain.StatusDisabled),
		(e.DisabledAtMillis != 0) != (e.Status == domain.StatusDisabled):
		t.Fatalf("%s because of %q at %d", e.Status, e.DisabledReason, e.DisabledAtMillis)
	case e.Revision > e.Version, e.EnabledVersion > e.Revision:
		t.Fatalf("version %d, revision %d, enabled at %d", e.Version, e.Revision, e.EnabledVersion)
	}
	for id, d := range w.deliveries {
		w.checkDelivery(t, id, d)
	}
}

func (w *world) checkDelivery(t *rapid.T, id string, d domain.Delivery) {
	switch {
	case d.State.Pending() != (d.NextAttemptAtMillis != 0):
		// G3: a pending delivery has a next attempt
		t.Fatalf("G3: %s with a next attempt at %d", d.State, d.NextAttemptAtMillis)
	case d.Attempts != len(w.made[id]), d.Attempts != w.ended[id]: // G7
		t.Fatalf("G7: %d attempts, %d in the history, %d were made", d.Attempts, len(w.made[id]),
			w.ended[id])
	case d.RunAttempts > w.policy.Schedule.Attempts():
		t.Fatalf("%d attempts in one run", d.RunAttempts)
	case d.Run != w.runs[id]:
		t.Fatalf("run %d of %d", d.Run, w.runs[id])
	case d.State == domain.StateFailed && d.RunAttempts != w.policy.Schedule.Attempts():
		// G3: not before the end of its schedule
		t.Fatalf("G3: FAILED after %d attempts", d.RunAttempts)
	case d.State == domain.StateCancelled && w.status != domain.StatusDeleted:
		t.Fatalf("G3: cancelled while the endpoint is %s", w.status)
	case d.Version > w.endpoint.Version, d.EndpointEpoch > w.endpoint.Epoch:
		t.Fatalf("%+v is ahead of its endpoint %+v", d, w.endpoint)
	}
	for i, number := range w.made[id] {
		if number != i+1 {
			t.Fatalf("G7: the history has the attempts %v", w.made[id])
		}
	}
	if c := d.TestCommandID; c != "" && w.answered[c] != min(1, d.Attempts+settled(d)) {
		t.Fatalf("a test with %d attempts, %s, was answered %d times", d.Attempts, d.State, w.answered[c])
	}
}

func settled(d domain.Delivery) int {
	if d.State.Pending() {
		return 0
	}
	return 1
}

// checkRefold checks that folding the facts again yields the same states (G4).
func (w *world) checkRefold(t *rapid.T) {
	again := story{
		deliveries: make(map[string]domain.Delivery),
		notices:    make(map[uint64]domain.Notice),
	}
	for _, f := range w.facts {
		again.at(f.AtMillis).causedBy(f.Cause, f.Body)
	}
	if !reflect.DeepEqual(again.endpoint, w.endpoint) ||
		!reflect.DeepEqual(again.deliveries, w.deliveries) ||
		!reflect.DeepEqual(again.notices, w.notices) {
		t.Fatal("G4: folded again, the states differ")
	}
}

// checkTracked checks that a delivery can be folded from its own facts and from those that change
// whether its endpoint sends, and that the check for missing facts accepts each of them.
func (w *world) checkTracked(t *rapid.T) {
	for id, want := range w.deliveries {
		var tracked domain.TrackedDelivery
		for _, f := range w.facts {
			switch f.Body.(type) {
			case domain.EndpointCreated, domain.EndpointDisabled, domain.EndpointEnabled,
				domain.EndpointDeleted:
			default:
				if f.EventID() != id {
					continue
				}
			}
			if !tracked.Precedes(f) {
				t.Fatalf("%+v does not precede %+v", tracked, f)
			}
			tracked = tracked.Evolve(f)
		}
		if !reflect.DeepEqual(tracked.Delivery, want) {
			t.Fatalf("tracked, %s is %+v, want %+v", id, tracked.Delivery, want)
		}
		held := want.State.Pending() && w.endpoint.Status == domain.StatusDisabled
		if tracked.Held() != held {
			t.Fatalf("%s is held: %t", id, tracked.Held())
		}
	}
}

func (w *world) match(t *rapid.T) {
	id := fmt.Sprint("evt_", rapid.IntRange(0, 4).Draw(t, "payment"))
	before := w.deliveries[id]
	facts := domain.DecideMatch(w.endpoint, before, domain.MatchInput{
		AccountID:  ownAccount,
		EndpointID: endpointID,
		WatchID:    "wat_1",
		Event: domain.Event{
			ID:              id,
			Type:            domain.PaymentReceived,
			CreatedAtMillis: startedAt + rapid.Int64Range(0, 20_000).Draw(t, "created"),
		},
	})
	if before.Exists() == (len(facts) > 0) {
		t.Fatalf("G2: %d facts for a match that was seen: %v", len(facts), before.Exists())
	}
	w.record(t, "", facts...)
}

func (w *world) test(t *rapid.T) {
	c := domain.Command{
		ID:        fmt.Sprint("cmd_", rapid.IntRange(0, 2).Draw(t, "test")),
		AccountID: ownAccount,
		Body:      domain.TestEndpoint{EndpointID: endpointID},
	}
	if w.answered[c.ID] > 0 {
		return // the engine repeats its answer without deciding anything
	}
	delivery := w.deliveries[domain.TestEventID(c.ID)]
	facts, rejection := domain.DecideTest(w.endpoint, delivery, c, w.nowMillis)
	if delivery.Exists() && len(facts) > 0 || rejection != nil && w.endpoint.Sends() {
		t.Fatalf("%+v, %+v", facts, rejection)
	}
	w.record(t, c.ID, facts...)
}

// start begins the attempts that are due, as the engine may.
func (w *world) start(t *rapid.T) {
	if !w.endpoint.Sends() {
		return
	}
	for id, d := range w.deliveries {
		due := d.NextAttemptAtMillis <= w.nowMillis || d.EndpointEpoch != w.endpoint.Epoch
		if _, busy := w.inFlight[id]; d.State.Pending() && due && !busy {
			w.inFlight[id] = d.Attempts + 1
		}
	}
}

func (w *world) pick(t *rapid.T, ids map[string]int) (string, bool) {
	if len(ids) == 0 {
		return "", false
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(ids))).Draw(t, "event"), true
}

func (w *world) end(t *rapid.T, id string, number int) []domain.FactBody {
	r := domain.AttemptResult{
		StatusCode: rapid.SampledFrom([]int{0, 200, 204, 301, 410, 500, 500, 500, 500}).Draw(t,
			"status"),
		Error: rapid.SampledFrom([]domain.AttemptError{
			"", "", "", domain.AttemptBodyTooLarge, domain.AttemptTimeout,
		}).Draw(t, "error"),
		RetryAfterMillis: rapid.Int64Range(0, 9000).Draw(t, "retry after"),
	}
	before := w.deliveries[id]
	facts := domain.DecideAttempt(w.endpoint, before, number, r, w.policy, w.nowMillis)
	if len(facts) > 0 {
		if handled, ok := domain.TestAnswered(before, facts[0].(domain.AttemptMade)); ok {
			facts = append(facts, handled)
		}
	}
	w.record(t, "", facts...)
	return facts
}

func (w *world) outcome(t *rapid.T) {
	id, ok := w.pick(t, w.inFlight)
	if !ok {
		return
	}
	number := w.inFlight[id]
	delete(w.inFlight, id)
	w.ended[id]++
	if len(w.end(t, id, number)) == 0 {
		t.Fatalf("G7: attempt %d of %s is not recorded", number, w.deliveries[id].State)
	}
	if d := w.deliveries[id]; d.State == domain.StateWaiting && d.NextAttemptAtMillis <= w.nowMillis {
		t.Fatalf("waits until the past: %+v", d)
	}
}

func (w *world) outcomeAgain(t *rapid.T) {
	if id, ok := w.pick(t, w.ended); ok &&
		len(w.end(t, id, rapid.IntRange(1, w.ended[id]).Draw(t, "number"))) > 0 {
		t.Fatal("G7: an attempt is recorded twice")
	}
}

// outcomeOfNone reports outcomes of attempts that cannot have started yet.
func (w *world) outcomeOfNone(t *rapid.T) {
	if id, ok := w.pick(t, w.runs); ok && len(w.end(t, id, w.ended[id]+2)) > 0 {
		t.Fatal("an attempt is recorded before the one that precedes it")
	}
}

func (w *world) resend(t *rapid.T) {
	id, ok := w.pick(t, w.runs)
	if !ok {
		return
	}
	_, busy := w.inFlight[id]
	before := w.deliveries[id]
	to := rapid.SampledFrom([]string{"", "ep_2", "ep_3"}).Draw(t, "the watch's endpoint")
	body := domain.ResendEvent{
		EndpointID:   endpointID,
		EventID:      id,
		ToEndpointID: to,
		Remembered:   &domain.Remembered{Body: []byte("body")},
	}
	facts, rejection := domain.DecideResend(w.endpoint, before, ownAccount, body, busy, w.nowMillis)
	doubled := busy || before.State == domain.StateQueued || before.MovedTo != ""
	moves := before.State == domain.StateCancelled && before.WatchID != "" && to != "" && !busy
	refused := w.endpoint.Deleted() && !moves && before.MovedTo == ""
	if refused != (rejection != nil) || rejection == nil && doubled == (len(facts) > 0) {
		t.Fatalf("a resend of %s to %q, under way %v: %+v, %+v", before.State, to, busy, facts, rejection)
	}
	w.record(t, "", facts...)
}

func (w *world) replay(t *rapid.T) {
	if w.endpoint.Deleted() {
		return
	}
	since := startedAt + rapid.Int64Range(0, 20_000).Draw(t, "since")
	all := slices.SortedFunc(maps.Values(w.deliveries),
		func(a, b domain.Delivery) int { return int(a.CreatedAtMillis - b.CreatedAtMillis) })
	facts, result, rejection := domain.DecideReplay(w.endpoint, ownAccount,
		domain.ReplayEndpoint{EndpointID: endpointID, SinceMillis: since}, all, 0, w.nowMillis)
	want := 0
	for _, d := range all {
		if d.State == domain.StateFailed && d.EventType != domain.TestPing && d.CreatedAtMillis >= since {
			want++
		}
	}
	if rejection != nil || result.Queued != want || len(facts) != want {
		t.Fatalf("%+v, %+v, not %d", result, rejection, want)
	}
	w.record(t, "", facts...)
}

// ask decides a command about the endpoint alone.
func (w *world) ask(t *rapid.T, body domain.CommandBody) []domain.FactBody {
	facts, rejection := domain.DecideEndpoint(w.endpoint,
		domain.Command{AccountID: ownAccount, Body: body}, w.nowMillis)
	if w.endpoint.Deleted() != (rejection != nil) {
		t.Fatalf("%s: %+v", body.CommandType(), rejection)
	}
	before := w.endpoint
	w.record(t, "", facts...)
	if _, reseals := body.(domain.ResealSecrets); reseals {
		if w.endpoint.Revision != before.Revision ||
			w.endpoint.UpdatedAtMillis != before.UpdatedAtMillis ||
			len(w.endpoint.Secrets) != len(before.Secrets) {
			t.Fatalf("another seal changed %+v to %+v", before, w.endpoint)
		}
		return facts
	}
	if (len(facts) > 0) != (w.endpoint.Revision == w.endpoint.Version &&
		w.endpoint.Version > before.Version) {
		t.Fatalf("%d facts moved the revision from %d to %d", len(facts), before.Revision,
			w.endpoint.Revision)
	}
	return facts
}

func (w *world) update(t *rapid.T) {
	url := fmt.Sprint("https://shop.example/", rapid.IntRange(0, 2).Draw(t, "url"))
	w.ask(t, domain.UpdateEndpoint{Change: domain.EndpointChange{URL: &url}})
	if !w.endpoint.Deleted() && w.endpoint.URL != url {
		t.Fatalf("updated to %s, not %s", w.endpoint.URL, url)
	}
}

// delete is rare because little happens after it.
func (w *world) delete(t *rapid.T) {
	if rapid.IntRange(0, 19).Draw(t, "whether") == 0 {
		w.ask(t, domain.DeleteEndpoint{})
	}
}

// sweep cancels a pending delivery of a deleted endpoint.
func (w *world) sweep(t *rapid.T) {
	id, ok := w.pick(t, w.runs)
	if ok && w.endpoint.Deleted() {
		w.record(t, "", domain.DecideCancel(w.endpoint, w.deliveries[id])...)
		if w.deliveries[id].State.Pending() {
			t.Fatalf("%s after it was cancelled", w.deliveries[id].State)
		}
	}
}

// pass advances the clock, and sometimes sets it back by up to two hours.
func (w *world) pass(t *rapid.T) {
	w.nowMillis += rapid.OneOf(rapid.Int64Range(0,
		10_000), rapid.Int64Range(-7_200_000, 7_200_000)).Draw(
		t, "millis",
	)
}

// Whatever the times of the rotations, a secret signs until exactly 24 hours after the rotation
// that replaced it.
func TestValidSecrets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStory()
		names, replacedAt := []string{"secret 0"}, []int64{}
		for range rapid.IntRange(0, 12).Draw(t, "rotations") {
			s.at(s.nowMillis + rapid.OneOf(rapid.Int64Range(0,
				1000), rapid.Int64Range(0, 40*3_600_000)).Draw(
				t, "later",
			))
			name := fmt.Sprint("secret ", len(names))
			facts, rejection := domain.DecideEndpoint(s.endpoint,
				s.command(domain.RotateSecret{SealedSecret: []byte(name)}), s.nowMillis)
			if rejection != nil {
				t.Fatal(*rejection)
			}
			s.given(facts...)
			names, replacedAt = append(names, name), append(replacedAt, s.nowMillis)
			at := s.nowMillis + rapid.Int64Range(0, 30*3_600_000).Draw(t, "looked at")
			var want []string
			for i := len(names) - 1; i >= 0; i-- {
				if i == len(names)-1 || at < replacedAt[i]+24*3_600_000 {
					want = append(want, names[i])
				}
			}
			var got []string
			for _, v := range s.endpoint.ValidSecrets(at) {
				got = append(got, string(v.Sealed))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%v sign, not %v", got, want)
			}
		}
	})
}

// TestTwoDays runs deliveries through the whole schedule with a virtual clock. Each must make ten
// attempts within two days, give or take the jitter.
func TestTwoDays(t *testing.T) {
	const deliveries = 1000
	s := newStory()
	s.policy.DisableAfter = 0
	var base int64
	for _, wait := range s.policy.Schedule.WaitsMillis {
		base += wait
	}
	var total int64
	for n := range deliveries {
		id := fmt.Sprint("evt_", n)
		s.at(startedAt).given(matched(id))
		for s.deliveries[id].State.Pending() {
			s.at(s.deliveries[id].NextAttemptAtMillis).attempt(id, domain.AttemptResult{StatusCode: 503})
		}
		d := s.deliveries[id]
		took := s.nowMillis - startedAt
		if d.State != domain.StateFailed || d.Attempts != 10 || took < base*8/10 || took > base*12/10 {
			t.Fatalf("%s after %d attempts and %d s", d.State, d.Attempts, took/1000)
		}
		total += took
	}
	if mean := total / deliveries; mean < base*99/100 || mean > base*101/100 {
		t.Errorf("deliveries took %d s on average, and the schedule's waits are %d s", mean/1000,
			base/1000)
	}
	if s.endpoint.ConsecutiveFailures != deliveries {
		t.Errorf("a streak of %d", s.endpoint.ConsecutiveFailures)
	}
}
