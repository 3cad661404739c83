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
	// Backfills are read in parts, in turn with other backfills. Progress is reported after each part,
	// and a crash repeats one part.
	partLedgersDefault = 1000
	partTime           = 5 * time.Second

	lookForBackfills = 500 * time.Millisecond
	// pageWait bounds the wait for a ledger that the live source has but this one does not.
	pageWait = 30 * time.Second
	// priorityWait bounds how long a page waits for the live ledger, so that a backfill advances
	// slowly even if the follower catches up for days.
	priorityWait = time.Second
	// partAge bounds how long a part is read or waits, and so how far the log is read back after a
	// crash.
	partAge = time.Hour
	// reportTries bounds the retries of one report. After that, its part is read again.
	reportTries = 5
	// problemTries is how many permanent errors in a row a source must report before a backfill fails,
	// because a single response may be wrong.
	problemTries = 3
)

// BackfillConfig configures backfills. Without a source there are none.
type BackfillConfig struct {
	Source   Source // not the live one, which remembers its position in the chain
	Requests Requests
	Commands Commands
	// PartLedgers is the number of ledgers after which progress is reported. The default is 1000.
	// Progress is also reported after 5 s.
	PartLedgers uint32
}

// Requests finds backfills.
type Requests interface {
	// NextBackfill returns the first watch after the given one that [domain.Watch.AwaitsFollower],
	// ordered by account and then by watch. Without a watch it starts at the next account, and without
	// an account at the first.
	NextBackfill(accountID, afterWatchID string) (w domain.Watch, found bool, err error)
	Watch(id string) (w domain.Watch, found bool, err error)
	Endpoint(id string) (e domain.Endpoint, found bool, err error)
}

// Commands submits progress to the engine, which records it as facts.
type Commands interface {
	Submit(ctx context.Context, c domain.Command) (domain.Result, error)
}

// Turns decides whose backfill advances next: accounts take turns, and so do an account's watches.
// So a backfill waits for at most one part of every other account, and a long one does not delay a
// short one.
type Turns struct {
	Requests
	account string            // of the last turn
	watches map[string]string // the watch of an account's last turn
}

// Next returns the next watch, if a backfill is in progress.
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

func (r *Reading) keepBackfilling(ctx context.Context, log Log) {
	if r.config.Backfill.Source == nil {
		return
	}
	b := NewBackfiller(r, log)
	turns := Turns{Requests: b.Requests}
	waits := r.config.retryPolicy("a backfill was interrupted; rereading its last part").Backoff()
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

// Backfiller reads past ledgers in parallel with the live ones. It must be used by one goroutine.
type Backfiller struct {
	*Reading
	BackfillConfig
	log  Log    // with its own transactional id
	next uint32 // the source's next ledger; 0 if unknown
	// reports are the latest reports by watch since the takeover, before which it is nil.
	reports map[string]reported
	// ends are the last ledgers of backfills. keptSince is the first ledger whose hash the cursor
	// topic had when it was last read.
	ends      map[string]chainEnd
	keptSince uint32
	known     map[string]knownEvents
	// refusals counts consecutive permanent errors of the source, by watch.
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
// Only the follower that began a part reads it. For any other open part, an earlier follower may
// have appended matches, or this one before an error. Advance reads back from the log how far that
// went, and ends the part there, so that nothing is appended twice.
//
// The position of the live ledger is read after the watch: all ledgers read from then on are
// matched against the watch, so a backfill never has to go beyond that position.
func (b *Backfiller) Advance(ctx context.Context, watchID string) error {
	if err := b.takeOver(ctx); err != nil {
		return err
	}
	// After the takeover, because an earlier follower may have begun parts until then.
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
			c.Problem = fmt.Sprintf("ledger %d is yet to be read: the watch will see it live, and "+
				"backfills only cover ledgers up to %d", asked.From, live)
		case more && e.Deleted(): // the events could not be delivered
			c.Problem = fmt.Sprintf("the watch's endpoint was deleted when ledger %d was due: "+
				"give the watch another endpoint, then request the backfill again", next.From)
		case more && next.To > b.done.Load(): // not all matches of the live ledger are in the log
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

func lastOf(f domain.Backfill, live uint32) uint32 {
	switch {
	case f.Until != 0:
		return f.Until
	case f.To != 0:
		return min(live, f.To)
	}
	return live
}

// problem returns the error for the client, and logs the details for the operator. kept is the
// first later ledger that the source has, if it no longer has this one.
func (b *Backfiller) problem(w domain.Watch, sequence, kept uint32, err error) string {
	b.config.Logger.Warn("a backfill cannot continue", "watch", w.ID, "ledger", sequence, "err", err)
	switch {
	case errors.Is(err, errForgotten):
		return fmt.Sprintf("ledgers %d to %d: for ledgers that were matched before, the topic of "+
			"matches no longer shows which payments have an event (because of --topic-retention, or a "+
			"copy into other topics); create another watch for these ledgers", w.Backfill.From, kept-1)
	case errors.Is(err, errTooMany):
		return fmt.Sprintf("from ledger %d on, the watch has more than %d events in the requested "+
			"ledgers: request fewer ledgers at once", sequence, knownMax)
	case errors.Is(err, errFormerChain):
		return fmt.Sprintf("ledger %d is from before the network was reset: the current chain's "+
			"ledgers have numbers from %d on", sequence, b.base.Load()+1)
	case errors.Is(err, domain.ErrBehindRetention):
		missing := fmt.Sprintf("ledger %d is", sequence)
		if kept > sequence+1 {
			missing = fmt.Sprintf("ledgers %d to %d are", sequence, kept-1)
		}
		return missing + " older than what the source of ledgers keeps: start at a later one, or use " +
			"a source with a longer history"
	case errors.Is(err, errNotFollowed):
		return fmt.Sprintf("from ledger %d on the source has another history than the one that was "+
			"followed", sequence)
	case errors.Is(err, domain.ErrForked), errors.Is(err, domain.ErrWrongNetwork):
		return fmt.Sprintf("ledger %d of the source does not follow the ledger before it", sequence)
	}
	return fmt.Sprintf("ledger %d cannot be read by this version of Lumenhook", sequence)
}

// report has the engine record a backfill's progress. The command may be repeated, because its id
// depends on its content and the watch. A rejection means that the watch was deleted. Nothing is
// appended to a part after its report, whether or not it is answered.
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
	policy := b.config.retryPolicy("a backfill could not be reported; retrying")
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

// priority makes other work wait, for a bounded time, while a live ledger is processed.
type priority struct {
	mu   sync.Mutex
	free chan struct{} // closed when live work ends; nil if there is none
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
