package api_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// delivered adds the event of a payment to the history, with attempts.
func (w *world) delivered(
	accountID, endpointID string, state domain.DeliveryState, attempts ...domain.AttemptResult,
) domain.Event {
	return w.deliveredOf("221517461192705", accountID, endpointID, state, attempts...)
}

// deliveredOf is delivered for a payment with the given id.
func (w *world) deliveredOf(
	paymentID, accountID, endpointID string, state domain.DeliveryState,
	attempts ...domain.AttemptResult,
) domain.Event {
	watch := domain.Watch{
		ID:            domain.DeriveID(domain.WatchPrefix, "1"),
		WalletAddress: wallet,
		Label:         "a <b> & \u2028",
		EndpointID:    endpointID,
		Rules:         domain.Rules{Assets: []domain.Asset{domain.NativeAsset()}},
		EventTypes:    []domain.EventType{domain.PaymentReceived},
	}
	match, ok := domain.MatchPayment(watch, domain.Payment{
		ID:             paymentID,
		TxHash:         strings.Repeat("ab", 32),
		Ledger:         5,
		ClosedAtMillis: 1_795_000_000_000,
		From:           payer,
		To:             wallet,
		Memo:           domain.Memo{Type: domain.MemoText, Raw: []byte("order\xff")},
		Asset:          domain.NativeAsset(),
		AmountStroops:  125_000_000,
	})
	if !ok {
		w.t.Fatal("no match")
	}
	event := domain.NewPaymentEvent(match, w.now.UnixMilli())
	r := readmodel.Event{
		Body:                event.Body,
		EndpointID:          endpointID,
		Sequence:            12,
		State:               state,
		NextAttemptAtMillis: w.now.UnixMilli() + 1000,
	}
	for i, a := range attempts {
		r.Attempts = append(r.Attempts,
			readmodel.Attempt{EndpointID: r.EndpointID, Number: i + 1, Run: 1, Result: a})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history[event.ID] = record{accountID, r}
	return event
}

func TestGetEvent(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	sent := w.now.UnixMilli()
	event := w.delivered(account("a"), e, domain.StateWaiting,
		domain.AttemptResult{
			SentAtMillis:   sent,
			DurationMillis: 10_000,
			Error:          domain.AttemptTimeout,
			ErrorDetail:    "connect: timed out",
		},
		domain.AttemptResult{
			SentAtMillis:   sent + 1,
			DurationMillis: 3,
			StatusCode:     500,
			ResponseBody:   []byte("oh\xff <no>"),
		},
	)
	got := w.call("GET", "/v1/events/"+event.ID, k, "")
	want := string(event.Body[:len(event.Body)-1]) + fmt.Sprintf(`,"delivery":{"state":"WAITING","held":false,"endpointId":%[1]q,"sequence":12,"nextAttemptAt":"2026-11-21T10:15:31.123Z"},`+
		`"attempts":[{"number":1,"run":1,"endpointId":%[1]q,"sentAt":"2026-11-21T10:15:30.123Z","durationMs":10000,"statusCode":null,"error":"TIMEOUT","errorDetail":"connect: timed out","responseBody":""},`+
		`{"number":2,"run":1,"endpointId":%[1]q,"sentAt":"2026-11-21T10:15:30.124Z","durationMs":3,"statusCode":500,"error":null,"errorDetail":null,"responseBody":"oh`+"\uFFFD"+` <no>"}],"historyBehind":false}`,
		e)
	if got.StatusCode != 200 || string(got.body) != want {
		t.Errorf("got  %s\nwant %s", got.body, want)
	}
	head := w.call("HEAD", "/v1/events/"+event.ID, k, "")
	if head.StatusCode != 200 || head.Header.Get("Content-Length") != fmt.Sprint(len(want)) ||
		len(head.body) != 0 {
		t.Errorf("HEAD: %d %v", head.StatusCode, head.Header)
	}
	theirs := w.newKey(account("b"), domain.PermissionRead)
	wantProblem(t, w.call("GET", "/v1/events/"+event.ID, theirs, ""), 404, "NOT_FOUND")
}

// The stored part of a response may end within a character. A character that the receiver sent
// completely must not be shown as invalid, and one that it sent as invalid must.
func TestGetEventShowsNoCutCharacter(t *testing.T) {
	long := strings.Repeat("x", 1021)
	for stored, want := range map[string]string{
		long + "xxé":        long + "xx",
		long + "é":          long + "é",
		long + "x€":         long + "x",
		long + "\U0001F600": long,
		long + "xx\xff":     long + "xx\uFFFD",
		long + "\x80\x80x":  long + "\uFFFDx",
		"short\xc3":         "short\uFFFD",
	} {
		stored = stored[:min(len(stored), 1024)]
		w := newWorld(t)
		k := w.newKey(account("a"), domain.Permissions()...)
		event := w.delivered(account("a"), w.newEndpoint(k), domain.StateDelivered,
			domain.AttemptResult{SentAtMillis: 1, StatusCode: 200, ResponseBody: []byte(stored)})
		if got := w.call("GET", "/v1/events/"+event.ID, k, ""); !bytes.Contains(got.body,
			[]byte(`"responseBody":"`+want+`"`)) {
			t.Errorf("stored %q, shown %s", stored[max(0, len(stored)-8):], got.body)
		}
	}
}

func TestGetEventShowsWhetherADeliveryIsHeld(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	event := w.delivered(account("a"), e, domain.StateQueued)
	endpoint := w.endpoints[e]
	endpoint.Status = domain.StatusDisabled
	w.endpoints[e] = endpoint
	if got := w.call("GET", "/v1/events/"+event.ID, k, ""); !bytes.Contains(got.body,
		[]byte(`"state":"QUEUED","held":true`)) ||
		!bytes.Contains(got.body, []byte(`"nextAttemptAt":null},"attempts":[],"historyBehind":false}`)) {
		t.Errorf("%s", got.body)
	}
	w.delivered(account("a"), e, domain.StateDelivered,
		domain.AttemptResult{SentAtMillis: 1, StatusCode: 204})
	if got := w.call("GET", "/v1/events/"+event.ID, k, ""); !bytes.Contains(got.body,
		[]byte(`"state":"DELIVERED","held":false`)) ||
		!bytes.Contains(got.body, []byte(`"nextAttemptAt":null`)) {
		t.Errorf("%s", got.body)
	}
}

func TestGetEventWhenTheHistoryCannotTell(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionRead)
	path := "/v1/events/" + domain.EventID("w", "p")
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{readmodel.ErrBehind, 503, "HISTORY_BEHIND"},
		{readmodel.ErrUnavailable, 503, "HISTORY_UNAVAILABLE"},
		{fmt.Errorf("odd"), 500, "INTERNAL"},
	} {
		w.historyErr = c.err
		got := w.call("GET", path, k, "")
		wantProblem(t, got, c.status, c.code)
		if (got.Header.Get("Retry-After") != "") != (c.status == 503) {
			t.Errorf("%s: %v", c.code, got.Header)
		}
	}
	w.historyErr = nil
	w.history[domain.EventID("w", "p")] = record{
		account("a"),
		readmodel.Event{Body: []byte(`{"id":`), State: domain.StateDelivered},
	}
	wantProblem(t, w.call("GET", path, k, ""), 500, "INTERNAL")
}

// spoiled is a history in which the first event of each list has no body.
type spoiled struct{ api.History }

func (s spoiled) Events(
	ctx context.Context, f readmodel.EventFilter, after *readmodel.Position, limit int,
) ([]readmodel.Event, *readmodel.Position, error) {
	page, next, err := s.History.Events(ctx, f, after, limit)
	return append([]readmodel.Event{{ID: domain.EventID("w",
		"p"), State: domain.StateDelivered}}, page...), next, err
}

// A list must leave out an event whose body cannot be shown, and contain the others.
func TestABadBodyLeavesTheListAsItIs(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	event := w.delivered(account("a"), e, domain.StateDelivered)
	node := newWorld(t, func(c *api.Config) { c.Commands, c.Directory, c.History = w, w, spoiled{w} })
	node.now = w.now
	data := in(t, wantStatus(t, node.call("GET", "/v1/events?state=DELIVERED", k, ""), 200).body,
		"data").([]any)
	if len(data) != 1 || data[0].(map[string]any)["id"] != event.ID {
		t.Errorf("listed are %v", data)
	}
}

func TestTheHistoryShowsWhatWasJustWritten(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	stranger := w.newKey(account("b"), domain.PermissionRead)
	h := &lagging{world: w}
	node := newWorld(t, func(c *api.Config) { c.Commands, c.Directory, c.History = w, w, h })
	e := "/v1/endpoints/" + w.newEndpoint(k)
	event := "/v1/events/" + in(t, wantStatus(t, node.call("POST", e+"/test", k, ""), 200).body,
		"eventId").(string)
	w.now = w.now.Add(time.Second)
	node.now = w.now
	for name, write := range map[string]func(){
		"test":   func() { wantStatus(t, node.call("POST", e+"/test", k, ""), 200) },
		"resend": func() { wantStatus(t, node.call("POST", event+"/resend", k, ""), 200) },
		"replay": func() {
			wantStatus(t,
				node.call("POST", e+"/replay", k, `{"since":"2026-01-01T00:00:00Z"}`), 200)
		},
		"enable": func() { wantStatus(t, node.call("POST", e+"/enable", k, ""), 200) },
	} {
		for _, read := range []string{event, "/v1/events"} {
			wantStatus(t, node.call("GET", read, k, ""), 200)
			h.waits = 0
			write()
			node.call("GET", read, stranger, "")
			if h.waits != 0 {
				t.Errorf("%s: another account's read waited", name)
			}
			for range 2 {
				wantStatus(t, node.call("GET", read, k, ""), 200)
			}
			if h.waits != 1 {
				t.Errorf("%s and GET %s: waited %d times", name, read, h.waits)
			}
		}
	}
	// If the history is far behind, it is read as it is, after a wait of a few seconds at most.
	h.err = readmodel.ErrBehind
	wantStatus(t, node.call("DELETE", e, k, ""), 200)
	for range 2 {
		wantStatus(t, node.call("GET", event, k, ""), 200)
	}
	node.now = node.now.Add(time.Minute)
	h.waits = 0
	wantStatus(t, node.call("GET", event, k, ""), 200)
	if h.waits != 0 {
		t.Errorf("a write of a minute ago was waited for")
	}
}

type lagging struct {
	*world
	waits   int
	err     error
	waiting func() // if set, called during the wait
}

func (h *lagging) CatchUp(context.Context) error {
	h.waits++
	if h.waiting != nil {
		h.waiting()
	}
	return h.err
}

// If a key is revoked while a read waits for the history, the read must get 401, whatever it reads,
// and whether or not the history catches up in time.
func TestAReadThatWaitedForAWriteIsHeldAgainstItsKey(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	watch := w.watching(k, e, 40, "")
	event := w.delivered(account("a"), e, domain.StateFailed).ID
	w.followed = api.Followed{Ledger: 90, MovesSince: 30}
	h := &lagging{world: w}
	node := newWorld(t, func(c *api.Config) {
		c.Commands, c.Directory, c.History, c.Ledgers = w, w, h, w
	})
	node.now = w.now
	before := w.accounts[account("a")]
	for _, path := range []string{
		"/v1/events", "/v1/events/" + event, "/v1/events/" + event + "/receipt", "/v1/attempts/rates",
		"/v1/endpoints/" + e + "/events", "/v1/endpoints/" + e + "/history",
		"/v1/watches/" + watch + "/history", "/v1/wallets/" + wallet + "/statement",
	} {
		for _, h.err = range []error{nil, readmodel.ErrBehind} {
			h.waits, h.waiting = 0, nil
			wantStatus(t, node.call("POST", "/v1/endpoints/"+e+"/enable", k, ""), 200)
			h.waiting = func() {
				revoked := before
				revoked.Keys = nil
				w.accounts[account("a")] = revoked
			}
			got := node.call("GET", path, k, "")
			wantProblem(t, got, 401, "UNAUTHENTICATED")
			if h.waits != 1 {
				t.Errorf("%s waited %d times", path, h.waits)
			}
			w.accounts[account("a")] = before
		}
	}
}

// refilling is a history that is being refilled: it has a part of each event.
type refilling struct{ *world }

func (h refilling) Event(ctx context.Context, accountID, id string) (readmodel.Event, error) {
	r, err := h.world.Event(ctx, accountID, id)
	r.Behind = true
	return r, err
}

func (h refilling) Recall(ctx context.Context, accountID, id string) (readmodel.Recalled, error) {
	r, err := h.world.Recall(ctx, accountID, id)
	r.Deliveries = nil
	return r, err
}

// While the history is being refilled, an event must be shown as far as it is there, and marked.
// Nothing may be resent while the event's first endpoint is unknown.
func TestAHistoryThatIsBeingRefilledSaysSo(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	event := w.delivered(account("a"), w.newEndpoint(k), domain.StateQueued)
	node := newWorld(t, func(c *api.Config) {
		c.Commands, c.Directory, c.History = w, w, refilling{w}
	})
	node.now = w.now
	path := "/v1/events/" + event.ID
	for of, want := range map[*world]bool{w: false, node: true} {
		got := in(t, wantStatus(t, of.call("GET", path, k, ""), 200).body, "historyBehind")
		if got != want {
			t.Errorf("historyBehind is %v, not %v", got, want)
		}
	}
	wantProblem(t, node.call("POST", path+"/resend", k, ""), 503, "HISTORY_BEHIND")
	wantStatus(t, w.call("POST", path+"/resend", k, ""), 200)
}
