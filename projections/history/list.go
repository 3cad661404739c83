package history

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
)

const (
	listMax = 250 // events per page

	// A list with one state reads events in growing steps. When it has read enough, it returns the
	// events found and the position at which to continue.
	firstStep = 100
	lastStep  = 1000
	stepsMax  = 5

	headsAhead = 500 // minimum number of rows that such a list reads at a time

	// chooseSteps limits the number of steps of a choice, of 1,000 events each.
	chooseSteps = 40
)

// Events returns at most limit (1 to 250) events of an account after a position, newest first. It
// doesn't wait for facts that have not been projected yet, but it waits for tables that are being
// rebuilt. It returns ErrBehind, ErrUnavailable or the context's error.
func (h *History) Events(
	ctx context.Context, f readmodel.EventFilter, after *readmodel.Position, limit int,
) (page []readmodel.Event, next *readmodel.Position, err error) {
	if f.AccountID == "" || limit < 1 || limit > listMax {
		return nil, nil, fmt.Errorf("projections: a list is of one account and of 1 to %d events, "+
			"not of %q and %d", listMax, f.AccountID, limit)
	}
	err = h.ask(ctx, func(of *reading) error {
		page, next, err = of.events(ctx, f, after, limit, false)
		return err
	})
	return page, next, err
}

// Choose returns at most limit (1 to readmodel.ChooseMax) events of an account that match a filter,
// after a position, newest first. For a rare state it may return fewer events, because it reads a
// limited range. Its errors are those of Events.
func (h *History) Choose(
	ctx context.Context, f readmodel.EventFilter, after *readmodel.Position, limit int,
) (chosen []readmodel.Position, next *readmodel.Position, err error) {
	if f.AccountID == "" || limit < 1 || limit > readmodel.ChooseMax {
		return nil, nil, fmt.Errorf("projections: a choice is of one account and of 1 to %d events, "+
			"not of %q and %d", readmodel.ChooseMax, f.AccountID, limit)
	}
	var page []readmodel.Event
	err = h.ask(ctx, func(of *reading) error {
		page, next, err = of.events(ctx, f, after, limit, true)
		return err
	})
	for _, e := range page {
		chosen = append(chosen, positionOf(e))
	}
	return chosen, next, err
}

func (h *reading) events(
	ctx context.Context, f readmodel.EventFilter, after *readmodel.Position, limit int, bare bool,
) (page []readmodel.Event, next *readmodel.Position, err error) {
	err = h.onJournal(ctx, func(ctx context.Context, db tables) error {
		list := lister{
			db:        db,
			filter:    f,
			limit:     limit,
			bare:      bare,
			standings: make(map[string]rebuildState),
		}
		if after != nil {
			list.after = *after
		}
		err := list.run(ctx)
		if page, next = list.page, list.next; err != nil {
			page, next = nil, nil // as if no projector had created the tables yet
		}
		return err
	})
	return page, next, err
}

type lister struct {
	db     tables
	filter readmodel.EventFilter
	limit  int
	bare   bool // only ids and times of the events
	page   []readmodel.Event
	// next is the position after the page. A page may have fewer events than requested, even none,
	// without being the last, because a list of a rare state reads a limited range per page.
	next *readmodel.Position

	after     readmodel.Position // last event read; zero at the beginning
	ahead     []readmodel.Event  // events after it that were read ahead
	ended     bool               // no events follow these
	standings map[string]rebuildState
}

func (l *lister) run(ctx context.Context) error {
	step, steps := l.limit+1, stepsMax
	if l.filter.State != "" {
		step = max(step, firstStep)
	}
	if l.bare {
		step, steps = lastStep, chooseSteps
	}
	looked := 0
	for range steps {
		found, last, err := l.step(ctx, step)
		if err != nil {
			return err
		}
		for _, r := range found {
			if len(l.page) == l.limit {
				last := positionOf(l.page[l.limit-1])
				l.next = &last
				return l.complete(ctx)
			}
			l.page = append(l.page, r)
		}
		if last {
			return l.complete(ctx)
		}
		looked += step
		step = l.nextStep(step, looked)
	}
	l.next = &l.after
	return l.complete(ctx)
}

// nextStep assumes that the missing events are slightly rarer than those found so far.
func (l *lister) nextStep(step, looked int) int {
	if l.bare {
		return step
	}
	found := len(l.page)
	if found == 0 {
		return min(2*step, lastStep)
	}
	missing := l.limit + 1 - found
	return min(max(missing*looked/found*5/4, firstStep), lastStep)
}

func positionOf(e readmodel.Event) readmodel.Position {
	return readmodel.Position{CreatedAtMillis: e.CreatedAtMillis, ID: e.ID}
}

// step reads the next n events and returns those with the requested state. last reports that no
// events follow.
func (l *lister) step(ctx context.Context, n int) (found []readmodel.Event, last bool, err error) {
	if len(l.ahead) < n && !l.ended {
		if err := l.readAhead(ctx, n); err != nil {
			return nil, false, err
		}
	}
	n = min(n, len(l.ahead))
	for n > 0 && n < len(l.ahead) && positionOf(l.ahead[n]) == positionOf(l.ahead[n-1]) {
		n++ // keep the rows of an event together
	}
	found, l.ahead = l.ahead[:n], l.ahead[n:]
	if n > 0 {
		l.after = positionOf(found[n-1])
	}
	standings, err := l.db.standings(ctx, found)
	if err != nil {
		return nil, false, err
	}
	present := found[:0]
	for _, r := range found {
		// An event whose delivery has not been written yet is left for the next query. An event with
		// several deliveries is listed with the current one.
		s, there := standings[r.ID]
		if there && s.endpointID == r.EndpointID && (l.filter.State == "" || s.state == l.filter.State) {
			l.standings[r.ID] = s
			present = append(present, r)
		}
	}
	return present, l.ended && len(l.ahead) == 0, nil
}

// readAhead reads the next n events. For a list with one state it reads more, because ClickHouse
// reads a hundred about as fast as four.
func (l *lister) readAhead(ctx context.Context, n int) error {
	if l.filter.State != "" {
		n = max(n, headsAhead)
	}
	from := l.after
	if len(l.ahead) > 0 {
		from = positionOf(l.ahead[len(l.ahead)-1])
	}
	had := len(l.ahead)
	for n += rowsOfEvent; ; n *= 2 {
		if err := l.readRows(ctx, from, n); err != nil || l.ended {
			return err
		}
		// The last event may have more rows, so it is read again.
		last := positionOf(l.ahead[len(l.ahead)-1])
		for len(l.ahead) > had && positionOf(l.ahead[len(l.ahead)-1]) == last {
			l.ahead = l.ahead[:len(l.ahead)-1]
		}
		if len(l.ahead) > had {
			return nil
		}
	}
}

// rowsOfEvent is usually more than the rows of an event: one per delivery, and their duplicates.
const rowsOfEvent = 16

func (l *lister) readRows(ctx context.Context, from readmodel.Position, n int) error {
	rows := 0
	query, which := l.heads(from, n)
	err := l.db.Query(ctx, query, which, func(scan func(...any) error) error {
		r, err := l.readHead(scan)
		if rows++; !l.has(r) {
			l.ahead = append(l.ahead, r)
		}
		return err
	})
	l.ended = rows < n
	return err
}

// has reports whether a row was already read. Its duplicates, and the rows of the event's other
// deliveries, are adjacent.
func (l *lister) has(r readmodel.Event) bool {
	for _, read := range slices.Backward(l.ahead) {
		if positionOf(read) != positionOf(r) {
			return false
		}
		if read.EndpointID == r.EndpointID {
			return true
		}
	}
	return false
}

// heads returns the query for the next n rows of events after a position.
func (l *lister) heads(after readmodel.Position, n int) (query string, which writer.Parameters) {
	f := l.filter
	which = writer.Parameters{"account": f.AccountID, "limit": strconv.Itoa(n)}
	where := []string{"account_id = {account:String}"}
	same := func(column, value string) {
		if value != "" {
			where = append(where, column+" = {"+column+":String}")
			which[column] = value
		}
	}
	same("endpoint_id", f.EndpointID)
	same("watch_id", f.WatchID)
	same("wallet_address", f.WalletAddress)
	same("type", string(f.Type))
	same("payment_id", f.PaymentID)
	same("tx_hash", f.TxHash)
	same("from_address", f.Sender)
	if f.NoTests {
		where = append(where, "type != '"+string(domain.TestPing)+"'")
	}
	where = append(where, paidConditions(f, which)...)
	at := func(compare string, millis int64) {
		if millis != 0 {
			where = append(where,
				fmt.Sprintf("created_at %s fromUnixTimestamp64Milli(%d, 'UTC')", compare, millis))
		}
	}
	at(">=", f.SinceMillis)
	at("<", f.UntilMillis)
	if after != (readmodel.Position{}) {
		at("<=", after.CreatedAtMillis)
		where = append(where,
			fmt.Sprintf("(created_at, event_id) < (fromUnixTimestamp64Milli(%d, 'UTC'), {after:String})",
				after.CreatedAtMillis))
		which["after"] = after.ID
	}
	return `SELECT ` + l.columns() + ` FROM {database:Identifier}.events
WHERE ` + strings.Join(where, " AND ") +
		` ORDER BY account_id DESC, created_at DESC, event_id DESC LIMIT {limit:UInt32}`, which
}

// paidConditions returns the conditions on the payment. A memo may be any text, so it is sent in
// hex.
func paidConditions(f readmodel.EventFilter, which writer.Parameters) (where []string) {
	if f.Memo != "" {
		where = append(where, "memo = unhex({memo:String})")
		which["memo"] = hex.EncodeToString([]byte(f.Memo))
	}
	if f.Asset != (domain.Asset{}) {
		where = append(where, "asset_code = {code:String}", "asset_issuer = {issuer:String}")
		which["code"], which["issuer"] = f.Asset.Code, f.Asset.Issuer
	}
	if f.MinStroops != nil {
		where = append(where, fmt.Sprintf("amount_stroops >= %d", *f.MinStroops))
	}
	if f.MaxStroops != nil {
		where = append(where, fmt.Sprintf("amount_stroops <= %d", *f.MaxStroops))
	}
	if f.MinStroops != nil || f.MaxStroops != nil { // a test.ping has no payment
		where = append(where, "payment_id != ''")
	}
	return where
}

// withBodies reports whether envelopes are read along with the heads. Without a filter by state,
// the page needs all but one of them.
func (l *lister) withBodies() bool { return l.filter.State == "" && !l.bare }

func (l *lister) columns() string {
	if l.withBodies() {
		return "event_id, endpoint_id, created_at, sequence, body"
	}
	return "event_id, endpoint_id, created_at, sequence"
}

func (l *lister) readHead(read func(...any) error) (r readmodel.Event, err error) {
	var created time.Time
	into := []any{&r.ID, &r.EndpointID, &created, &r.Sequence, &r.Body}
	if !l.withBodies() {
		into = into[:4]
	}
	err = read(into...)
	r.CreatedAtMillis = created.UnixMilli()
	return r, err
}

func (l *lister) complete(ctx context.Context) error {
	if len(l.page) == 0 || l.bare {
		return nil
	}
	stand := func() {
		for i := range l.page {
			r := &l.page[i]
			l.standings[r.ID].into(r)
		}
	}
	stand()
	reads, reading := errgroup.WithContext(ctx)
	reads.Go(func() error { return l.db.countEnabling(reading, l.standings) })
	reads.Go(func() error { return l.readOutcomes(reading) })
	if !l.withBodies() {
		reads.Go(func() error { return l.readBodies(reading) })
	}
	err := reads.Wait()
	stand() // with the effect of enablings
	return err
}

const selectBodies = `
SELECT event_id, endpoint_id, body FROM {database:Identifier}.events
PREWHERE account_id = {account:String}
    AND created_at IN {times:Array(DateTime64(3, 'UTC'))}
    AND event_id IN {events:Array(String)}`

func (l *lister) readBodies(ctx context.Context) error {
	at := make(map[eventAt]*readmodel.Event, len(l.page))
	var ids []string
	var times []time.Time
	for i := range l.page {
		r := &l.page[i]
		at[eventAt{r.ID, r.EndpointID}] = r
		ids = append(ids, r.ID)
		times = append(times, time.UnixMilli(r.CreatedAtMillis))
	}
	which := writer.Parameters{
		"account": l.filter.AccountID, "times": writer.TimesOf(times...), "events": writer.ArrayOf(ids),
	}
	return l.db.Query(ctx, selectBodies, which, func(read func(...any) error) error {
		var key eventAt
		var body []byte
		err := read(&key.eventID, &key.endpointID, &body)
		if r := at[key]; r != nil {
			r.Body = body
		}
		return err
	})
}

// The last attempts are located by their times, because attempts are sorted by endpoint and time.
const selectOutcomes = `
SELECT event_id, endpoint_id, number, ifNull(status_code, 0), error
FROM {database:Identifier}.attempts
PREWHERE endpoint_id IN {endpoints:Array(String)}
    AND sent_at IN (
        SELECT max(arrayMax(attempt_times)) FROM {database:Identifier}.deliveries
        WHERE event_id IN {events:Array(String)} AND notEmpty(attempt_times)
        GROUP BY event_id, endpoint_id
    )
    AND event_id IN {events:Array(String)}
ORDER BY number`

// readOutcomes fills in the outcome of each delivery's last attempt. An attempt that isn't yet
// counted by the delivery is left for the next query (P3).
func (l *lister) readOutcomes(ctx context.Context) error {
	at := make(map[eventAt]*readmodel.Event, len(l.page))
	var events, endpoints []string
	for i := range l.page {
		if r := &l.page[i]; r.AttemptsMade > 0 {
			at[eventAt{r.ID, r.EndpointID}] = r
			events, endpoints = append(events, r.ID), append(endpoints, r.EndpointID)
		}
	}
	if len(at) == 0 {
		return nil
	}
	which := writer.Parameters{
		"events": writer.ArrayOf(events), "endpoints": writer.ArrayOf(endpoints),
	}
	return l.db.Query(ctx, selectOutcomes, which, func(read func(...any) error) error {
		var key eventAt
		var number uint32
		var status uint16
		var fault string
		err := read(&key.eventID, &key.endpointID, &number, &status, &fault)
		if r := at[key]; r != nil && int(number) <= r.AttemptsMade {
			r.LastStatusCode, r.LastError = int(status), domain.AttemptError(fault)
		}
		return err
	})
}
