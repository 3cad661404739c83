package projections

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
)

const (
	listMax = 250 // events of one page

	// A list of one state reads events in growing steps. When it has read enough, it
	// returns what it has found and where to continue.
	firstStep = 100
	lastStep  = 1000
	stepsMax  = 5

	headsAhead = 500 // that a list of one state reads at a time, at least
)

// EventFilter selects events. AccountID must be set; other fields do not filter if they are
// empty.
type EventFilter struct {
	AccountID     string
	EndpointID    string
	WatchID       string
	WalletAddress string
	Type          domain.EventType
	State         domain.DeliveryState
	PaymentID     string
	TxHash        string
	Sender        string
	Memo          string // as events show it
	Asset         domain.Asset
	MinStroops    *int64 // paid at least
	MaxStroops    *int64 // paid at most
	FromMillis    int64  // created at or after
	ToMillis      int64  // created before
	NoTests       bool   // without events of the type test.ping
}

// EventPosition is a position in a list: the event that was returned last. Zero is the
// beginning.
type EventPosition struct {
	CreatedAtMillis int64
	EventID         string
}

// EventPage is one page of a list.
type EventPage struct {
	Events []EventRecord // newest first, without the fields that lists leave out
	// Next is where the list continues; zero at its end. A page may have fewer events than
	// requested, even none, and not be the last: a list of a rare state reads a bounded
	// stretch for each page.
	Next EventPosition
}

// Events lists events of an account, newest first, at most limit (1 to 250) of them, from a
// position on. It does not wait for facts that are not projected yet, but it does wait for
// tables that are being refilled. Its errors are ErrBehind, ErrUnavailable and the
// context's own.
func (h *History) Events(
	ctx context.Context, f EventFilter, limit int, after EventPosition,
) (page EventPage, err error) {
	if f.AccountID == "" || limit < 1 || limit > listMax {
		return EventPage{}, fmt.Errorf("projections: a list is of one account and of 1 to %d events, "+
			"not of %q and %d", listMax, f.AccountID, limit)
	}
	err = h.ask(ctx, func(of *reading) error {
		page, err = of.events(ctx, f, limit, after, false)
		return err
	})
	return page, err
}

func (h *reading) events(
	ctx context.Context, f EventFilter, limit int, after EventPosition, bare bool,
) (EventPage, error) {
	var page EventPage
	err := h.onFull(ctx, func() error {
		return readFault(ctx, h.look(ctx, func(ctx context.Context) error {
			list := lister{
				db:        h.cfg.DB,
				filter:    f,
				limit:     limit,
				bare:      bare,
				after:     after,
				standings: make(map[string]standing),
			}
			err := list.run(ctx)
			if page = list.page; err != nil {
				page = EventPage{} // as when no projector has created the tables yet
			}
			return err
		}))
	})
	return page, err
}

// lister makes one page.
type lister struct {
	db     *DB
	filter EventFilter
	limit  int
	bare   bool // which events there are, and no more of them
	page   EventPage

	after     EventPosition // last event read
	ahead     []EventRecord // events after it that were read ahead
	ended     bool          // none come after those
	standings map[string]standing
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
			if len(l.page.Events) == l.limit {
				l.page.Next = l.page.Events[l.limit-1].position()
				return l.complete(ctx)
			}
			l.page.Events = append(l.page.Events, r)
		}
		if last {
			return l.complete(ctx)
		}
		looked += step
		step = l.nextStep(step, looked)
	}
	l.page.Next = l.after
	return l.complete(ctx)
}

// nextStep assumes that the missing events are slightly rarer than those that were found.
func (l *lister) nextStep(step, looked int) int {
	if l.bare {
		return step
	}
	found := len(l.page.Events)
	if found == 0 {
		return min(2*step, lastStep)
	}
	missing := l.limit + 1 - found
	return min(max(missing*looked/found*5/4, firstStep), lastStep)
}

func (h EventHead) position() EventPosition { return EventPosition{h.CreatedAtMillis, h.ID} }

// step reads the next n events and returns those with the requested state. The last step
// reports that no events follow.
func (l *lister) step(ctx context.Context, n int) (found []EventRecord, last bool, err error) {
	if len(l.ahead) < n && !l.ended {
		if err := l.readAhead(ctx, n); err != nil {
			return nil, false, err
		}
	}
	n = min(n, len(l.ahead))
	for n > 0 && n < len(l.ahead) && l.ahead[n].position() == l.ahead[n-1].position() {
		n++ // the rows of an event stay together
	}
	found, l.ahead = l.ahead[:n], l.ahead[n:]
	if n > 0 {
		l.after = found[n-1].position()
	}
	standings, err := l.db.standings(ctx, found)
	if err != nil {
		return nil, false, err
	}
	present := found[:0]
	for _, r := range found {
		// An event whose delivery is not written yet is left for the next query. One with
		// several deliveries is listed with the present one.
		s, there := standings[r.ID]
		if there && s.endpointID == r.EndpointID && (l.filter.State == "" || s.state == l.filter.State) {
			l.standings[r.ID] = s
			present = append(present, r)
		}
	}
	return present, l.ended && len(l.ahead) == 0, nil
}

// readAhead reads the next n events, and some more if a list of one state will likely need
// them: for ClickHouse a hundred take about as long as four.
func (l *lister) readAhead(ctx context.Context, n int) error {
	if l.filter.State != "" {
		n = max(n, headsAhead)
	}
	from := l.after
	if len(l.ahead) > 0 {
		from = l.ahead[len(l.ahead)-1].position()
	}
	had := len(l.ahead)
	for n += rowsOfEvent; ; n *= 2 {
		if err := l.readRows(ctx, from, n); err != nil || l.ended {
			return err
		}
		// The last event may have more rows. It is read again.
		last := l.ahead[len(l.ahead)-1].position()
		for len(l.ahead) > had && l.ahead[len(l.ahead)-1].position() == last {
			l.ahead = l.ahead[:len(l.ahead)-1]
		}
		if len(l.ahead) > had {
			return nil
		}
	}
}

// rowsOfEvent is usually more than an event's rows: one for each delivery, and copies of
// these.
const rowsOfEvent = 16

// readRows reads at most n rows.
func (l *lister) readRows(ctx context.Context, from EventPosition, n int) error {
	rows := 0
	query, which := l.heads(from, n)
	err := l.db.query(ctx, query, which, func(scan func(...any) error) error {
		r, err := l.readHead(scan)
		if rows++; !l.has(r) {
			l.ahead = append(l.ahead, r)
		}
		return err
	})
	l.ended = rows < n
	return err
}

// has reports whether a row was read already. Copies of it, and the rows of the event's
// other deliveries, are adjacent.
func (l *lister) has(r EventRecord) bool {
	for _, read := range slices.Backward(l.ahead) {
		if read.position() != r.position() {
			return false
		}
		if read.EndpointID == r.EndpointID {
			return true
		}
	}
	return false
}

// heads returns the query for the next n rows of events after a position.
func (l *lister) heads(after EventPosition, n int) (query string, which parameters) {
	f := l.filter
	which = parameters{"account": f.AccountID, "limit": strconv.Itoa(n)}
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
	where = append(where, f.paid(which)...)
	at := func(compare string, millis int64) {
		if millis != 0 {
			where = append(where,
				fmt.Sprintf("created_at %s fromUnixTimestamp64Milli(%d, 'UTC')", compare, millis))
		}
	}
	at(">=", f.FromMillis)
	at("<", f.ToMillis)
	if after != (EventPosition{}) {
		at("<=", after.CreatedAtMillis)
		where = append(where,
			fmt.Sprintf("(created_at, event_id) < (fromUnixTimestamp64Milli(%d, 'UTC'), {after:String})",
				after.CreatedAtMillis))
		which["after"] = after.EventID
	}
	return `SELECT ` + l.columns() + ` FROM {database:Identifier}.events
WHERE ` + strings.Join(where, " AND ") +
		` ORDER BY account_id DESC, created_at DESC, event_id DESC LIMIT {limit:UInt32}`, which
}

// paid returns the conditions on what was paid. A memo is any text, so it is sent in hex.
func (f EventFilter) paid(which parameters) (where []string) {
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
	if f.MinStroops != nil || f.MaxStroops != nil { // a test.ping pays nothing
		where = append(where, "payment_id != ''")
	}
	return where
}

// withBodies reports whether envelopes are read at once: without a filter by state, the
// page needs all of them but one.
func (l *lister) withBodies() bool { return l.filter.State == "" && !l.bare }

func (l *lister) columns() string {
	if l.withBodies() {
		return "event_id, endpoint_id, created_at, sequence, body"
	}
	return "event_id, endpoint_id, created_at, sequence"
}

func (l *lister) readHead(read func(...any) error) (r EventRecord, err error) {
	var created time.Time
	into := []any{&r.ID, &r.EndpointID, &created, &r.Sequence, &r.Body}
	if !l.withBodies() {
		into = into[:4]
	}
	err = read(into...)
	r.CreatedAtMillis = created.UnixMilli()
	return r, err
}

// complete fills in what only the events of the page need.
func (l *lister) complete(ctx context.Context) error {
	if len(l.page.Events) == 0 || l.bare {
		return nil
	}
	stand := func() {
		for i := range l.page.Events {
			r := &l.page.Events[i]
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
	stand() // enablings count now
	return err
}

const selectBodies = `
SELECT event_id, endpoint_id, body FROM {database:Identifier}.events
PREWHERE account_id = {account:String}
    AND created_at IN {times:Array(DateTime64(3, 'UTC'))}
    AND event_id IN {events:Array(String)}`

// readBodies fills in the envelopes of the page.
func (l *lister) readBodies(ctx context.Context) error {
	at := make(map[deliveryKey]*EventRecord, len(l.page.Events))
	var ids []string
	var times []int64
	for i := range l.page.Events {
		r := &l.page.Events[i]
		at[deliveryKey{r.ID, r.EndpointID}] = r
		ids = append(ids, r.ID)
		times = append(times, r.CreatedAtMillis)
	}
	which := parameters{"account": l.filter.AccountID, "times": timesOf(times), "events": arrayOf(ids)}
	return l.db.query(ctx, selectBodies, which, func(read func(...any) error) error {
		var key deliveryKey
		var body []byte
		err := read(&key.eventID, &key.endpointID, &body)
		if r := at[key]; r != nil {
			r.Body = body
		}
		return err
	})
}
