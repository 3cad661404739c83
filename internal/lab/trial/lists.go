package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// checkStates checks that at the end everything is delivered, except what was cancelled, or had
// failed when its endpoint was deleted.
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
		case (state == "CANCELLED" || state == "FAILED") && gone:
		default:
			b.violate("STATES", "%s (%s) to %s is %s in the end", id, e.Type, e.Delivery.EndpointID, state)
		}
	}
}

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

// checkObserved checks that the history has each payment to a watched wallet at most once and no
// others, and that it has each payment with an event.
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

const readsAtMost = 300

// checkReads compares individual reads with the list, the attempts and the posts.
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
		if !bytes.HasPrefix(raw, slices.Concat(envelope, []byte(","))) {
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
			status(read.StatusCode) != status(row.Status) {
			b.violate("READS", "attempt %d of %s is read as %+v and is the row %+v", row.Number, id, read,
				row)
		}
	}
}
