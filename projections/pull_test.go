package projections_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
)

// pulled returns the numbers of a page, including the numbers that it reports as missing.
func pulled(page readmodel.NumberedPage) string {
	var list []string
	for _, e := range page.Events {
		list = append(list, fmt.Sprint(e.Sequence))
	}
	for _, m := range page.Missing {
		list = append(list, fmt.Sprintf("missing %d-%d", m.From, m.To))
	}
	return strings.Join(list, " ")
}

func (r *rig) pull(h *history.History, s *story, after uint64, limit int) string {
	r.t.Helper()
	page, err := h.Numbered(r.t.Context(), testAccount, s.endpointID, after, limit)
	must(r.t, err)
	return pulled(page)
}

// Pages continue by number, whatever other events the account has and whatever rows are copied.
func TestEventsByTheirNumbers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.project(nil)
	one, two := newStory(1), newStory(2)
	h := r.history(0)
	if got := r.pull(h, one, 0, 10); got != "" {
		t.Fatalf("an empty history has %s", got)
	}
	const events = 120
	for n := range events {
		r.append(one.created(n), two.created(n), one.delivered(n, 1))
	}
	r.awaitProjected()
	r.exec("SYSTEM STOP MERGES events")
	r.exec("INSERT INTO events SELECT * FROM events")
	for _, s := range []*story{one, two} {
		var after uint64
		for after < events {
			page, err := h.Numbered(t.Context(), testAccount, s.endpointID, after, 50)
			must(t, err)
			if len(page.Events) != int(min(50, events-after)) || len(page.Missing) != 0 {
				t.Fatalf("after %d: %s", after, pulled(page))
			}
			for _, e := range page.Events {
				after++
				want := s.eventID(int(after) - 1)
				if e.Sequence != after || e.ID != want || !strings.Contains(string(e.Body), want) {
					t.Fatalf("number %d is %d, %s: %s", after, e.Sequence, e.ID, e.Body)
				}
			}
		}
		if got := r.pull(h, s, events, 50); got != "" {
			t.Errorf("after the last one there is %s", got)
		}
	}
	if n := r.count("SELECT uniqExact(endpoint_id, sequence) FROM current_deliveries " +
		"WHERE sequence BETWEEN 1 AND 120"); n != 2*events {
		t.Errorf("the view has %d numbers, not %d", n, 2*events)
	}
	page, err := h.Numbered(t.Context(), "acc_00000000000000000000000002", one.endpointID, 0, 50)
	if err != nil || pulled(page) != "" {
		t.Errorf("another account sees %s, %v", pulled(page), err)
	}
	for _, limit := range []int{0, 251} {
		if _, err := h.Numbered(t.Context(), testAccount, one.endpointID, 0, limit); err == nil {
			t.Errorf("a limit of %d is taken", limit)
		}
	}
}

// A client without a number begins with the first event created at or after a given time, or
// after the last event, even if the times are not in order.
func TestTheNumberBeforeATime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.project(nil)
	one, two := newStory(1), newStory(2)
	h := r.history(0)
	before := func(s *story, since time.Time) uint64 {
		t.Helper()
		n, err := h.NumberBefore(t.Context(), testAccount, s.endpointID, since.UnixMilli())
		must(t, err)
		return n
	}
	if got := before(one, time.UnixMilli(0)); got != 0 {
		t.Fatalf("an empty history begins after %d", got)
	}
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for n, minute := range []int{0, 1, 5, 4, 9} { // the clock of the node that took over was behind
		f := one.created(n)
		d := f.Body.(domain.DeliveryCreated)
		d.Event.CreatedAtMillis = start.Add(time.Duration(minute) * time.Minute).UnixMilli()
		f.Body = d
		r.append(f, two.created(n))
	}
	for minute, want := range map[int]uint64{-1: 0, 0: 0, 1: 1, 2: 2, 5: 2, 6: 4, 9: 4, 10: 5} {
		if got := before(one, start.Add(time.Duration(minute)*time.Minute)); got != want {
			t.Errorf("since minute %d begins after %d, not %d", minute, got, want)
		}
	}
	n, err := h.NumberBefore(t.Context(), "acc_00000000000000000000000002", one.endpointID, 0)
	if err != nil || n != 0 {
		t.Errorf("another account begins after %d, %v", n, err)
	}
}

// A number whose row is not written yet holds back the numbers after it, so that a page is never
// followed by a smaller number. A number whose row was deleted by retention holds nothing back
// and is reported as missing.
func TestNoNumberIsPassedOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStory(1)
	run := r.project(nil)
	for n := range 6 {
		r.append(s.created(n))
	}
	r.awaitProjected()
	run.finish(t)
	hasty, patient := r.history(time.Second), r.history(0)
	if got := r.pull(hasty, s, 0, 50); got != "1 2 3 4 5 6" {
		t.Fatalf("there is %s", got)
	}
	// A fact whose row is written before the previous fact's, as after a block of which only half
	// was written.
	first, second := s.created(6), s.created(7)
	r.append(first, second)
	r.exec(rowOf(second))
	if got := r.pull(hasty, s, 4, 50); got != "5 6" {
		t.Errorf("before number 7 is written it shows %s", got)
	}
	if page, err := hasty.Numbered(t.Context(), testAccount, s.endpointID, 6, 50); !errors.Is(err,
		readmodel.ErrBehind) {
		t.Errorf("while number 7 is to be written it shows %q, %v", pulled(page), err)
	}
	r.project(nil)
	if got := r.pull(patient, s, 6, 50); got != "7 8" {
		t.Errorf("when it is written it shows %s", got)
	}
	r.awaitProjected()
	r.exec("DELETE FROM events WHERE sequence IN (1, 2, 3, 6)")
	for after, want := range map[uint64]string{
		0: "4 5 7 8 missing 1-3 missing 6-6",
		2: "4 5 7 8 missing 3-3 missing 6-6",
		3: "4 5",
		5: "7 8 missing 6-6",
		8: "",
	} {
		if got := r.pull(patient, s, after, 50); got != want {
			t.Errorf("after %d there is %q, not %q", after, got, want)
		}
	}
	if got := r.pull(patient, s, 0, 1); got != "4 missing 1-3" {
		t.Errorf("a page of one has %q", got)
	}
}

func rowOf(f domain.Fact) string {
	d := f.Body.(domain.DeliveryCreated)
	return fmt.Sprintf("INSERT INTO events (event_id, account_id, endpoint_id, created_at, body, "+
		"sequence, version) VALUES ('%s', '%s', '%s', fromUnixTimestamp64Milli(%d), '%s', %d, %d)",
		d.Event.ID, d.AccountID, d.EndpointID, d.Event.CreatedAtMillis, d.Event.Body, d.Sequence,
		f.Version)
}

// While lost tables are being refilled, they show a prefix of the numbers and report none as
// missing.
func TestNumbersOfTablesThatAreBeingFilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStory(1)
	const events = 200
	for n := range events {
		r.append(s.created(n))
	}
	run := r.project(nil)
	r.awaitProjected()
	hasty := r.history(time.Millisecond)
	r.pull(r.history(0), s, 0, 1)
	run.finish(t)
	r.exec("DROP TABLE events SYNC")
	r.project(func(c *writer.ProjectorConfig) { c.BlockRows, c.BlockWait = 20, time.Millisecond })
	for after := uint64(0); after < events; {
		page, err := hasty.Numbered(t.Context(), testAccount, s.endpointID, after, 30)
		if err != nil && !errors.Is(err, readmodel.ErrBehind) {
			t.Fatal(err)
		}
		if len(page.Missing) > 0 {
			t.Fatalf("while the tables are filled it shows %s", pulled(page))
		}
		for _, e := range page.Events {
			if after++; e.Sequence != after {
				t.Fatalf("number %d follows %d", e.Sequence, after-1)
			}
		}
	}
}

// A fact in the endpoint's partition wakes a waiting reader. Waiting also ends with the reader's
// context.
func TestWaitingForTheNextNumber(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.project(nil)
	s := newStory(1)
	r.append(s.created(0))
	r.awaitProjected()
	h := r.history(0)
	page, err := h.Numbered(t.Context(), testAccount, s.endpointID, 1, 10)
	if err != nil || pulled(page) != "" {
		t.Fatalf("%s, %v", pulled(page), err)
	}
	ending, end := context.WithCancel(t.Context())
	const readers = 5
	woken, ended := make(chan error, readers), make(chan error, 1)
	go func() { ended <- h.AwaitMore(ending, s.endpointID, page.AsOf) }()
	end()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	for range readers {
		go func() { woken <- h.AwaitMore(t.Context(), s.endpointID, page.AsOf) }()
	}
	r.append(s.created(1))
	for range readers {
		must(t, <-woken)
	}
	if got := r.pull(h, s, 1, 10); got != "2" {
		t.Errorf("there is %q", got)
	}
}

func TestAPageReadsFewRows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	must(t, writer.Migrate(t.Context(), r.db))
	const events = 200_000
	s := newStory(1)
	r.exec(fmt.Sprintf("INSERT INTO events (event_id, account_id, endpoint_id, created_at, body, sequence) "+
		"SELECT 'evt_' || leftPad(toString(number), 26, '0'), '%s', '%s', "+
		"fromUnixTimestamp64Milli(%d + number), '{}', number + 1 FROM numbers(%d)",
		testAccount, s.endpointID, startMillis, events))
	var rows atomic.Int64
	ctx := clickhouse.Context(t.Context(),
		clickhouse.WithProgress(func(p *clickhouse.Progress) { rows.Add(int64(p.Rows)) }))
	page, err := r.history(0).Numbered(ctx, testAccount, s.endpointID, events-3, 3)
	must(t, err)
	if got := pulled(page); got != fmt.Sprint(events-2, events-1, events) {
		t.Fatalf("it has %s", got)
	}
	if n := rows.Load(); n == 0 || n > 5000 {
		t.Errorf("a page of 3 events of %d reads %d rows", events, n)
	}
}
