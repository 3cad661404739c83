package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// checkStates: at the end everything is delivered, except what was cancelled or had failed
// when its endpoint was deleted, and tests: nobody replays one that failed, and disabling
// the endpoint cancels one that was not sent yet.
func (b *observed) checkStates() {
	for id, e := range b.events {
		target := b.targets[e.Delivery.EndpointID]
		gone := target == nil || !target.deletedAsked.IsZero()
		if from := b.model.moved[id]; from != "" && from == e.Delivery.EndpointID {
			b.violate("MOVES", "%s was sent on from %s and is there in the end", id, from)
		}
		switch state := e.Delivery.State; {
		case state == "DELIVERED":
			b.checkDelivered(id)
		case (state == "CANCELLED" || state == "FAILED") && (gone || e.Type == "test.ping"):
		default:
			b.violate("STATES", "%s (%s) to %s is %s in the end", id, e.Type, e.Delivery.EndpointID, state)
		}
	}
}

// checkDelivered: the last attempt, and a post, were answered 2xx.
func (b *observed) checkDelivered(id string) {
	attempts := b.attempts[id]
	if len(attempts) == 0 || !slices.ContainsFunc(attempts,
		func(a attempt) bool { return a.State == "DELIVERED" }) {
		b.violate("STATES", "%s is DELIVERED without an attempt that says so: %s", id, numbers(attempts))
	}
	if !slices.ContainsFunc(b.posts[id], func(p *post) bool { return p.status/100 == 2 }) {
		b.violate("STATES", "%s is DELIVERED, and no receiver answered 2xx", id)
	}
}

// checkObserved: the history has each payment to a watched wallet at most once, and no
// other; and each one that has an event.
func (b *observed) checkObserved(ctx context.Context) error {
	type row struct {
		ID    string `json:"payment_id"`
		Count any    `json:"n"`
	}
	rows, err := sql[row](ctx, b.world,
		"SELECT payment_id, toUInt32(count()) AS n FROM payments FINAL GROUP BY payment_id")
	if err != nil {
		return err
	}
	observed := map[string]bool{}
	for _, r := range rows {
		observed[r.ID] = true
		if fmt.Sprint(r.Count) != "1" {
			b.violate("PAYMENTS", "the history has payment %s %v times", r.ID, r.Count)
		}
	}
	known := map[string]bool{}
	for _, p := range b.model.allPayments() {
		known[p.ID] = true
	}
	for id := range observed {
		if !known[id] {
			b.violate("PAYMENTS", "the history has payment %s, which nobody made", id)
		}
	}
	for _, e := range b.events {
		if id := e.Data.Payment.ID; id != "" && !observed[id] {
			b.violate("PAYMENTS", "%s tells of payment %s, which is not in the history", e.ID, id)
		}
	}
	return nil
}

// checkLists compares lists with every filter, single reads and SQL with each other.
func (b *observed) checkLists(ctx context.Context) error {
	for _, a := range b.accounts {
		for _, f := range b.filters(a) {
			if err := b.checkList(ctx, a, f); err != nil {
				return err
			}
		}
	}
	if err := b.checkReads(ctx); err != nil {
		return err
	}
	return b.checkSQL(ctx)
}

// filter is a filter of the list of events, and a predicate of the events that it selects.
type filter struct {
	name, value string
	page        int
	lets        func(eventView) bool
}

func (b *observed) filters(a *account) []filter {
	filters := []filter{{"limit", "", 17, func(eventView) bool { return true }}}
	for _, state := range states {
		filters = append(filters, filter{"state", state, 50,
			func(e eventView) bool { return e.Delivery.State == state }})
	}
	for _, kind := range []string{"payment.received", "payment.rejected", "test.ping"} {
		filters = append(filters, filter{"type", kind, 100,
			func(e eventView) bool { return e.Type == kind }})
	}
	for _, slot := range slices.Sorted(maps.Keys(a.endpoints)) {
		id := a.endpoints[slot].id
		filters = append(filters, filter{"endpointId", id, 100,
			func(e eventView) bool { return e.Delivery.EndpointID == id }})
	}
	for _, slot := range slices.Sorted(maps.Keys(a.watches)) {
		id := a.watches[slot].id
		filters = append(filters, filter{"watchId", id, 100,
			func(e eventView) bool { return e.Data.Watch.ID == id }})
	}
	return filters
}

func (b *observed) checkList(ctx context.Context, a *account, f filter) error {
	query := url.Values{}
	if f.value != "" {
		query.Set(f.name, f.value)
	}
	events, err := b.world.events(ctx, a.key, query, f.page)
	if err != nil {
		return err
	}
	listed, due := map[string]bool{}, 0
	for _, e := range events {
		listed[e.ID] = true
		if known, ok := b.events[e.ID]; !ok || !f.lets(known) {
			b.violate("LISTS", "the list by %s=%s has %s, which it should not", f.name, f.value, e.ID)
		}
	}
	for id, e := range b.events {
		if b.owner[id] != a || !f.lets(e) {
			continue
		}
		if due++; !listed[id] {
			b.violate("LISTS", "the list by %s=%s lacks %s", f.name, f.value, id)
		}
	}
	newestFirst := func(x, y eventView) int { return strings.Compare(y.CreatedAt, x.CreatedAt) }
	if !slices.IsSortedFunc(events, newestFirst) {
		b.violate("LISTS", "the list by %s=%s is not newest first", f.name, f.value)
	}
	return nil
}

// readsAtMost bounds how many events are read one by one.
const readsAtMost = 300

// checkReads compares single reads with the list, the attempts and the posts.
func (b *observed) checkReads(ctx context.Context) error {
	ids := slices.Sorted(maps.Keys(b.events))
	for i, id := range ids {
		if len(ids) > readsAtMost && i%(len(ids)/readsAtMost+1) != 0 {
			continue
		}
		a, err := b.call(ctx, request{method: "GET", path: "/v1/events/" + id, key: b.owner[id].key})
		if err != nil {
			return err
		}
		var got eventView
		if a.status != http.StatusOK || json.Unmarshal(a.body, &got) != nil {
			b.violate("READS", "GET of %s was answered %d %s", id, a.status, a.body)
			continue
		}
		b.checkRead(id, a.body, got)
	}
	return nil
}

func (b *observed) checkRead(id string, raw []byte, got eventView) {
	listed := b.events[id]
	if got.Delivery.State != listed.Delivery.State ||
		got.Delivery.EndpointID != listed.Delivery.EndpointID {
		b.violate("READS", "%s is listed as %+v and read as %+v", id, listed.Delivery, got.Delivery)
	}
	if posts := b.posts[id]; len(posts) > 0 {
		envelope := bytes.TrimSuffix(posts[0].body, []byte("}"))
		if !bytes.HasPrefix(raw, append(envelope, ',')) {
			b.violate("READS", "%s is not read as it was posted:\n%s\n%s", id, raw, posts[0].body)
		}
	}
	rows := b.attempts[id]
	if len(rows) != len(got.Attempts) {
		b.violate("READS", "%s is read with %d attempts and has %d rows", id, len(got.Attempts),
			len(rows))
		return
	}
	for i, read := range got.Attempts {
		row := rows[i]
		if row.EndpointID != rows[0].EndpointID {
			break // handed over: the numbers of two endpoints are independent
		}
		if read.Number != row.Number || read.Run != row.Run || read.DurationMs != row.Took ||
			fmt.Sprint(deref(read.StatusCode)) != fmt.Sprint(deref(row.Status)) {
			b.violate("READS", "attempt %d of %s is read as %+v and is the row %+v", row.Number, id, read,
				row)
		}
	}
}

func deref(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// checkSQL compares the tables with the lists.
func (b *observed) checkSQL(ctx context.Context) error {
	type row struct {
		ID       string `json:"event_id"`
		Endpoint string `json:"endpoint_id"`
		State    string `json:"state"`
	}
	rows, err := sql[row](ctx, b.world,
		"SELECT event_id, endpoint_id, toString(state) AS state FROM current_deliveries")
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, r := range rows {
		e, known := b.events[r.ID]
		if known && e.Delivery.EndpointID != r.Endpoint && b.targets[r.Endpoint].ended() {
			continue // it was handed over to another endpoint
		}
		if seen[r.ID] || !known || e.Delivery.State != r.State || e.Delivery.EndpointID != r.Endpoint {
			b.violate("SQL", "current_deliveries has %+v (again: %v), the list %+v", r, seen[r.ID],
				e.Delivery)
		}
		seen[r.ID] = true
	}
	for id := range b.events {
		if !seen[id] {
			b.violate("SQL", "current_deliveries lacks %s", id)
		}
	}
	return nil
}
