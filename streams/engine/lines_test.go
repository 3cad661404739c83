package engine_test

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Spaces of the state (doc.go).
const (
	lines  = 0x1c
	behind = 0x1d
)

// inOrder returns a partition with an endpoint that orders events by wallet.
func inOrder(t *testing.T) *core {
	t.Helper()
	c := newCore(t)
	c.turn(orderedCreation(endpointID))
	return c
}

func orderedCreation(endpoint string) domain.Command {
	c := creation(endpoint)
	body := c.Body.(domain.CreateEndpoint)
	body.Ordering = domain.OrderingWallet
	c.Body = body
	return c
}

func (c *core) payTo(wallet string, events ...string) {
	c.t.Helper()
	var records []kafka.Record
	for _, event := range events {
		records = append(records, paidTo(endpointID, wallet, event))
	}
	c.take(records...)
}

func paidTo(endpoint, wallet, event string) kafka.Record {
	m := schemas.EncodePaymentMatched(
		domain.Match{
			EventID: event,
			Type:    domain.PaymentReceived,
			Watch: domain.Watch{
				ID:            watchID,
				AccountID:     accountID,
				EndpointID:    endpoint,
				WalletAddress: wallet,
			},
		},
		domain.Event{ID: event, Type: domain.PaymentReceived, Body: []byte(event)})
	return kafka.NewRecord(schemas.TopicMatches, endpoint, m.Value, m.EachHeader)
}

func (c *core) wantAttempts(when string, want ...string) {
	c.t.Helper()
	if got := c.attempted(); !slices.Equal(got, want) {
		c.t.Errorf("%s: attempted %q, not %q", when, got, want)
	}
}

func (c *core) wantFoldedAlike() {
	c.t.Helper()
	live := c.everything()
	c.reopen(true)
	if folded := c.everything(); !reflect.DeepEqual(folded, live) {
		c.t.Errorf("folded anew, the state is %q, not %q", folded, live)
	}
}

func switching(id string, to domain.Ordering) domain.Command {
	return domain.Command{ID: id, AccountID: accountID, Body: domain.UpdateEndpoint{
		EndpointID: endpointID,
		Change:     domain.EndpointChange{Ordering: &to},
	}}
}

var (
	ok200  = domain.AttemptResult{StatusCode: 200}
	fail50 = domain.AttemptResult{StatusCode: 500}
)

// The engine attempts a wallet's next event once the previous one is DELIVERED or finally FAILED.
// No other wallet waits for it.
func TestAWalletsEventsComeOneAfterAnother(t *testing.T) {
	c := inOrder(t)
	c.payTo("GA", "evt_a1", "evt_a2", "evt_a3")
	c.payTo("GB", "evt_b1", "evt_b2")
	c.wantAttempts("at first", "evt_a1", "evt_b1")
	c.done[1](ok200)
	c.turn()
	c.wantAttempts("when the other wallet's has ended", "evt_a1", "evt_b1", "evt_b2")
	c.done[2](ok200)
	c.done[0](fail50)
	c.turn()
	c.payTo("GA", "evt_a4")
	c.wantAttempts("while the first waits", "evt_a1", "evt_b1", "evt_b2")
	c.done = nil
	c.now += 2 * hour
	c.turn()
	c.wantAttempts("when it is due again", "evt_a1", "evt_b1", "evt_b2", "evt_a1")
	c.answerAll(fail50)
	c.wantAttempts("when it is FAILED", "evt_a1", "evt_b1", "evt_b2", "evt_a1", "evt_a2")
	c.wantFoldedAlike()
	c.done = c.done[len(c.done)-1:] // evt_a2 again: its attempt was lost
	for range 3 {
		c.answerAll(ok200)
	}
	c.wantAttempts("at last", "evt_a1", "evt_b1", "evt_b2", "evt_a1", "evt_a2", "evt_a2", "evt_a3",
		"evt_a4")
	c.wantHeld("lines", lines)
	c.wantHeld("places behind", behind)
	c.payTo("GA", "evt_a5")
	if last := c.attempts[len(c.attempts)-1]; last.EventID != "evt_a5" {
		t.Errorf("nothing stands before evt_a5, and %s was attempted last", last.EventID)
	}
}

// A line survives a restart with the state, without it, or from a snapshot. Another task in the
// same process takes it over with the attempt that is in flight.
func TestALineIsTakenOver(t *testing.T) {
	c := inOrder(t)
	c.payTo("GA", "evt_1", "evt_2", "evt_3", "evt_4", "evt_5", "evt_6")
	next := 1
	ends := func(when string) {
		t.Helper()
		if last := c.attempts[len(c.attempts)-1].EventID; last != fmt.Sprint("evt_", next) {
			t.Fatalf("%s: %s was attempted last, not evt_%d", when, last, next)
		}
		c.done[len(c.done)-1](ok200)
		c.done = nil
		c.turn()
		next++
	}
	ends("at first")
	c.reopen(false)
	ends("after a start")
	c.reopen(true)
	ends("after the loss of the state")
	c.snapshot, c.begins = snapshotOf(t, c), int64(len(c.journal))
	c.reopen(true)
	ends("after a start from a snapshot")
	attempts := len(c.attempts)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c.openTask()
	c.turn()
	if n := len(c.attempts) - attempts; n != 0 {
		t.Errorf("%d attempts begin beside the one that is in flight", n)
	}
	ends("by the task before")
	ends("at last")
	c.wantHeld("lines", lines)
}

// Enabling makes only the head of each line due. While an endpoint is disabled, nothing is due.
func TestEnablingMovesNoLineOn(t *testing.T) {
	c := inOrder(t)
	c.payTo("GA", "evt_1", "evt_2", "evt_3")
	c.answerAll(domain.AttemptResult{StatusCode: 410}) // disables the endpoint
	c.now += 2 * hour
	c.payTo("GA", "evt_4")
	c.wantAttempts("while it is disabled", "evt_1")
	for i := range 2 {
		c.turn(domain.Command{
			ID:        fmt.Sprint("cmd_enable_", i),
			AccountID: accountID,
			Body:      domain.EnableEndpoint{EndpointID: endpointID},
		})
		c.wantAttempts("when it is enabled", "evt_1", "evt_1")
	}
	c.reopen(true)
	c.wantAttempts("after another start", "evt_1", "evt_1", "evt_1")
	c.done = c.done[len(c.done)-1:]
	for range 4 {
		c.answerAll(ok200)
	}
	c.wantAttempts("at last", "evt_1", "evt_1", "evt_1", "evt_2", "evt_3", "evt_4")
}

// Deleting an endpoint cancels the deliveries in its lines. It cancels the head when its attempt
// ends, and leaves no entries.
func TestADeletedEndpointsLinesEnd(t *testing.T) {
	c := inOrder(t)
	var events []string
	for n := range 600 { // more than one turn can cancel
		events = append(events, fmt.Sprintf("evt_%03d", n))
	}
	c.payTo("GA", events...)
	c.now -= hour / 2 // the clock is set back, so due deliveries are no longer due
	c.turn(removal(endpointID))
	for range 5 {
		c.turn()
	}
	c.payTo("GA", "evt_late")
	c.answerAll(fail50)
	c.wantAttempts("a deleted endpoint", "evt_000")
	for _, space := range []byte{0x01, lines, behind} {
		for _, key := range c.held(space) {
			if strings.HasPrefix(key, endpointID) {
				t.Errorf("%#x%q is left", space, key)
			}
		}
	}
	c.wantFoldedAlike()
}

// Each event keeps the ordering that the endpoint had when the event arrived.
func TestTheOrderIsChangedWhileEventsWait(t *testing.T) {
	c := newCore(t)
	c.turn(creation(endpointID))
	c.payTo("GA", "evt_1", "evt_2")
	c.answerAll(ok200)
	c.turn(switching("cmd_on", domain.OrderingWallet))
	c.payTo("GA", "evt_3", "evt_4", "evt_5")
	c.wantAttempts("when it is ordered", "evt_1", "evt_2", "evt_3")
	c.turn(switching("cmd_off", domain.OrderingNone))
	c.payTo("GA", "evt_6")
	c.wantAttempts("when it is not any more", "evt_1", "evt_2", "evt_3", "evt_6")
	c.turn(switching("cmd_on_again", domain.OrderingWallet))
	c.payTo("GA", "evt_7")
	c.wantAttempts("when it is again", "evt_1", "evt_2", "evt_3", "evt_6")
	for range 4 {
		c.answerAll(ok200)
	}
	c.wantAttempts("at last", "evt_1", "evt_2", "evt_3", "evt_6", "evt_4", "evt_5", "evt_7")
}

// A replayed event waits for no other event, and no other event waits for it. A head that waits for
// its next attempt stays the head. A delivery behind it is already queued.
func TestWhatIsSentAgainGoesOutOfTurn(t *testing.T) {
	c := inOrder(t)
	resend := func(id, event string) {
		t.Helper()
		c.turn(domain.Command{ID: id, AccountID: accountID, Body: domain.ResendEvent{
			EndpointID: endpointID,
			EventID:    event,
			Remembered: &domain.Remembered{Body: []byte(event), AsOf: int64(len(c.journal))},
		}})
	}
	c.payTo("GA", "evt_1", "evt_2", "evt_3", "evt_4")
	c.answerAll(ok200)
	c.wantAttempts("at first", "evt_1", "evt_2")
	resend("cmd_ended", "evt_1")
	c.wantAttempts("what has ended", "evt_1", "evt_2", "evt_1")
	c.done[1](ok200)
	c.done[0](fail50)
	c.done = nil
	c.turn()
	resend("cmd_behind", "evt_3")
	c.wantAttempts("one that stands behind", "evt_1", "evt_2", "evt_1")
	resend("cmd_head", "evt_2")
	c.wantAttempts("a head", "evt_1", "evt_2", "evt_1", "evt_2")
	c.now += 2 * hour
	for range 2 {
		c.answerAll(fail50)
		c.now += 2 * hour
		c.turn()
	}
	c.wantAttempts("it fails", "evt_1", "evt_2", "evt_1", "evt_2", "evt_2", "evt_3")
	c.turn(domain.Command{ID: "cmd_replay", AccountID: accountID, Body: domain.ReplayEndpoint{
		EndpointID: endpointID,
	}})
	c.done[0](fail50) // a failing receiver gets one attempt at a time
	c.done = nil
	c.turn()
	c.wantAttempts("it is replayed", "evt_1", "evt_2", "evt_1", "evt_2", "evt_2", "evt_3", "evt_2")
	c.now += 2 * hour
	for range 3 {
		c.answerAll(ok200)
	}
	c.wantAttempts("at last", "evt_1", "evt_2", "evt_1", "evt_2", "evt_2", "evt_3", "evt_2", "evt_3",
		"evt_4")
	c.wantFoldedAlike()
}

// A handover joins the end of its wallet's line and keeps its earlier attempts.
func TestAHandOverStandsAtTheEnd(t *testing.T) {
	c := inOrder(t)
	c.payTo("GA", "evt_1")
	message := schemas.EncodeHandOver(domain.MatchInput{
		EndpointID:    endpointID,
		AccountID:     accountID,
		WatchID:       watchID,
		WalletAddress: "GA",
		Event:         domain.Event{ID: "evt_came", Type: domain.PaymentReceived, Body: []byte("came")},
		Moved:         domain.Moved{Moves: 1, Attempts: 2, Runs: 1, FromPartition: 5, Number: 77},
	})
	c.match(kafka.NewRecord(schemas.TopicMatches, endpointID, message.Value, message.EachHeader))
	c.payTo("GA", "evt_2")
	c.wantAttempts("at first", "evt_1")
	c.wantFoldedAlike()
	c.done = c.done[len(c.done)-1:]
	c.answerAll(ok200)
	if last := c.attempts[len(c.attempts)-1]; last.EventID != "evt_came" || last.Number != 3 ||
		string(last.Body) != "came" {
		t.Errorf("attempt %d of %s with %q", last.Number, last.EventID, last.Body)
	}
	c.answerAll(ok200)
	c.wantAttempts("at last", "evt_1", "evt_1", "evt_came", "evt_2")
}

// A test.ping is sent at once, and so are events without a wallet.
func TestTestsStandInNoLine(t *testing.T) {
	c := inOrder(t)
	c.payTo("GA", "evt_1", "evt_2")
	c.turn(domain.Command{
		ID:        "cmd_test",
		AccountID: accountID,
		Body:      domain.TestEndpoint{EndpointID: endpointID},
	})
	c.done[1](ok200)
	c.pay(endpointID, "evt_of_no_wallet")
	c.wantAttempts("with a test", "evt_1", domain.TestEventID("cmd_test"), "evt_of_no_wallet")
}

// The next event is due when its turn comes, even if the clock has been set back since it arrived.
// Found by the simulation.
func TestWhatComesNextIsDueWhenItsTurnComes(t *testing.T) {
	c := inOrder(t)
	c.now += 5 * hour
	c.payTo("GA", "evt_1", "evt_2")
	c.now -= 4 * hour
	c.turn()
	c.answerAll(ok200)
	c.wantAttempts("after the clock was set back", "evt_1", "evt_2")
}

type seen struct {
	wallet string
	number int
}

// walletsReceiver records deliveries by wallet. It fails the first attempt of every third event. It
// holds the very first request of GA until a request of GB has arrived.
type walletsReceiver struct {
	of       map[string]seen // by event
	other    chan struct{}   // closed when the first GB event has arrived
	once     sync.Once
	mu       sync.Mutex
	arrived  map[string][]int
	crowded  []string
	underWay map[string]int
	failed   map[string]bool
}

func (r *walletsReceiver) begin(event string) (s seen, held, fails bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s = r.of[event]
	if r.underWay[s.wallet]++; r.underWay[s.wallet] > 1 {
		r.crowded = append(r.crowded, event)
	}
	held = s.wallet == "GA" && len(r.arrived["GA"]) == 0
	r.arrived[s.wallet] = append(r.arrived[s.wallet], s.number)
	fails = s.number%3 == 1 && !r.failed[event]
	r.failed[event] = true
	return s, held, fails
}

func (r *walletsReceiver) handle(w http.ResponseWriter, req *http.Request, _ int) {
	s, held, fails := r.begin(req.Header.Get("Webhook-Id"))
	if s.wallet == "GB" {
		r.once.Do(func() { close(r.other) })
	}
	if held {
		<-r.other
	}
	r.mu.Lock()
	r.underWay[s.wallet]--
	r.mu.Unlock()
	if fails {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// The receiver is slow and sometimes fails. Without ordering, the events after the first one would
// arrive while it is in flight, or before its second attempt.
func TestAReceiverGetsAWalletsEventsInTheirOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stop := r.start(r.dir)
	r.append(r.command("cmd_endpoint", domain.CreateEndpoint{
		EndpointID: endpointID,
		AccountID:  accountID,
		EndpointSettings: domain.EndpointSettings{
			URL:      r.receiver.server.URL + "/hook",
			Ordering: domain.OrderingWallet,
		},
		SealedSecret: []byte(secret),
	}))
	testkit.Eventually(t, "the endpoint", func() bool { return len(r.results("cmd_endpoint")) == 1 })
	stop()
	got := &walletsReceiver{
		of:       make(map[string]seen),
		other:    make(chan struct{}),
		arrived:  make(map[string][]int),
		underWay: make(map[string]int),
		failed:   make(map[string]bool),
	}
	want := map[string][]int{}
	const events = 12
	for n := range events {
		for _, wallet := range []string{"GA", "GB"} {
			event := domain.EventID(watchID, wallet+strconv.Itoa(n))
			r.append(paidTo(endpointID, wallet, event))
			got.of[event] = seen{wallet: wallet, number: n}
			if want[wallet] = append(want[wallet], n); n%3 == 1 {
				want[wallet] = append(want[wallet], n)
			}
		}
	}
	r.receiver.answer(got.handle)
	stop = r.start(r.dir, 10, 10, 10)
	testkit.Eventually(t, "all attempts", func() bool {
		return r.facts()["AttemptMade"] >= len(want["GA"])+len(want["GB"])
	})
	stop()
	got.mu.Lock()
	defer got.mu.Unlock()
	if !reflect.DeepEqual(got.arrived, want) || len(got.crowded) > 0 {
		t.Errorf("arrived %v, not %v; under way beside another of its wallet: %v", got.arrived, want,
			got.crowded)
	}
}
