package engine_test

import (
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const hour = 3_600_000

// policy waits an hour after the first attempt, so that only enabling, a replay or a resend can
// cause a second attempt during a test.
func policy(waitsMillis ...int64) domain.Policy {
	return domain.Policy{Schedule: domain.Schedule{WaitsMillis: waitsMillis}, DisableAfter: 3}
}

func (r *rig) ask(id string, body domain.CommandBody) domain.Answer {
	r.t.Helper()
	r.append(r.command(id, body))
	var results []domain.Result
	testkit.Eventually(r.t, "an answer to "+id, func() bool {
		results = r.results(id)
		return len(results) > 0
	})
	return results[0].Answer
}

// endpoint creates the n-th endpoint and returns its ID. Its path identifies it to the receiver.
func (r *rig) endpoint(n int) string {
	r.t.Helper()
	id := domain.DeriveID(domain.EndpointPrefix, "lifecycle", strconv.Itoa(n))
	answer := r.ask("cmd_endpoint_"+strconv.Itoa(n), domain.CreateEndpoint{
		EndpointID:       id,
		AccountID:        accountID,
		EndpointSettings: domain.EndpointSettings{URL: r.url(n)},
		SealedSecret:     []byte(secret),
	})
	if answer.Endpoint == nil {
		r.t.Fatalf("creating an endpoint was answered %+v", answer)
	}
	return id
}

func (r *rig) url(n int) string { return r.receiver.server.URL + "/" + strconv.Itoa(n) }

func (r *rig) pay(endpointID string, from, count int) (eventIDs []string) {
	r.t.Helper()
	var records []kafka.Record
	for n := from; n < from+count; n++ {
		m := domain.Match{
			EventID: domain.EventID(endpointID, strconv.Itoa(n)),
			Type:    domain.PaymentReceived,
			Watch: domain.Watch{
				ID:            watchID,
				AccountID:     accountID,
				EndpointID:    endpointID,
				WalletAddress: "GTO",
			},
			Payment: domain.Payment{
				ID:            strconv.Itoa(n),
				To:            "GTO",
				From:          "GFROM",
				Asset:         domain.NativeAsset(),
				AmountStroops: int64(n),
			},
			Verification: domain.Verification{Outcome: domain.OutcomeVerified},
		}
		message := schemas.EncodePaymentMatched(m, domain.NewPaymentEvent(m, int64(n)))
		records = append(records,
			kafka.NewRecord(schemas.TopicMatches, endpointID, message.Value, message.EachHeader))
		eventIDs = append(eventIDs, m.EventID)
	}
	r.append(records...)
	return eventIDs
}

func (r *rig) journal() []domain.Fact {
	r.t.Helper()
	var facts []domain.Fact
	for _, rec := range r.read(schemas.TopicJournal) {
		f, err := schemas.DecodeFact(schemas.Read(rec.Value, rec))
		if err != nil {
			r.t.Fatal(err)
		}
		facts = append(facts, f)
	}
	return facts
}

// fold returns an endpoint and its deliveries as recorded in the journal.
func (r *rig) fold(endpointID string) (e domain.Endpoint, deliveries map[string]domain.Delivery) {
	r.t.Helper()
	deliveries = make(map[string]domain.Delivery)
	for _, f := range r.journal() {
		if f.Aggregate != endpointID {
			continue
		}
		var d domain.Delivery
		id := f.EventID()
		if e, d = domain.EvolveEndpoint(e, deliveries[id], f); id != "" {
			deliveries[id] = d
		}
	}
	return e, deliveries
}

// opening is the number of deliveries that fully open a window.
const opening = 64

// openWindow has an endpoint's receiver succeed until its window is open. The tests need it before
// they answer 404, which does not change the window.
func (r *rig) openWindow(endpointID string) {
	r.t.Helper()
	r.receiver.answer(status(200))
	r.pay(endpointID, 100_000, opening)
	r.eventuallyIn(endpointID, domain.StateDelivered, opening)
}

func (r *rig) eventuallyIn(endpointID string, state domain.DeliveryState, count int) {
	r.t.Helper()
	testkit.Eventually(r.t, fmt.Sprintf("%d deliveries %s", count, state), func() bool {
		_, deliveries := r.fold(endpointID)
		n := 0
		for _, d := range deliveries {
			if d.State == state {
				n++
			}
		}
		return n == count
	})
}

func status(code int) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(code) }
}

// A 410 disables the endpoint at once, and its pending deliveries are held (G3). Matches are still
// recorded. Enabling sends all of them, due or not, even on an engine that has just rebuilt its
// state.
func TestGoneDisablesAndEnablingResumes(t *testing.T) {
	t.Parallel()
	for name, restarted := range map[string]bool{"in one go": false, "over a lost state": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			stop := r.startWith(r.dir, policy(hour, hour))
			id := r.endpoint(1)
			r.receiver.answer(status(500))
			r.pay(id, 0, 20)
			r.eventuallyIn(id, domain.StateWaiting, 20)
			r.receiver.answer(status(410))
			gone := r.pay(id, 100, 1)[0]
			testkit.Eventually(t, "disabled", func() bool { return r.facts()["EndpointDisabled"] == 1 })
			r.pay(id, 200, 300)
			r.eventuallyIn(id, domain.StateQueued, 300)
			e, deliveries := r.fold(id)
			if e.Status != domain.StatusDisabled || e.DisabledReason != domain.DisabledGone ||
				deliveries[gone].State != domain.StateWaiting {
				t.Fatalf("after a 410: %+v, and its delivery %+v", e, deliveries[gone])
			}
			if restarted {
				stop()
				stop = r.startWith(filepath.Join(t.TempDir(), "lost"), policy(hour, hour))
			}
			if n := r.facts()["AttemptMade"]; n != 21 {
				t.Fatalf("%d attempts, some of them while disabled", n)
			}
			r.receiver.answer(status(200))
			answer := r.ask("cmd_enable", domain.EnableEndpoint{EndpointID: id})
			if answer.Endpoint == nil || answer.Endpoint.Status != domain.StatusActive {
				t.Fatalf("enabling was answered %+v", answer)
			}
			r.eventuallyIn(id, domain.StateDelivered, 321)
			stop()
		})
	}
}

// The third enabling must also send the deliveries that the two earlier ones left pending.
func TestDisabledAgainBeforeAllWasSent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.startWith(r.dir, policy(hour, hour))()
	id := r.endpoint(1)
	r.ask("cmd_off", domain.DisableEndpoint{EndpointID: id})
	r.pay(id, 0, 50)
	r.eventuallyIn(id, domain.StateQueued, 50)
	r.receiver.answer(status(410)) // the first attempt disables it again
	for n := range 2 {
		r.ask("cmd_on_"+strconv.Itoa(n), domain.EnableEndpoint{EndpointID: id})
		testkit.Eventually(t, "disabled again",
			func() bool { return r.facts()["EndpointDisabled"] == n+2 })
		r.pay(id, 100*(n+1), 50)
	}
	testkit.Eventually(t, "150 deliveries", func() bool { return r.facts()["DeliveryCreated"] == 150 })
	r.receiver.answer(status(200))
	r.ask("cmd_on_last", domain.EnableEndpoint{EndpointID: id})
	r.eventuallyIn(id, domain.StateDelivered, 150)
}

func TestRunsThatFailInARowDisable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.startWith(r.dir, policy(1))()
	id := r.endpoint(1)
	r.receiver.answer(status(500))
	for n := range 3 {
		r.pay(id, n, 1)
		r.eventuallyIn(id, domain.StateFailed, n+1)
	}
	e, _ := r.fold(id)
	if e.Status != domain.StatusDisabled || e.DisabledReason != domain.DisabledConsecutiveFailures {
		t.Fatalf("after three failed runs: %+v", e)
	}
	var row domain.Endpoint
	for _, rec := range r.read(schemas.TopicEndpoints) {
		var err error
		if row, err = schemas.DecodeEndpoint(schemas.Read(rec.Value, rec)); err != nil {
			t.Fatal(err)
		}
	}
	if row.Status != domain.StatusDisabled || row.ConsecutiveFailures != 3 {
		t.Errorf("the row is %+v", row)
	}
}

// A replay queues the failed deliveries of the time range in a new run, up to the limit of one
// replay.
func TestReplayQueuesFailedDeliveriesAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.startWith(r.dir, domain.Policy{})()
	id := r.endpoint(1)
	const events = domain.MaxReplay + 200
	r.openWindow(id)
	r.receiver.answer(status(404))
	ids := r.pay(id, 1, events)
	r.eventuallyIn(id, domain.StateFailed, events)
	_, before := r.fold(id)
	newest := int64(0)
	for _, d := range before {
		if d.State == domain.StateFailed {
			newest = max(newest, d.CreatedAtMillis)
		}
	}
	r.receiver.answer(status(200))
	answer := r.ask("cmd_none", domain.ReplayEndpoint{EndpointID: id, SinceMillis: newest + 1})
	if *answer.Replay != (domain.ReplayResult{}) {
		t.Errorf("a replay of nothing was answered %+v", answer.Replay)
	}
	answer = r.ask("cmd_before", domain.ReplayEndpoint{EndpointID: id, UntilMillis: 1})
	if *answer.Replay != (domain.ReplayResult{}) {
		t.Errorf("a replay of what is older than all was answered %+v", answer.Replay)
	}
	answer = r.ask("cmd_replay", domain.ReplayEndpoint{EndpointID: id, UntilMillis: newest + 1})
	if *answer.Replay != (domain.ReplayResult{
		Queued:    domain.MaxReplay,
		Matched:   events,
		Truncated: true,
	}) {
		t.Errorf("a replay was answered %+v", answer.Replay)
	}
	r.eventuallyIn(id, domain.StateDelivered, opening+domain.MaxReplay)
	_, first := r.fold(id)
	oldestLeft, newestSent := int64(math.MaxInt64), int64(0)
	for _, d := range first {
		switch {
		case d.State == domain.StateFailed:
			oldestLeft = min(oldestLeft, d.CreatedAtMillis)
		case d.Run == 2:
			newestSent = max(newestSent, d.CreatedAtMillis)
		}
	}
	if newestSent > oldestLeft {
		t.Errorf("a delivery of %d was replayed before one of %d", newestSent, oldestLeft)
	}
	answer = r.ask("cmd_rest", domain.ReplayEndpoint{EndpointID: id})
	if *answer.Replay != (domain.ReplayResult{Queued: 200, Matched: 200}) {
		t.Errorf("a second replay was answered %+v", answer.Replay)
	}
	r.eventuallyIn(id, domain.StateDelivered, opening+events)
	_, after := r.fold(id)
	for _, eventID := range ids {
		if d := after[eventID]; d.Attempts != 2 || d.Run != 2 {
			t.Fatalf("%+v", d)
		}
		r.receiver.mu.Lock()
		if got := r.receiver.got[eventID]; len(got) != 2 || got[0] != got[1] {
			t.Errorf("%s was sent as %q", eventID, got)
		}
		r.receiver.mu.Unlock()
	}
}

// A resend sends a delivered event again byte for byte, sends a pending event immediately, and does
// not duplicate an attempt in flight.
func TestResend(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.startWith(r.dir, policy(hour, hour))()
	id := r.endpoint(1)
	eventID := r.pay(id, 1, 1)[0]
	r.eventuallyIn(id, domain.StateDelivered, 1)
	r.receiver.mu.Lock()
	sent := []byte(r.receiver.got[eventID][0])
	r.receiver.mu.Unlock()
	answer := r.ask("cmd_again", domain.ResendEvent{
		EndpointID: id,
		EventID:    eventID,
		Remembered: &domain.Remembered{Body: sent},
	})
	if answer.Delivery == nil || answer.Delivery.State != domain.StateQueued ||
		answer.Delivery.Run != 2 {
		t.Fatalf("a resend was answered %+v", answer)
	}
	testkit.Eventually(t, "the second", func() bool { return r.receiver.attempts(eventID) == 2 })
	r.receiver.mu.Lock()
	if got := r.receiver.got[eventID]; got[1] != got[0] {
		t.Errorf("sent again as %q, not %q", got[1], got[0])
	}
	r.receiver.mu.Unlock()

	held := make(chan struct{})
	r.receiver.answer(func(w http.ResponseWriter, _ *http.Request, _ int) {
		<-held
		w.WriteHeader(500)
	})
	under := r.pay(id, 2, 1)[0]
	testkit.Eventually(t, "under way", func() bool { return r.receiver.attempts(under) == 1 })
	answer = r.ask("cmd_under_way", domain.ResendEvent{EndpointID: id, EventID: under})
	if answer.Delivery == nil || answer.Delivery.Run != 1 {
		t.Errorf("a resend of what is under way was answered %+v", answer)
	}
	r.receiver.answer(status(200))
	close(held)
	r.eventuallyIn(id, domain.StateWaiting, 1)
	r.ask("cmd_waiting", domain.ResendEvent{EndpointID: id, EventID: under})
	r.eventuallyIn(id, domain.StateDelivered, 2)
	if n := r.receiver.attempts(under); n != 2 {
		t.Errorf("sent %d times", n)
	}
	answer = r.ask("cmd_unknown", domain.ResendEvent{EndpointID: id, EventID: "evt_none"})
	if answer.Rejection == nil || answer.Rejection.Code != domain.CodeNotFound {
		t.Errorf("a resend of nothing was answered %+v", answer)
	}
}

// After rotations, each of the secrets verifies on its own.
func TestRotationSignsWithBoth(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.start(r.dir)()
	id := r.endpoint(1)
	for n, name := range []string{"whsec_second", "whsec_third"} {
		r.ask("cmd_rotate_"+strconv.Itoa(n),
			domain.RotateSecret{EndpointID: id, SealedSecret: []byte(name)})
	}
	var header, sentAt string
	r.receiver.answer(func(w http.ResponseWriter, req *http.Request, _ int) {
		header = req.Header.Get("Webhook-Signature")
		sentAt = req.Header.Get("Webhook-Timestamp")
	})
	for n, only := range []domain.Secret{secret, "whsec_second", "whsec_third"} {
		r.receiver.mu.Lock()
		r.receiver.secrets = []domain.Secret{only}
		r.receiver.mu.Unlock()
		eventID := r.pay(id, n, 1)[0]
		r.eventuallyIn(id, domain.StateDelivered, n+1)
		r.receiver.mu.Lock()
		body := []byte(r.receiver.got[eventID][0])
		r.receiver.mu.Unlock()
		newest, _, _ := strings.Cut(header, ",")
		err := domain.Verify(newest, sentAt, body, []domain.Secret{"whsec_third"}, time.Now().Unix())
		if err != nil || strings.Count(header, "v1=") != 3 {
			t.Errorf("header %q: %v", header, err)
		}
	}
}

// The engine sends a test at once, although the endpoint has a backlog and a full window. It
// retries a failed test like any other delivery. A repeated command gets the same answer and sends
// nothing.
func TestTestIsAnsweredByItsFirstAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.startWith(r.dir, policy(hour, hour))()
	id := r.endpoint(1)
	held := make(chan struct{})
	defer close(held)
	r.receiver.answer(func(w http.ResponseWriter, req *http.Request, _ int) {
		if req.Header.Get("Webhook-Id") == domain.TestEventID("cmd_test") {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		<-held
	})
	r.pay(id, 0, 100)
	testkit.Eventually(t, "a full window", func() bool { return r.receiver.events() >= 2 })
	answer := r.ask("cmd_test", domain.TestEndpoint{EndpointID: id})
	if answer.Test == nil || answer.Test.Result.StatusCode != http.StatusTeapot ||
		answer.Test.EventID != domain.TestEventID("cmd_test") {
		t.Fatalf("a test was answered %+v", answer)
	}
	r.append(r.command("cmd_test", domain.TestEndpoint{EndpointID: id}))
	testkit.Eventually(t, "the answer again", func() bool { return len(r.results("cmd_test")) == 2 })
	if again := r.results("cmd_test")[1]; !again.Replayed || again.Answer.Test == nil ||
		r.receiver.attempts(domain.TestEventID("cmd_test")) != 1 {
		t.Errorf("seen again it was answered %+v", again)
	}
	_, deliveries := r.fold(id)
	if deliveries[domain.TestEventID("cmd_test")].State != domain.StateWaiting {
		t.Errorf("a failed test is %+v", deliveries[domain.TestEventID("cmd_test")])
	}
	r.ask("cmd_off", domain.DisableEndpoint{EndpointID: id})
	if answer := r.ask("cmd_test_2", domain.TestEndpoint{EndpointID: id}); answer.Rejection == nil ||
		answer.Rejection.Code != domain.CodeEndpointDisabled {
		t.Errorf("a test of a disabled endpoint was answered %+v", answer)
	}
}

// Deleting an endpoint cancels more pending deliveries than fit in one turn, whether it is disabled
// or not. It also cancels a match that arrives later.
func TestDeletingCancelsWhatWaits(t *testing.T) {
	t.Parallel()
	for name, disabled := range map[string]bool{"active": false, "disabled": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			defer r.startWith(r.dir, policy(hour, hour))()
			id := r.endpoint(1)
			const events = 700
			r.openWindow(id)
			r.receiver.answer(status(404))
			r.pay(id, 0, events)
			r.eventuallyIn(id, domain.StateWaiting, events)
			if disabled {
				r.ask("cmd_off", domain.DisableEndpoint{EndpointID: id})
			}
			answer := r.ask("cmd_delete", domain.DeleteEndpoint{EndpointID: id})
			if answer.Endpoint == nil || !answer.Endpoint.Deleted() {
				t.Fatalf("deleting was answered %+v", answer)
			}
			r.pay(id, 10_000, 1)
			r.eventuallyIn(id, domain.StateCancelled, events+1)
			if n := r.facts()["AttemptMade"]; n != opening+events {
				t.Errorf("%d attempts", n)
			}
			answer = r.ask("cmd_enable", domain.EnableEndpoint{EndpointID: id})
			if answer.Rejection == nil || answer.Rejection.Code != domain.CodeNotFound {
				t.Errorf("enabling a deleted endpoint was answered %+v", answer)
			}
		})
	}
}

// Pending deliveries go to the endpoint's new URL with its new headers.
func TestAnotherURL(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.startWith(r.dir, policy(hour, hour))()
	id := r.endpoint(1)
	r.ask("cmd_off", domain.DisableEndpoint{EndpointID: id})
	r.pay(id, 0, 3)
	var mu sync.Mutex
	seen := make(map[string]int)
	r.receiver.answer(func(_ http.ResponseWriter, req *http.Request, _ int) {
		mu.Lock()
		defer mu.Unlock()
		seen[req.URL.Path+" "+req.Header.Get("X-Shop")]++
	})
	url := r.url(2)
	r.ask("cmd_move",
		domain.UpdateEndpoint{
			EndpointID: id,
			Change: domain.EndpointChange{
				URL:     &url,
				Headers: &[]domain.Header{{Name: "X-Shop", Sealed: []byte("blue")}},
			},
		})
	r.ask("cmd_on", domain.EnableEndpoint{EndpointID: id})
	r.eventuallyIn(id, domain.StateDelivered, 3)
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 1 || seen["/2 blue"] != 3 {
		t.Errorf("sent to %v", seen)
	}
}

type counting struct {
	engine.Dispatcher
	hangs func(domain.Attempt) bool
	mu    sync.Mutex
	now   int
	most  int
}

func (c *counting) Dispatch(a domain.Attempt, done func(domain.AttemptResult)) {
	if !c.hangs(a) {
		c.Dispatcher.Dispatch(a, done)
		return
	}
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	c.Dispatcher.Dispatch(a, func(r domain.AttemptResult) {
		c.mu.Lock()
		c.now--
		c.mu.Unlock()
		done(r)
	})
}

// There are more hanging receivers than places for attempts, and their retries keep coming. The
// healthy receivers must still get everything, because half of all places are reserved for them
// (G6).
func TestReceiversThatHangHoldBackNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const hanging, healthy = 100, 4 // with 64 places in each of two partitions
	r.timeout = 500 * time.Millisecond
	r.client = r.newClient()
	count := &counting{hangs: func(a domain.Attempt) bool { return strings.Contains(a.URL, "/hang/") }}
	r.around = func(d engine.Dispatcher) engine.Dispatcher { count.Dispatcher = d; return count }
	waits := make([]int64, 1000)
	for i := range waits {
		waits[i] = 100
	}
	defer r.startWith(r.dir, domain.Policy{Schedule: domain.Schedule{WaitsMillis: waits}})()
	r.receiver.answer(func(_ http.ResponseWriter, req *http.Request, _ int) {
		if strings.HasPrefix(req.URL.Path, "/hang/") {
			<-req.Context().Done()
		}
	})
	name := func(n int) string {
		return domain.DeriveID(domain.EndpointPrefix, "many",
			strconv.Itoa(n))
	}
	var commands []kafka.Record
	for n := range hanging + healthy {
		url := r.receiver.server.URL + "/hang/"
		if n >= hanging {
			url = r.url(n)
		}
		commands = append(commands, r.command("cmd_"+strconv.Itoa(n), domain.CreateEndpoint{
			EndpointID:       name(n),
			AccountID:        accountID,
			EndpointSettings: domain.EndpointSettings{URL: url},
			SealedSecret:     []byte(secret),
		}))
	}
	r.append(commands...)
	testkit.Eventually(t, "the endpoints",
		func() bool { return r.facts()["EndpointCreated"] == hanging+healthy })
	for n := range hanging {
		r.pay(name(n), 0, 5)
	}
	testkit.Eventually(t, "those that hang are known to",
		func() bool { return r.facts()["AttemptMade"] >= hanging })
	const events = 100
	var ids []string
	for n := hanging; n < hanging+healthy; n++ {
		ids = append(ids, r.pay(name(n), 0, events)...)
	}
	testkit.Eventually(t, "the healthy have everything", func() bool {
		return !slices.ContainsFunc(ids, func(id string) bool { return r.receiver.attempts(id) == 0 })
	})
	count.mu.Lock()
	defer count.mu.Unlock()
	if count.most > 2*32 || count.now == 0 {
		t.Errorf("%d attempts at once went to receivers that hang, of 64 that may; %d do now", count.most,
			count.now)
	}
}

// A receiver never has more concurrent requests than its window allows, or more requests in one
// second than its limit.
func TestWindowsAndRatesBoundWhatAnEndpointGets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.startWith(r.dir, policy(hour, hour))()
	id := r.endpoint(1)
	var mu sync.Mutex
	most := 0
	r.receiver.answer(func(_ http.ResponseWriter, _ *http.Request, underWay int) {
		mu.Lock()
		defer mu.Unlock()
		most = max(most, underWay)
	})
	r.pay(id, 0, 1500)
	r.eventuallyIn(id, domain.StateDelivered, 1500)
	mu.Lock()
	if most > 16 {
		t.Errorf("%d at once, and 16 are allowed", most)
	}
	mu.Unlock()

	limited := domain.DeriveID(domain.EndpointPrefix, "limited")
	const perSecond, events = 20, 50
	r.ask("cmd_limited", domain.CreateEndpoint{
		EndpointID: limited,
		AccountID:  accountID,
		EndpointSettings: domain.EndpointSettings{
			URL:                r.url(2),
			RateLimitPerSecond: perSecond,
		},
		SealedSecret: []byte(secret),
	})
	began := time.Now()
	r.pay(limited, 0, events)
	r.eventuallyIn(limited, domain.StateDelivered, events)
	// The first second's worth arrives at once, and the rest at the rate. This is a lower bound, so
	// a slow machine cannot make it fail.
	if took := time.Since(began); took < (events-perSecond-1)*time.Second/perSecond {
		t.Errorf("%d deliveries took %v at %d a second", events, took, perSecond)
	}
}

type disconnecting struct {
	engine.Dispatcher
	mu   sync.Mutex
	urls []string
}

func (f *disconnecting) Disconnect(url string) {
	f.mu.Lock()
	f.urls = append(f.urls, url)
	f.mu.Unlock()
	f.Dispatcher.Disconnect(url)
}

// The engine calls Disconnect when an endpoint's URL changes and when the endpoint is disabled or
// deleted, and only then.
func TestConnectionsGoWithTheirEndpoint(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	f := &disconnecting{}
	r.around = func(d engine.Dispatcher) engine.Dispatcher { f.Dispatcher = d; return f }
	defer r.startWith(r.dir, policy(hour))()
	id := r.endpoint(1)
	moved, description := r.url(2), "shop"
	for n, body := range []domain.CommandBody{
		domain.UpdateEndpoint{EndpointID: id, Change: domain.EndpointChange{Description: &description}},
		domain.UpdateEndpoint{EndpointID: id, Change: domain.EndpointChange{URL: &moved}},
		domain.DisableEndpoint{EndpointID: id},
		domain.EnableEndpoint{EndpointID: id},
		domain.DeleteEndpoint{EndpointID: id},
	} {
		r.ask("cmd_forget_"+strconv.Itoa(n), body)
	}
	testkit.Eventually(t, "three times", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return slices.Equal(f.urls, []string{r.url(1), moved, moved})
	})
}

// Deliveries that cannot be signed wait while the rest of the partition continues.
func TestASecretThatCannotBeOpenedHoldsBackNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.startWith(r.dir, policy(hour))()
	// With this many endpoints, some share a partition with the sealed one.
	sealed := domain.DeriveID(domain.EndpointPrefix, "sealed")
	r.ask("cmd_sealed",
		domain.CreateEndpoint{
			EndpointID:       sealed,
			AccountID:        accountID,
			EndpointSettings: domain.EndpointSettings{URL: r.url(0)},
			SealedSecret:     []byte(sealedForGood),
		})
	r.pay(sealed, 0, 3)
	r.eventuallyIn(sealed, domain.StateQueued, 3)
	for n := range 4 {
		id := r.endpoint(n + 1)
		r.pay(id, 0, 5)
		r.eventuallyIn(id, domain.StateDelivered, 5)
	}
	if e, deliveries := r.fold(sealed); e.Status != domain.StatusActive || len(deliveries) != 3 ||
		r.facts()["AttemptMade"] != 20 {
		t.Errorf("%+v, %d deliveries, %v", e, len(deliveries), r.facts())
	}
}
