package follower

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/streams"
)

const (
	// A backfill is read in parts, in turn with the other backfills in progress. After each
	// part its progress is reported; a crash repeats one part.
	partLedgersDefault = 1000
	partTime           = 5 * time.Second

	lookForBackfills = 500 * time.Millisecond
	// pageWait bounds the wait for a ledger that the live source has returned already, and
	// this one has not yet.
	pageWait = 30 * time.Second
	// priorityWait bounds how long one page waits for the live ledger: a backfill advances,
	// slowly, while the follower catches up for days.
	priorityWait = time.Second
	// reportTries bounds how often one report is retried before its part is read again.
	reportTries = 5
)

// BackfillConfig configures how backfills are found, read and reported. Without a source
// there are none.
type BackfillConfig struct {
	Source   Source // not the live one, which remembers its position in the chain
	Requests Requests
	Commands Commands
	// PartLedgers is the number of ledgers after which progress is reported; 0: 1000. It is
	// also reported after 5 s.
	PartLedgers uint32
}

// Requests is where backfills are found.
type Requests interface {
	// NextBackfill returns the first watch after an id whose backfill is in progress.
	NextBackfill(afterWatchID string) (w domain.Watch, found bool, err error)
	Watch(id string) (w domain.Watch, found bool, err error)
	Endpoint(id string) (e domain.Endpoint, found bool, err error)
}

// Commands is where progress is reported: the engine records it as facts.
type Commands interface {
	Submit(ctx context.Context, c domain.Command) (domain.Result, error)
}

// keepBackfilling runs backfills until the term ends: a part of each in turn, so that a
// long one does not delay a short one.
func (r *Reading) keepBackfilling(ctx context.Context) {
	if r.config.Backfill.Source == nil {
		return
	}
	b := NewBackfiller(r)
	after := ""
	waits := r.config.retryPolicy("a backfill was interrupted; its last part is read again").Backoff()
	for ctx.Err() == nil {
		w, found, err := b.Requests.NextBackfill(after)
		if err == nil && found {
			after = w.ID
			err = b.Advance(ctx, w.ID)
		}
		switch {
		case err != nil && ctx.Err() == nil:
			_ = waits.Wait(ctx, fmt.Errorf("watch %q: %w", w.ID, err))
		case found:
			waits.Reset()
		case after != "":
			after = ""
		default:
			_ = retry.Sleep(ctx, lookForBackfills)
		}
	}
}

// Backfiller reads past ledgers beside the live ones. It is used by one goroutine.
type Backfiller struct {
	*Reading
	BackfillConfig
	next uint32 // the ledger that the source would return next; 0: none
}

// NewBackfiller makes a backfiller from a reading's configuration.
func NewBackfiller(r *Reading) *Backfiller {
	b := &Backfiller{Reading: r, BackfillConfig: r.config.Backfill}
	if b.PartLedgers == 0 {
		b.PartLedgers = partLedgersDefault
	}
	return b
}

// Advance reads and reports the next part of a watch's backfill.
//
// The position of the live ledger is read after the watch was seen: ledgers that are read
// from then on, by this follower or the next, are matched against the watch. So a backfill
// never needs to go further than that.
func (b *Backfiller) Advance(ctx context.Context, watchID string) error {
	if _, err := b.config.Watches.CatchUp(ctx); err != nil {
		return fmt.Errorf("follower: catching up with the watches: %w", err)
	}
	w, found, err := b.Requests.Watch(watchID)
	if err != nil || !found || w.Deleted() || !w.Backfill.UnderWay() {
		return err
	}
	live := b.at.Load()
	if live == 0 || w.LiveSince == 0 {
		_ = retry.Sleep(ctx, lookForBackfills) // the watch's first live ledger is not recorded yet
		return nil
	}
	c := domain.RecordCoverage{
		WatchID: w.ID,
		Request: w.Backfill.Request,
		Until:   lastOf(w.Backfill, live),
	}
	if w.Backfill.From > c.Until {
		c.Problem = fmt.Sprintf("ledger %d is yet to be read: the watch sees it live, and a backfill "+
			"is for those up to %d", w.Backfill.From, live)
		return b.report(ctx, w, c)
	}
	asked := domain.Range{From: w.Backfill.From, To: c.Until}
	if part, open := w.OpenPart(asked); open {
		return b.advancePart(ctx, w, asked, part, c)
	}
	if c.Next, c.Problem, err = b.nextPart(w, asked); err != nil {
		return err
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

// advancePart reads ledgers of the open part and reports them; with the next part, if none
// are left of this one.
func (b *Backfiller) advancePart(
	ctx context.Context, w domain.Watch, asked domain.Range, part domain.Part,
	c domain.RecordCoverage,
) error {
	last, problem, err := b.readPart(ctx, w, part)
	if err != nil {
		return err
	}
	if last < part.From && problem == "" {
		return nil // the watch changed meanwhile
	}
	c.Problem = problem
	if last >= part.From {
		c.From, c.To = part.From, last
		w = w.Covering(domain.Range{From: part.From, To: last})
	}
	if _, open := w.OpenPart(asked); !open && problem == "" {
		c.Next, c.Problem, err = b.nextPart(w, asked)
		if err != nil {
			return err
		}
	}
	return b.report(ctx, w, c)
}

// nextPart returns the next part of the requested range; none, if the range is covered. It
// is a problem if the watch's endpoint is deleted: the events could not be delivered, and
// would count as covered when the watch has another endpoint.
func (b *Backfiller) nextPart(
	w domain.Watch, asked domain.Range,
) (next domain.Range, problem string, err error) {
	next, more := w.NextPart(asked, b.PartLedgers)
	if !more {
		return domain.Range{}, "", nil
	}
	e, _, err := b.Requests.Endpoint(w.EndpointID)
	if err != nil {
		return domain.Range{}, "", err
	}
	if e.Deleted() {
		return domain.Range{}, fmt.Sprintf("the watch's endpoint was deleted when ledger %d was due: "+
			"give the watch another endpoint, then ask for the backfill again", next.From), nil
	}
	return next, "", nil
}

// readPart appends the matches of a part's ledgers for the watch as the part pins it, for
// as many ledgers as fit into a part's time, and returns the last of them. A problem is an
// error that waiting does not solve.
func (b *Backfiller) readPart(
	ctx context.Context, w domain.Watch, part domain.Part,
) (last uint32, problem string, err error) {
	last = part.From - 1
	if b.next != part.From {
		b.Source.Continue(0, "")
	}
	b.next = 0
	began := b.config.Now()
	for last < part.To && b.config.Now().Sub(began) < partTime {
		b.priority.await(ctx, priorityWait)
		page, err := b.page(ctx, last+1)
		if _, permanent := errors.AsType[domain.LedgerError](err); permanent {
			return last, b.problem(w, last+1, err), nil
		}
		if err != nil && last >= part.From && ctx.Err() == nil {
			// Report what is done; if the source is still unavailable, the next part fails.
			return last, "", nil
		}
		if err != nil {
			return last, "", err
		}
		current, found, err := b.Requests.Watch(w.ID)
		if err != nil {
			return last, "", err
		}
		if !found || current.Deleted() || current.Backfill.Request != w.Backfill.Request {
			return last, "", nil
		}
		if last, err = b.appendPage(ctx, page, w, part, last+1); err != nil {
			return last, "", err
		}
		if last == page[len(page)-1].Sequence {
			b.next = last + 1
		}
	}
	return last, "", nil
}

// appendPage appends the matches of ledgers from the due one up to the end of a part, and
// returns the last of them.
func (b *Backfiller) appendPage(
	ctx context.Context, page []domain.Ledger, w domain.Watch, part domain.Part, due uint32,
) (last uint32, err error) {
	last = due - 1
	for _, l := range page {
		if l.Sequence > part.To {
			break
		}
		if err := b.appendLedger(ctx, l, last+1, w.Pinned(part), part.BegunAtMillis); err != nil {
			return last, err
		}
		last = l.Sequence
	}
	return last, nil
}

// page reads ledgers from the source.
func (b *Backfiller) page(ctx context.Context, sequence uint32) ([]domain.Ledger, error) {
	waiting, cancel := context.WithTimeout(ctx, pageWait)
	defer cancel()
	page, err := b.Source.Next(waiting, sequence)
	if err != nil {
		return nil, fmt.Errorf("follower: reading ledger %d for a backfill: %w", sequence, err)
	}
	return page, nil
}

// appendLedger appends the payments and matches of one ledger for one watch. It depends only on the
// ledger, the watch and the time, all of which a part pins.
func (b *Backfiller) appendLedger(
	ctx context.Context, l domain.Ledger, due uint32, w domain.Watch, createdAtMillis int64,
) error {
	if !b.isElected() {
		return errNotElected
	}
	if err := b.check(l, due); err != nil {
		return err
	}
	s, err := match(l.Payments, only{w}, appended{})
	if err != nil {
		return err
	}
	return inParts(s.eachRecord(createdAtMillis),
		func(part []streams.Record) error { return b.log.Append(ctx, part...) })
}

// only is one watch.
type only struct{ watch domain.Watch }

func (o only) ByWallet(wallet string) ([]domain.Watch, error) {
	if wallet != o.watch.WalletAddress {
		return nil, nil
	}
	return []domain.Watch{o.watch}, nil
}

// problem returns why a backfill cannot continue, for the client that requested it. What
// only the operator should know is logged.
func (b *Backfiller) problem(w domain.Watch, sequence uint32, err error) string {
	b.config.Logger.Warn("a backfill cannot go on", "watch", w.ID, "ledger", sequence, "err", err)
	switch {
	case errors.Is(err, domain.ErrBehindRetention):
		return fmt.Sprintf("ledger %d is older than what the source of ledgers keeps: begin at a later "+
			"one, or have a source with a longer history followed", sequence)
	case errors.Is(err, domain.ErrForked), errors.Is(err, domain.ErrWrongNetwork):
		return fmt.Sprintf("ledger %d of the source does not belong to the chain before it", sequence)
	}
	return fmt.Sprintf("ledger %d cannot be read by this version of Lumenhook", sequence)
}

// report has the engine record a backfill's progress. Its identifier is derived from its
// content and the watch, so it may be repeated. A refusal means that the watch was deleted:
// nothing is left to do.
func (b *Backfiller) report(ctx context.Context, w domain.Watch, c domain.RecordCoverage) error {
	command := domain.Command{
		ID: domain.DeriveID(domain.CommandPrefix, "coverage", c.WatchID, strconv.FormatUint(c.Request,
			10),
			decimal(c.From), decimal(c.To), decimal(c.Until), c.Problem, decimal(c.Next.From),
			decimal(c.Next.To), strconv.FormatUint(w.Version, 10)),
		AccountID:      w.AccountID,
		IssuedAtMillis: b.config.Now().UnixMilli(),
		Body:           c,
	}
	policy := b.config.retryPolicy("a backfill could not be reported and is reported again")
	policy.Tries = reportTries
	result, err := retry.Value(ctx, policy, func() (domain.Result, error) {
		return b.Commands.Submit(ctx, command)
	})
	if err != nil {
		return fmt.Errorf("follower: reporting a backfill: %w", err)
	}
	if after := result.Answer.Watch; after != nil && !after.Backfill.UnderWay() {
		b.config.Logger.Info("a backfill has ended", "watch", w.ID, "from", after.Backfill.From, "until",
			after.Backfill.Until, "problem", after.Backfill.Problem)
	}
	return nil
}

func decimal(sequence uint32) string { return strconv.FormatUint(uint64(sequence), 10) }
