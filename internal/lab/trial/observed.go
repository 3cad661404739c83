package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// observed is everything that can be observed of a run at its end.
type observed struct {
	*world
	events   map[string]eventView // by id
	owner    map[string]*account
	posts    map[string][]*post // by event id, in order
	attempts map[string][]attempt
	watches  map[string]*watch    // by id
	targets  map[string]*endpoint // by id
}

type attempt struct {
	EventID    string `json:"event_id"`
	EndpointID string `json:"endpoint_id"`
	Number     int    `json:"number"`
	Run        int    `json:"run"`
	Sent       int64  `json:"sent"` // Unix milliseconds
	Took       int64  `json:"took"`
	Status     *int   `json:"status"`
	Error      string `json:"error"`
	Body       string `json:"body"`
	State      string `json:"state"`
}

// sentAt returns the time of sending, which may be up to a millisecond early because the history
// rounds down.
func (a attempt) sentAt() time.Time { return time.UnixMilli(a.Sent) }

func (a attempt) ended() time.Time { return time.UnixMilli(a.Sent + a.Took) }

// sql queries the history and returns a value per row.
func sql[T any](ctx context.Context, w *world, query string) ([]T, error) {
	out, err := w.service.command(ctx, "sql", "--format", "json", "--max-rows", "1000000", query)
	if err != nil {
		return nil, err
	}
	var rows []T
	for line := range bytes.Lines(out) {
		var row T
		if err := json.Unmarshal(line, &row); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

const attemptsQuery = `SELECT event_id, endpoint_id, number, run,
	toUnixTimestamp64Milli(sent_at) AS sent, duration_ms AS took, status_code AS status,
	toString(attempts.error) AS error, substring(response_body, 1, 24) AS body,
	toString(state) AS state
	FROM attempts FINAL ORDER BY event_id, number`

func (w *world) observe(ctx context.Context) (*observed, error) {
	b := &observed{
		world:    w,
		events:   map[string]eventView{},
		owner:    map[string]*account{},
		posts:    map[string][]*post{},
		attempts: map[string][]attempt{},
		watches:  map[string]*watch{},
		targets:  map[string]*endpoint{},
	}
	for _, k := range w.model.watches {
		b.watches[k.id] = k
	}
	for _, a := range w.accounts {
		for _, e := range a.endpoints {
			b.targets[e.id] = e
		}
		events, err := w.events(ctx, a.key, nil, 200)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			if b.owner[e.ID] != nil && b.owner[e.ID] != a {
				w.violate("ACCOUNTS", "%s is listed for two accounts", e.ID)
			}
			b.events[e.ID], b.owner[e.ID] = e, a
		}
	}
	rows, err := sql[attempt](ctx, w, attemptsQuery)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.EndpointID != w.hostile.endpoint { // the model doesn't know its events
			b.attempts[row.EventID] = append(b.attempts[row.EventID], row)
		}
	}
	for _, p := range w.receivers.all() {
		posts := b.posts[p.id]
		if n := len(posts); n > 0 && p.repeats(posts[n-1]) {
			posts = posts[:n-1]
		}
		b.posts[p.id] = append(posts, p)
	}
	return b, nil
}

func (w *world) check(ctx context.Context) error {
	b, err := w.observe(ctx)
	if err != nil {
		return err
	}
	b.checkMatches()
	b.checkPosts()
	b.checkAttempts()
	b.checkStates()
	if err := b.checkObserved(ctx); err != nil {
		return err
	}
	return b.checkReads(ctx)
}

// checkMatches checks that each pair of payment and watch has one event if it must have one, and no
// other event.
func (b *observed) checkMatches() {
	type pair struct{ payment, watch string }
	made := map[pair][]eventView{}
	payments := map[string]Payment{}
	for _, p := range b.model.allPayments() {
		payments[p.ID] = p
	}
	for id, e := range b.events {
		at := pair{e.Data.Payment.ID, e.Data.Watch.ID}
		made[at] = append(made[at], e)
		if payments[at.payment].ID == "" || b.watches[at.watch] == nil {
			b.violate("EVENTS", "%s tells of payment %s for watch %s, one of which never was", id,
				at.payment, at.watch)
			continue
		}
		b.checkEvent(e, payments[at.payment], b.watches[at.watch])
	}
	for _, p := range payments {
		for _, k := range b.model.watches {
			events := made[pair{p.ID, k.id}]
			if _, must := k.expected(p, b.world); must && len(events) == 0 {
				b.violate("MISSED", "payment %s in ledger %d made no event with %s (%s): versions %+v",
					p.ID, p.Ledger, k.slot, k.id, k.versions)
			}
			if len(events) > 1 {
				b.violate("TWICE", "payment %s and watch %s made %d events: %+v", p.ID, k.id, len(events),
					events)
			}
		}
	}
}

// checkEvent compares an event with the versions of the watch that may have matched it.
func (b *observed) checkEvent(e eventView, p Payment, k *watch) {
	may, _ := k.expected(p, b.world)
	for _, v := range may {
		sameEndpoint := v.endpoint.id == e.Delivery.EndpointID || b.movedOn(v.endpoint, e, k)
		if v.kind == e.Type && sameEndpoint && b.bodyIs(e.ID, v, p, k) {
			return
		}
	}
	b.violate("EVENTS",
		"%s (%s, to %s, %v) is not what payment %+v may make with %s: %s; versions %+v",
		e.ID, e.Type, e.Delivery.EndpointID, e.Delivery.State, p, k.slot, describe(may), k.versions)
}

// movedOn reports whether an event whose endpoint was deleted may have been resent to another
// endpoint of its watch.
func (b *observed) movedOn(first *endpoint, e eventView, k *watch) bool {
	return !first.deletedAsked.IsZero() && k.hasNamed(e.Delivery.EndpointID)
}

func describe(may []verdict) string {
	text := ""
	for _, v := range may {
		text += fmt.Sprintf("[%s %q to %s %v]", v.kind, v.label, v.endpoint.id, v.reasons)
	}
	return text
}

// bodyIs reports whether an event was posted with the body that follows from a verdict. It returns
// true for an event that was never posted.
func (b *observed) bodyIs(id string, v verdict, p Payment, k *watch) bool {
	if len(b.posts[id]) == 0 {
		return true
	}
	var got struct {
		ID, Type, APIVersion, CreatedAt string
		Data                            json.RawMessage
	}
	if json.Unmarshal(b.posts[id][0].body, &got) != nil || got.ID != id || got.Type != v.kind {
		return false
	}
	var data any
	if json.Unmarshal(got.Data, &data) != nil {
		return false
	}
	want, _ := json.Marshal(p.data(v, k)) // plain values cannot fail
	have, _ := json.Marshal(data)
	if !bytes.Equal(want, have) {
		b.log("%s: want %s\nhave %s", id, want, have)
	}
	return bytes.Equal(want, have)
}

// data returns an event's data according to the specification.
func (p Payment) data(v verdict, k *watch) map[string]any {
	outcome := "VERIFIED"
	if len(v.reasons) > 0 {
		outcome = "REJECTED"
	}
	payment := map[string]any{
		"id": p.ID, "txHash": p.TxHash, "ledger": p.Ledger % chainNumbers,
		"from": p.From, "to": p.To, "toMuxedId": nil,
		"ledgerClosedAt": time.Unix(p.ClosedAt, 0).UTC().Format(time.RFC3339),
		"memo":           nil, "memoType": nil, "asset": lumens,
		"amount": decimal(p.Stroops), "amountStroops": fmt.Sprint(p.Stroops),
	}
	if p.Muxed != nil {
		payment["toMuxedId"] = fmt.Sprint(*p.Muxed)
	}
	if p.Memo != nil {
		payment["memo"], payment["memoType"] = p.Memo.Value, p.Memo.Type
	}
	return map[string]any{
		"payment":      payment,
		"watch":        map[string]any{"id": k.id, "label": v.label, "walletAddress": k.wallet},
		"verification": map[string]any{"outcome": outcome, "reasons": v.reasons},
	}
}
