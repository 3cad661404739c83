package apicli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
)

const (
	tailEvery = time.Second
	// tailOverlap is how long before the newest event that was seen others are looked for: they
	// come to the history a moment after each other.
	tailOverlap  = 30 * time.Second
	tailFirstTry = time.Second
	tailLastTry  = 30 * time.Second
)

// TailBounds are what a tail reads and remembers at most. What is beyond them it tells of.
type TailBounds struct {
	Page  int // events
	Pages int // of one round: older events are not shown
	Known int // events that are remembered: of others, what becomes of them is not shown
	// Asked are events of lists, and as many that lists no longer have, which are asked for by
	// themselves in one round: of others the state is shown, and no attempt.
	Asked int
}

// DefaultTailBounds are those of the command, whose help names them.
func DefaultTailBounds() TailBounds {
	return TailBounds{Page: 250, Pages: 40, Known: 20_000, Asked: 200}
}

// Tail shows events and the attempts to deliver them as they happen, by polling the history. It
// is used by one goroutine.
type Tail struct {
	Client *client.Client
	// Filter selects events. Its State selects lines: those after which an event is in that state.
	// Its Since is where to begin.
	Filter client.EventFilter
	Out    io.Writer
	Tell   io.Writer // what else there is to say
	JSON   bool
	Bounds TailBounds

	known  *simplelru.LRU[string, *tailed]
	newest time.Time // creation of the newest event that was seen
	oldest time.Time // creation of the oldest that the last list had: older ones are asked for
	asked  int       // events of lists that were asked for in this round
	lost   int       // events that are pending, and were forgotten in this round
}

// tailed is what was shown of an event.
type tailed struct {
	created  time.Time
	attempts int
	delivery client.Delivery
	// The event is asked for by itself at most this often, and not before; while nothing changes,
	// less and less.
	wait  time.Duration
	again time.Time
}

// pending reports whether more is to become of it.
func (k *tailed) pending() bool {
	return k.delivery.State == "QUEUED" || k.delivery.State == "WAITING"
}

// TailLine is a line of a tail.
type TailLine struct {
	Time          time.Time       `json:"time"`
	Kind          string          `json:"kind"` // event, attempt or state
	EventID       string          `json:"eventId"`
	Type          string          `json:"type"`
	EndpointID    string          `json:"endpointId"`
	Sequence      *int64          `json:"sequence"`
	State         string          `json:"state"`
	NextAttemptAt *time.Time      `json:"nextAttemptAt,omitempty"`
	Attempt       *client.Attempt `json:"attempt,omitempty"`
	Data          json.RawMessage `json:"data,omitempty"` // of an event
}

// Run shows what happens until ctx ends, which is no error. It outlasts a service that is away,
// once that has answered.
func (t *Tail) Run(ctx context.Context) error {
	var err error
	forgotten := func(_ string, k *tailed) {
		if k.pending() {
			t.lost++
		}
	}
	if t.known, err = simplelru.NewLRU(t.Bounds.Known, forgotten); err != nil {
		return err
	}
	t.newest = t.Filter.Since
	if err = t.selects(ctx); err == nil {
		err = t.begin(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	fmt.Fprintln(t.Tell, "showing events and attempts as they happen; Ctrl-C ends it")
	wait, away := tailEvery, false
	for tailPause(ctx, wait) {
		err := t.round(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errTailOutput), err != nil && !client.MayPass(err):
			return err
		case err != nil && !away:
			fmt.Fprintf(t.Tell, "%s\ngoing on once the service answers\n", cli.Explain(err, noFlags))
			wait, away = tailFirstTry, true
		case err != nil:
			wait = min(2*wait, tailLastTry)
		default:
			if away {
				fmt.Fprintln(t.Tell, answersAgain)
			}
			wait, away = tailEvery, false
		}
	}
	return nil
}

// begin remembers what is on its way already, so that its next attempts are shown.
func (t *Tail) begin(ctx context.Context) error {
	for _, state := range []string{"WAITING", "QUEUED"} {
		filter := t.Filter
		filter.State, filter.Since = state, time.Time{}
		pending, whole, err := t.list(ctx, filter)
		if err != nil {
			return err
		}
		for _, e := range slices.Backward(pending) {
			if e.CreatedAt.Before(t.Filter.Since) {
				t.known.Add(e.ID, &tailed{created: e.CreatedAt, delivery: e.Delivery})
			}
		}
		if !whole {
			fmt.Fprintf(t.Tell, "more than %d events are %s already: what becomes of the oldest of them is "+
				"not shown, and `lumenhook events list` has it\n", len(pending), state)
		}
	}
	t.tellLost()
	return nil
}

// list reads the newest events that a filter takes; whole is false if there are more.
func (t *Tail) list(
	ctx context.Context, filter client.EventFilter,
) (events []client.Event, whole bool, err error) {
	page := client.Page{Limit: t.Bounds.Page}
	for range t.Bounds.Pages {
		list, err := t.Client.ListEvents(ctx, filter, page)
		if err != nil {
			return nil, false, err
		}
		events = append(events, list.Data...)
		if list.NextCursor == nil {
			return events, true, nil
		}
		page.Cursor = *list.NextCursor
	}
	return events, false, nil
}

// tellLost says how many events that are on their way were forgotten to make room for others.
func (t *Tail) tellLost() {
	if t.lost > 0 {
		fmt.Fprintf(t.Tell, "%d events that are on their way are followed no more, as there are too "+
			"many: `lumenhook events get` has what becomes of them\n", t.lost)
	}
	t.lost = 0
}

// round shows what has happened since the one before.
func (t *Tail) round(ctx context.Context) error {
	t.asked = 0
	defer t.tellLost()
	recent, err := t.recent(ctx)
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(recent) {
		if err := t.see(ctx, e); err != nil {
			return err
		}
	}
	for _, id := range t.due() {
		e, err := t.Client.GetEvent(ctx, id)
		if err == nil {
			err = t.show(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recent lists the events that may be new, newest first. If there are more than a round reads, it
// tells that older ones are not shown; but not again of those that were shown, or told of, before.
func (t *Tail) recent(ctx context.Context) ([]client.Event, error) {
	filter := t.Filter
	filter.State, filter.Since = "", t.newest.Add(-tailOverlap)
	if filter.Since.Before(t.Filter.Since) {
		filter.Since = t.Filter.Since
	}
	events, whole, err := t.list(ctx, filter)
	if err != nil {
		return nil, err
	}
	if t.oldest = filter.Since; whole || len(events) == 0 {
		return events, nil
	}
	t.oldest = events[len(events)-1].CreatedAt
	if t.mayMiss(events) {
		fmt.Fprintf(t.Tell, "more than %d events came at once: the oldest of them are not shown, and "+
			"`lumenhook events list` has them\n", len(events))
	}
	return events, nil
}

// mayMiss reports whether there may be older events, beyond a list of as many as a round reads,
// that were never shown: its last was not either; or one that came late, after newer ones had been
// shown, is in the older half of the time that the list reaches back, so that others may have come
// as late. That a few come late is usual where many come, and is no reason to warn.
func (t *Tail) mayMiss(events []client.Event) bool {
	last := events[len(events)-1]
	half := last.CreatedAt.Add(max(0, t.newest.Sub(last.CreatedAt)) / 2)
	return !t.known.Contains(last.ID) || slices.ContainsFunc(events, func(e client.Event) bool {
		return !t.known.Contains(e.ID) && !e.CreatedAt.After(half)
	})
}

// see shows an event of a list: that it is there, and what became of it since.
func (t *Tail) see(ctx context.Context, e client.Event) error {
	if e.CreatedAt.After(t.newest) {
		t.newest = e.CreatedAt
	}
	known, was := t.known.Get(e.ID)
	if !was {
		known = &tailed{created: e.CreatedAt, delivery: client.Delivery{State: "QUEUED"}}
		t.known.Add(e.ID, known)
		if err := t.write(lineOf(e, "event")); err != nil {
			return err
		}
	}
	if was && sameDelivery(known.delivery, e.Delivery) || !was && e.Delivery.State == "QUEUED" {
		known.delivery = e.Delivery
		return nil
	}
	if t.asked++; t.asked > t.Bounds.Asked { // a list has no attempts
		known.delivery = e.Delivery
		return t.write(lineOf(e, "state"))
	}
	whole, err := t.Client.GetEvent(ctx, e.ID)
	if err != nil {
		return err
	}
	return t.show(whole)
}

func sameDelivery(a, b client.Delivery) bool {
	next := func(d client.Delivery) time.Time {
		if d.NextAttemptAt == nil {
			return time.Time{}
		}
		return *d.NextAttemptAt
	}
	return a.State == b.State && a.Held == b.Held && a.EndpointID == b.EndpointID &&
		next(a).Equal(next(b))
}

// due are events that lists of recent ones no longer have, of which more is to be known by now.
func (t *Tail) due() (ids []string) {
	now := time.Now()
	for _, id := range t.known.Keys() { // the longest unseen first
		known, _ := t.known.Peek(id)
		next := known.delivery.NextAttemptAt
		if !known.pending() || !known.created.Before(t.oldest) || known.again.After(now) ||
			next != nil && next.After(now) {
			continue
		}
		if len(ids) == t.Bounds.Asked {
			return ids
		}
		known.wait = min(max(tailEvery, 2*known.wait), tailLastTry)
		known.again = now.Add(known.wait)
		ids = append(ids, id)
	}
	return ids
}

// show shows what became of an event since it was shown last.
func (t *Tail) show(e client.Event) error {
	known, was := t.known.Get(e.ID)
	if !was {
		return nil
	}
	shown := 0
	for i := known.attempts; i < len(e.Attempts); i++ {
		a := e.Attempts[i]
		if a.SentAt.Before(t.Filter.Since) {
			continue
		}
		line := lineOf(e, "attempt")
		line.Time, line.Attempt = a.SentAt.Add(time.Duration(a.DurationMs)*time.Millisecond), &a
		if i < len(e.Attempts)-1 { // another followed
			line.State, line.NextAttemptAt = "WAITING", nil
		}
		if err := t.write(line); err != nil {
			return err
		}
		shown++
	}
	changed := known.delivery.State != e.Delivery.State
	if shown > 0 || changed {
		known.wait = 0
	}
	known.attempts, known.delivery = len(e.Attempts), e.Delivery
	if shown == 0 && changed {
		line := lineOf(e, "state")
		line.Time = time.Now()
		return t.write(line)
	}
	return nil
}

func lineOf(e client.Event, kind string) TailLine {
	line := TailLine{
		Time:          e.CreatedAt,
		Kind:          kind,
		EventID:       e.ID,
		Type:          e.Type,
		EndpointID:    e.Delivery.EndpointID,
		Sequence:      e.Delivery.Sequence,
		State:         e.Delivery.State,
		NextAttemptAt: e.Delivery.NextAttemptAt,
	}
	if kind == "event" {
		line.Data, line.State, line.NextAttemptAt = e.Data, "QUEUED", nil
	}
	return line
}

var errTailOutput = errors.New("writing what happens")

// write writes a line with one call, so that a reader gets whole lines.
func (t *Tail) write(l TailLine) (err error) {
	if t.Filter.State != "" && l.State != t.Filter.State {
		return nil
	}
	text := l.text()
	if t.JSON {
		encoded, err := json.Marshal(l)
		if err != nil {
			return err
		}
		text = string(encoded)
	}
	if _, err = io.WriteString(t.Out, text+"\n"); err != nil {
		return fmt.Errorf("%w: %w", errTailOutput, err)
	}
	return nil
}

// text is a line for people.
func (l TailLine) text() string {
	said := fmt.Sprintf("%s  %s  %s  %s  ", l.Time.Local().Format(time.TimeOnly), l.EventID,
		cli.OneLine(l.Type), l.EndpointID)
	switch {
	case l.Kind == "event":
		return said + "created" + paid(l.Data)
	case l.Attempt == nil:
		return said + l.State
	}
	said += fmt.Sprintf("attempt %d: ", l.Attempt.Number)
	switch {
	case l.Attempt.Error != nil:
		said += cli.OneLine(*l.Attempt.Error)
		if l.Attempt.ErrorDetail != nil {
			said += " (" + cli.OneLine(*l.Attempt.ErrorDetail) + ")"
		}
	case l.Attempt.StatusCode != nil:
		said += fmt.Sprintf("%d %s", *l.Attempt.StatusCode, http.StatusText(*l.Attempt.StatusCode))
	}
	said += fmt.Sprintf(" in %d ms, %s", l.Attempt.DurationMs, l.State)
	if l.NextAttemptAt != nil {
		said += ", next at " + l.NextAttemptAt.Local().Format(time.TimeOnly)
	}
	return said
}

// paid says what an event is about, if it is about a payment.
func paid(data json.RawMessage) string {
	if amount := readPaid(data).amount(); amount != "" {
		return cli.OneLine(": " + amount)
	}
	return ""
}

// tailPause reports whether the time passed before ctx ended.
func tailPause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// selects looks whether the filter can take any event: one with an id that nothing has would have
// the tail wait for ever. Where no event was taken until now, it tells so.
func (t *Tail) selects(ctx context.Context) error {
	filter := t.Filter
	filter.State, filter.Since = "", time.Time{}
	if filter == (client.EventFilter{}) {
		return nil
	}
	list, err := t.Client.ListEvents(ctx, filter, client.Page{Limit: 1}) // refuses one that is invalid
	if err != nil || len(list.Data) > 0 {
		return err
	}
	if err := t.named(ctx, filter); err != nil {
		return err
	}
	fmt.Fprintln(t.Tell, "no event is of these filters yet: waiting for the first")
	return nil
}

// named looks up what the filter names, of which there is no event. A transaction, a payment or a
// memo may still be to come.
func (t *Tail) named(ctx context.Context, filter client.EventFilter) error {
	if filter.EndpointID != "" {
		if _, err := t.Client.GetEndpoint(ctx, filter.EndpointID); err != nil {
			return err
		}
	}
	if filter.WatchID != "" {
		if _, err := t.Client.GetWatch(ctx, filter.WatchID); err != nil {
			return err
		}
	}
	if filter.WalletAddress == "" {
		return nil
	}
	watches, err := t.Client.ListWatches(ctx, client.WatchFilter{WalletAddress: filter.WalletAddress},
		client.Page{Limit: 1})
	if err == nil && len(watches.Data) == 0 {
		err = errors.New("--wallet: no watch of your account is of this wallet: " +
			"`lumenhook watches create` makes one")
	}
	return err
}
