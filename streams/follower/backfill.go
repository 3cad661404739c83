package follower

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
)

const (
	// A backfill is read in parts, taking turns with the other backfills in progress. Progress is
	// reported after each part; a crash repeats one part.
	partLedgersDefault = 1000
	partTime           = 5 * time.Second

	lookForBackfills = 500 * time.Millisecond
	// pageWait bounds the wait for a ledger that the live source has already returned, but this
	// source has not.
	pageWait = 30 * time.Second
	// priorityWait bounds how long one page waits for the live ledger: a backfill advances slowly
	// even if the follower catches up for days.
	priorityWait = time.Second
	// partAge bounds how long a part is read or waited for before another takes its turn, and with
	// it how much of the log is read back after a crash.
	partAge = time.Hour
	// reportTries bounds how often one report is retried before its part is read again.
	reportTries = 5
	// problemTries is how often in a row a source must report a permanent error before a backfill
	// ends with it: one wrong answer is not enough.
	problemTries = 3
)

// BackfillConfig configures how backfills are found, read and reported. Without a source there are
// no backfills.
type BackfillConfig struct {
	Source   Source // not the live one, which remembers its position in the chain
	Requests Requests
	Commands Commands
	// PartLedgers is the number of ledgers after which progress is reported; 0: 1000. It is also
	// reported after 5 s.
	PartLedgers uint32
}

// Requests finds backfills.
type Requests interface {
	// NextBackfill returns the first watch that [domain.Watch.AwaitsFollower] after a given watch
	// of an account, ordered by account and then by watch. Without a watch it returns the first one
	// of the next account, and without an account the first of all.
	NextBackfill(accountID, afterWatchID string) (w domain.Watch, found bool, err error)
	Watch(id string) (w domain.Watch, found bool, err error)
	Endpoint(id string) (e domain.Endpoint, found bool, err error)
}

// Commands reports progress: the engine records it as facts.
type Commands interface {
	Submit(ctx context.Context, c domain.Command) (domain.Result, error)
}

// Turns decides whose backfill advances next: accounts take turns, and within an account its
// watches do. A backfill therefore waits for at most one part of each other account, however many
// backfills that account has requested, and a long backfill does not delay a short one.
type Turns struct {
	Requests
	account string            // of the last turn
	watches map[string]string // by account, the watch of its last turn
}

// Next returns the watch whose turn it is; found is false if no backfill is in progress.
func (t *Turns) Next() (w domain.Watch, found bool, err error) {
	w, found, err = t.NextBackfill(t.account, "")
	if err == nil && !found && t.account != "" {
		w, found, err = t.NextBackfill("", "")
	}
	if err != nil || !found {
		t.account, t.watches = "", nil
		return domain.Watch{}, false, err
	}
	if last := t.watches[w.AccountID]; last != "" {
		following, more, err := t.NextBackfill(w.AccountID, last)
		if err != nil {
			return domain.Watch{}, false, err
		}
		if more && following.AccountID == w.AccountID {
			w = following
		}
	}
	if t.watches == nil {
		t.watches = make(map[string]string)
	}
	t.account, t.watches[w.AccountID] = w.AccountID, w.ID
	return w, true, nil
}

// keepBackfilling runs backfills until the term ends, one part of each in turn.
func (r *Reading) keepBackfilling(ctx context.Context, log Log) {
	if r.config.Backfill.Source == nil {
		return
	}
	b := NewBackfiller(r, log)
	turns := Turns{Requests: b.Requests}
	waits := r.config.retryPolicy("a backfill was interrupted; its last part is read again").Backoff()
	for ctx.Err() == nil {
		w, found, err := turns.Next()
		if err == nil && found {
			err = b.Advance(ctx, w.ID)
		}
		switch {
		case err != nil && ctx.Err() == nil:
			_ = waits.Wait(ctx, fmt.Errorf("watch %q: %w", w.ID, err))
		case found:
			waits.Reset()
		default:
			_ = retry.Sleep(ctx, lookForBackfills)
		}
	}
}

// Backfiller reads past ledgers concurrently with the live ones. It must be used by one goroutine.
type Backfiller struct {
	*Reading
	BackfillConfig
	log  Log    // with its own transactional id
	next uint32 // the ledger that the source would return next; 0: unknown
	// reports are the latest reports since the takeover, by watch; nil: it has not taken over yet.
	reports map[string]reported
	// ends are the last ledgers that backfills reached, by watch. keptSince is the first ledger
	// whose hash was in the cursor topic when it was last read.
	ends      map[string]chainEnd
	keptSince uint32
	known     map[string]knownEvents // by watch
	// refusals counts how often in a row the source permanently refused a watch's ledgers.
	refusals map[string]int
}

// NewBackfiller returns a backfiller with a reading's configuration.
func NewBackfiller(r *Reading, log Log) *Backfiller {
	b := &Backfiller{
		Reading:        r,
		BackfillConfig: r.config.Backfill,
		log:            log,
		ends:           map[string]chainEnd{},
		refusals:       map[string]int{},
	}
	b.Source = numbered{b.Source, r.base}
	if b.PartLedgers == 0 {
		b.PartLedgers = partLedgersDefault
	}
	return b
}

// Advance reads the open part of a watch's backfill and reports it, which ends the part and begins
// the next one.
//
// A part is read by the follower that had it begun, after its takeover. For any other open part, a
// former follower may have appended matches, or this one before an error. How far that reading got
// is read back from the log, and the part ends there: nothing is appended twice.
//
// The position of the live ledger is read after the watch was seen: this follower or the next
// matches all ledgers that are read from then on against the watch. So a backfill never needs to go
// further than that.
func (b *Backfiller) Advance(ctx context.Context, watchID string) error {
	if err := b.takeOver(ctx); err != nil {
		return err
	}
	// After the takeover: a former follower may have begun parts until then.
	if _, err := b.config.Watches.CatchUp(ctx); err != nil {
		return fmt.Errorf("follower: catching up with the watches: %w", err)
	}
	w, found, err := b.Requests.Watch(watchID)
	if err != nil || !found || !w.AwaitsFollower() {
		return err
	}
	live := b.at.Load()
	e, _, err := b.Requests.Endpoint(w.EndpointID)
	if err != nil {
		return err
	}
	if live == 0 || w.LiveSince == 0 && !e.Deleted() {
		_ = retry.Sleep(ctx, lookForBackfills) // the watch's first live ledger is not recorded yet
		return nil
	}
	c := domain.RecordCoverage{
		WatchID: w.ID,
		Request: w.Backfill.Request,
		Until:   lastOf(w.Backfill, live),
	}
	asked := domain.Range{From: w.Backfill.From, To: c.Until}
	after := w
	if len(w.Parts) > 0 {
		if after, err = b.endPart(ctx, w, asked, &c); err != nil {
			return err
		}
	}
	if after.Backfill.UnderWay() && len(after.Parts) == 0 && c.Problem == "" {
		next, _, more := after.NextPart(c.Until, b.PartLedgers)
		switch {
		case asked.From > asked.To:
			c.Problem = fmt.Sprintf("ledger %d is yet to be read: the watch sees it live, and a backfill "+
				"is for those up to %d", asked.From, live)
		case more && e.Deleted(): // the events could not be delivered
			c.Problem = fmt.Sprintf("the watch's endpoint was deleted when ledger %d was due: "+
				"give the watch another endpoint, then ask for the backfill again", next.From)
		case more && next.To > b.done.Load(): // the live ledger's matches are not all in the log
			if c.Part == 0 {
				_ = retry.Sleep(ctx, lookForBackfills)
				return nil
			}
		case more:
			_, end, _, err := b.matchesOf(ctx, w.EndpointID)
			if err != nil {
				return err
			}
			c.Next = domain.NextPart{Range: next, EndpointID: w.EndpointID, MatchesFrom: end}
		}
	}
	return b.report(ctx, w, c)
}

// lastOf returns the last ledger of a backfill, which is recorded once it is known.
func lastOf(f domain.Backfill, live uint32) uint32 {
	switch {
	case f.Until != 0:
		return f.Until
	case f.To != 0:
		return min(live, f.To)
	}
	return live
}

// problem returns why a backfill cannot continue, for the client that requested it. Details that
// only concern the operator are logged. kept is the first later ledger that the source has, if it
// no longer has this one.
func (b *Backfiller) problem(w domain.Watch, sequence, kept uint32, err error) string {
	b.config.Logger.Warn("a backfill cannot continue", "watch", w.ID, "ledger", sequence, "err", err)
	switch {
	case errors.Is(err, errForgotten):
		return fmt.Sprintf("ledgers %d to %d: where a ledger was matched before, the topic of matches "+
			"no longer says which of its payments have an event (--topic-retention, or a copy into other "+
			"topics); create another watch for these ledgers", w.Backfill.From, kept-1)
	case errors.Is(err, errTooMany):
		return fmt.Sprintf("from ledger %d on the watch has more than %d events in the requested "+
			"ledgers: request fewer ledgers at once", sequence, knownMax)
	case errors.Is(err, errFormerChain):
		return fmt.Sprintf("ledger %d is of a chain before the network was reset: those of the present "+
			"chain have numbers from %d on", sequence, b.base.Load()+1)
	case errors.Is(err, domain.ErrBehindRetention):
		missing := fmt.Sprintf("ledger %d is", sequence)
		if kept > sequence+1 {
			missing = fmt.Sprintf("ledgers %d to %d are", sequence, kept-1)
		}
		return missing + " older than what the source of ledgers keeps: begin at a later one, or have " +
			"a source with a longer history followed"
	case errors.Is(err, errNotFollowed):
		return fmt.Sprintf("from ledger %d on the source has another history than the one that was "+
			"followed", sequence)
	case errors.Is(err, domain.ErrForked), errors.Is(err, domain.ErrWrongNetwork):
		return fmt.Sprintf("ledger %d of the source does not belong to the chain before it", sequence)
	}
	return fmt.Sprintf("ledger %d cannot be read by this version of Lumenhook", sequence)
}

// report has the engine record a backfill's progress. Its id is derived from its content and the
// watch, so it may be repeated. A refusal means that the watch was deleted, and nothing is left to
// do. Nothing more is appended to a part after it was reported, whether or not the report is
// answered.
func (b *Backfiller) report(ctx context.Context, w domain.Watch, c domain.RecordCoverage) error {
	command := domain.Command{
		ID: domain.DeriveID(domain.CommandPrefix, "coverage", c.WatchID, decimal(c.Request),
			decimal(c.Part), decimal(c.From), decimal(c.To), decimal(c.Until), c.Problem,
			decimal(c.Next.From), decimal(c.Next.To), c.Next.EndpointID, decimal(c.Next.MatchesFrom),
			decimal(c.Matched), decimal(c.Created),
			decimal(w.Version)),
		AccountID:      w.AccountID,
		IssuedAtMillis: b.config.Now().UnixMilli(),
		Body:           c,
	}
	b.reports[w.ID] = reported{w.Version, b.config.Now()}
	policy := b.config.retryPolicy("a backfill could not be reported and is reported again")
	policy.Tries = reportTries
	result, err := retry.Value(ctx, policy, func() (domain.Result, error) {
		return b.Commands.Submit(ctx, command)
	})
	if err != nil {
		return fmt.Errorf("follower: reporting a backfill: %w", err)
	}
	if after := result.Answer.Watch; after != nil && !after.Backfill.UnderWay() {
		delete(b.ends, w.ID)
		delete(b.known, w.ID)
		b.config.Logger.Info("a backfill has ended", "watch", w.ID, "from", after.Backfill.From, "until",
			after.Backfill.Until, "problem", after.Backfill.Problem)
	}
	return nil
}

func decimal[N uint32 | uint64 | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// priority gives the live ledger priority: other work waits, for a bounded time, until no live
// ledger is being processed.
type priority struct {
	mu   sync.Mutex
	free chan struct{} // closed when live work ends; nil: there is no live work
}

func (p *priority) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == nil {
		p.free = make(chan struct{})
	}
}

func (p *priority) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free != nil {
		close(p.free)
		p.free = nil
	}
}

// await waits until there is no live work, or for at most that long.
func (p *priority) await(ctx context.Context, most time.Duration) {
	p.mu.Lock()
	free := p.free
	p.mu.Unlock()
	if free == nil {
		return
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-free:
	case <-timer.C:
	}
}
