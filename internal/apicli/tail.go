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
	// tailOverlap is how far before the newest known event each round looks, because events don't
	// reach the history in order.
	tailOverlap = 30 * time.Second
	tailLastTry = 30 * time.Second
)

// TailBounds limits what a tail reads and remembers. It reports what exceeds the limits.
type TailBounds struct {
	Page  int // events per page
	Pages int // per round; older events are not shown
	Known int // events remembered; later changes of others are not shown
	Asked int // events read with their attempts per round; the rest follow later
}

// DefaultTailBounds returns the limits that the command's help states.
func DefaultTailBounds() TailBounds {
	return TailBounds{Page: 250, Pages: 40, Known: 20_000, Asked: 200}
}

// Tail shows events and their attempts as they happen, by polling the history. It is not safe for
// concurrent use.
type Tail struct {
	Client *client.Client
	// Filter selects events. Its State selects lines by the event's state after them, and its Since
	// is where the tail starts.
	Filter client.EventFilter
	Out    io.Writer
	Tell   io.Writer // for notices
	JSON   bool
	Bounds TailBounds

	known  *simplelru.LRU[string, *tailed]
	newest time.Time // creation time of the newest known event
	lost   int       // pending events forgotten in this round
}

// tailed holds the last printed state of an event.
type tailed struct {
	attempts int
	delivery client.Delivery
	changed  bool // according to a list, which has no attempts
	// A pending event is read at most once per wait, and not before again. wait doubles while
	// nothing changes.
	wait  time.Duration
	again time.Time
}

func (k *tailed) pending() bool {
	return k.delivery.State == "QUEUED" || k.delivery.State == "WAITING"
}

// TailLine is one line of a tail.
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
	Data          json.RawMessage `json:"data,omitempty"` // only for kind event
}

// Run shows events and attempts until ctx is done, and returns nil then. It survives outages of the
// service.
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
	if err = t.begin(ctx); err == nil { // the service rejects invalid filters here
		err = t.checkFilter(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	fmt.Fprintln(t.Tell, "showing events and attempts as they happen; press Ctrl-C to stop")
	wait, away := tailEvery, false
	for tailPause(ctx, wait) {
		err := t.round(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errTailOutput), err != nil && !client.MayPass(err):
			return err
		case err != nil && away:
			wait = min(2*wait, tailLastTry)
		case err != nil:
			fmt.Fprintf(t.Tell, "%s\ncontinuing once the service answers\n", cli.Explain(err, noFlags))
			wait, away = tailEvery, true
		default:
			if away {
				fmt.Fprintln(t.Tell, answersAgain)
			}
			wait, away = tailEvery, false
		}
	}
	return nil
}

// checkFilter returns an error if the filter's endpoint, watch or wallet does not exist, because
// nothing would ever match. A transaction, payment or memo may still appear.
func (t *Tail) checkFilter(ctx context.Context) error {
	if t.Filter.EndpointID != "" {
		if _, err := t.Client.GetEndpoint(ctx, t.Filter.EndpointID); err != nil {
			return err
		}
	}
	if t.Filter.WatchID != "" {
		if _, err := t.Client.GetWatch(ctx, t.Filter.WatchID); err != nil {
			return err
		}
	}
	if t.Filter.WalletAddress == "" {
		return nil
	}
	watches, err := t.Client.ListWatches(ctx,
		client.WatchFilter{WalletAddress: t.Filter.WalletAddress}, client.Page{Limit: 1})
	if err == nil && len(watches.Data) == 0 {
		err = errors.New("--wallet: none of your watches is for this wallet; " +
			"to create one, use `lumenhook watches create`")
	}
	return err
}

// begin remembers the pending events, so that their next attempts are shown.
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
				t.known.Add(e.ID, &tailed{delivery: e.Delivery})
			}
		}
		if !whole {
			fmt.Fprintf(t.Tell, "more than %d events are already %s; changes of the oldest ones are "+
				"not shown (use `lumenhook events list`)\n", len(pending), state)
		}
	}
	t.tellLost()
	return nil
}

func (t *Tail) list(
	ctx context.Context, filter client.EventFilter,
) (events []client.Event, whole bool, err error) {
	return ReadEvents(ctx, t.Client, filter, t.Bounds.Page, t.Bounds.Pages)
}

func (t *Tail) tellLost() {
	if t.lost > 0 {
		fmt.Fprintf(t.Tell, "too many pending events: changes of %d of them are no longer shown "+
			"(use `lumenhook events get`)\n", t.lost)
	}
	t.lost = 0
}

func (t *Tail) round(ctx context.Context) error {
	defer t.tellLost()
	filter := t.Filter
	filter.State, filter.Since = "", t.newest.Add(-tailOverlap)
	if filter.Since.Before(t.Filter.Since) {
		filter.Since = t.Filter.Since
	}
	recent, whole, err := t.list(ctx, filter)
	if err != nil {
		return err
	}
	if n := len(recent); !whole && n > 0 && !t.known.Contains(recent[n-1].ID) {
		fmt.Fprintf(t.Tell, "more than %d events came at once; the oldest ones are not shown "+
			"(use `lumenhook events list`)\n", n)
	}
	for _, e := range slices.Backward(recent) {
		if err := t.see(e); err != nil {
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

// see shows a new event, and marks a known event that has changed.
func (t *Tail) see(e client.Event) error {
	if e.CreatedAt.After(t.newest) {
		t.newest = e.CreatedAt
	}
	known, was := t.known.Get(e.ID)
	if !was {
		known = &tailed{delivery: client.Delivery{State: "QUEUED"}}
		t.known.Add(e.ID, known)
		if err := t.write(lineOf(e, "event")); err != nil {
			return err
		}
	}
	if was && sameDelivery(known.delivery, e.Delivery) || !was && e.Delivery.State == "QUEUED" {
		known.delivery, known.again = e.Delivery, time.Now().Add(tailEvery)
	} else {
		known.changed = true
	}
	return nil
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

// due returns the events to read with their attempts: those that changed, and pending ones that are
// no longer in the lists. It returns at most Bounds.Asked ids.
func (t *Tail) due() (ids []string) {
	now := time.Now()
	for _, id := range t.known.Keys() { // least recently used first
		known, _ := t.known.Peek(id)
		next := known.delivery.NextAttemptAt
		waits := !known.pending() || known.again.After(now) || next != nil && next.After(now)
		if waits && !known.changed {
			continue
		}
		if len(ids) == t.Bounds.Asked {
			return ids
		}
		known.changed = false
		known.wait = min(max(tailEvery, 2*known.wait), tailLastTry)
		known.again = now.Add(known.wait)
		ids = append(ids, id)
	}
	return ids
}

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
		if i < len(e.Attempts)-1 { // another attempt followed
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

var errTailOutput = errors.New("writing the output")

// write writes a line in a single call, so that readers see complete lines.
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

func paid(data json.RawMessage) string {
	if amount := amountText(client.Event{Data: data}.PaymentData()); amount != "" {
		return cli.OneLine(": " + amount)
	}
	return ""
}

// tailPause reports whether d passed before ctx was done.
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
