package follower

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// reported is the basis of a watch's latest report since the takeover. A later part belongs to this
// backfiller: earlier ones can no longer append, and this one has not reported it.
type reported struct {
	version uint64
	at      time.Time
}

func (b *Backfiller) takeOver(ctx context.Context) error {
	if b.reports != nil {
		return nil
	}
	if !b.isElected() {
		return errNotElected
	}
	if err := b.log.TakeOver(ctx); err != nil {
		return err
	}
	b.reports, b.known = make(map[string]reported), make(map[string]knownEvents)
	return nil
}

// endPart reads the watch's open part or reads it back, and adds that to the report. It returns the
// watch as it will be after the report.
func (b *Backfiller) endPart(
	ctx context.Context, w domain.Watch, asked domain.Range, c *domain.RecordCoverage,
) (after domain.Watch, err error) {
	part := w.Parts[0]
	var read partRead
	if b.mayRead(w, part, asked) {
		read, c.Problem, err = b.readPart(ctx, w, part)
		if err != nil {
			delete(b.reports, w.ID) // what was appended is read back
		}
	} else {
		read, err = b.readPartBack(ctx, w, part)
	}
	if err != nil {
		return w, err
	}
	c.Part, c.Matched, c.Created = part.Version, read.matched, read.created
	c.Next.From = read.kept
	if read.last >= part.From {
		c.From, c.To = part.From, read.last
	}
	w.Backfill.Next = w.Progress(*c)
	w = w.Ending(part.Version)
	if c.From != 0 {
		w = w.Covering(domain.Range{From: c.From, To: c.To})
	}
	return w, nil
}

// mayRead reports whether a part began here since the takeover, recently, and for the requested
// ledgers.
func (b *Backfiller) mayRead(w domain.Watch, part domain.Part, asked domain.Range) bool {
	latest, is := b.reports[w.ID]
	return is && part.Version > max(latest.version, w.Backfill.Request) && w.Backfill.UnderWay() &&
		part.Within(asked) && b.config.Now().Sub(latest.at).Abs() < partAge
}

type partRead struct {
	last             uint32
	matched, created uint32 // as in [domain.RecordCoverage]
	kept             uint32 // the first later ledger that can be matched; 0 if unknown
}

// readPartBack returns the last ledger of a part for which the log has matches, or the one before
// the part, and counts the matches. Ledgers are appended one after another, so the part was read up
// to there. The end was read after the takeover, so nobody else appends after it.
func (b *Backfiller) readPartBack(
	ctx context.Context, w domain.Watch, part domain.Part,
) (read partRead, err error) {
	if read.last = part.From - 1; part.MatchesFrom == 0 && len(w.Uncovered(part.Range)) == 0 {
		// In a copy, its matches look like earlier ones of its ledgers, so it is read again.
		return read, nil
	}
	at, end, partitionOf, err := b.matchesOf(ctx, part.EndpointID)
	if err != nil {
		return read, err
	}
	starts, err := b.log.Starts(ctx, schemas.TopicMatches)
	if err != nil {
		return read, err
	}
	from := map[int32]int64{at: max(starts[at], part.MatchesFrom)}
	err = b.log.Read(ctx, schemas.TopicMatches, from, map[int32]int64{at: end},
		func(rec kafka.Record) error {
			m, err := intake.Matched(rec, partitionOf)
			if err == nil && m.WatchID == w.ID && part.Has(m.Ledger) {
				read.last = max(read.last, m.Ledger)
				read.created++
			}
			return nil // an invalid match has no effect
		})
	if err != nil {
		return read, fmt.Errorf("follower: reading back a part of a backfill: %w", err)
	}
	read.matched = read.created
	return read, nil
}

func (b *Backfiller) matchesOf(
	ctx context.Context, endpointID string,
) (at int32, end int64, partitionOf func(string) int32, err error) {
	ends, err := b.log.Of(ctx, schemas.TopicMatches)
	if err != nil {
		return 0, 0, nil, err
	}
	partitionOf = b.log.PartitionOf(schemas.TopicMatches, len(ends))
	at = partitionOf(endpointID)
	return at, ends[at], partitionOf, nil
}

// readPart appends the matches of a part's ledgers for the pinned watch until partTime is over, and
// returns how far it got. A problem is an error that waiting does not fix.
func (b *Backfiller) readPart(
	ctx context.Context, w domain.Watch, part domain.Part,
) (read partRead, problem string, err error) {
	read.last = part.From - 1
	followed, err := b.followed(ctx, part.Range)
	if err != nil {
		return read, "", err
	}
	if b.next != part.From {
		b.resume(w.ID, part.From)
	}
	b.next = 0
	again := len(w.Uncovered(part.Range)) == 0
	began := b.config.Now()
	for read.last < part.To && b.config.Now().Sub(began) < partTime {
		b.priority.await(ctx, priorityWait)
		page, err := b.page(ctx, read.last+1)
		if err == nil {
			err = followed.check(page)
		}
		if err == nil && read.last < part.From { // hashes link later pages to the first one
			err = b.sameChain(ctx, page)
		}
		if err == nil && again {
			err = b.learnEvents(ctx, w, part, page[0])
		}
		if problem := b.refused(ctx, w, &read, err); problem != "" {
			return read, problem, nil
		}
		if err != nil && read.last >= part.From && ctx.Err() == nil {
			// Report what is done. If the source stays unavailable, the next part fails.
			return read, "", nil
		}
		if err != nil {
			return read, "", err
		}
		current, goesOn, err := b.current(w, part)
		if err != nil || !goesOn {
			return read, "", err
		}
		w.Fulfilled = current.Fulfilled
		err = b.appendPage(ctx, page, w, part, &read)
		if errors.Is(err, errUnpinned) {
			return read, "", nil // nothing was appended
		}
		if err != nil {
			return read, "", err
		}
		delete(b.refusals, w.ID)
		b.cameTo(w.ID, page, read.last)
		if read.last == page[len(page)-1].Sequence {
			b.next = read.last + 1
		}
	}
	return read, "", nil
}

// refused returns the problem for an error: immediately if the watch's events in these ledgers are
// unknown, and after some attempts if the source refuses the ledger.
func (b *Backfiller) refused(
	ctx context.Context, w domain.Watch, read *partRead, err error,
) string {
	sequence := read.last + 1
	if errors.Is(err, errTooMany) {
		return b.problem(w, sequence, 0, err)
	}
	if errors.Is(err, errForgotten) {
		known, unknown := b.firstKept(ctx, w, sequence)
		if unknown != nil {
			return ""
		}
		read.kept = known
		// Ledgers that were never matched have no events, so they can be matched.
		if never := w.Uncovered(domain.Range{From: sequence, To: known - 1}); len(never) > 0 {
			read.kept = never[0].From
		}
		return b.problem(w, sequence, known, err)
	}
	if _, permanent := errors.AsType[domain.LedgerError](err); !permanent {
		return ""
	}
	if b.refusals[w.ID]++; b.refusals[w.ID] < problemTries {
		return ""
	}
	if errors.Is(err, domain.ErrBehindRetention) && !errors.Is(err, errFormerChain) {
		var unknown error
		if read.kept, unknown = b.firstKept(ctx, w, sequence); unknown != nil {
			read.kept = 0
			return "" // both are retried
		}
	}
	delete(b.refusals, w.ID)
	return b.problem(w, sequence, read.kept, err)
}

// firstKept bisects for the first later ledger that can be matched, or the one after the last: the
// source and the topic of matches have all ledgers from that one on.
func (b *Backfiller) firstKept(
	ctx context.Context, w domain.Watch, missing uint32,
) (uint32, error) {
	again := len(w.Uncovered(domain.Range{From: missing, To: missing})) == 0
	kept := max(w.Backfill.Until, missing) + 1
	for kept-missing > 1 {
		middle := missing + (kept-missing)/2
		b.Source.Continue(0, "")
		page, err := b.page(ctx, middle)
		if err == nil && again {
			_, err = b.matchesSince(ctx, w, page[0])
		}
		_, permanent := errors.AsType[domain.LedgerError](err)
		switch {
		case errors.Is(err, domain.ErrBehindRetention), errors.Is(err, errForgotten):
			missing = middle
		case err == nil || permanent:
			kept = middle
		default:
			return 0, err
		}
	}
	return kept, nil
}

// current returns the current watch and whether to continue with its part. Matches for an endpoint
// that has been deleted could not be delivered.
func (b *Backfiller) current(
	w domain.Watch, part domain.Part,
) (current domain.Watch, goesOn bool, err error) {
	current, found, err := b.Requests.Watch(w.ID)
	if err != nil {
		return current, false, err
	}
	e, _, err := b.Requests.Endpoint(part.EndpointID)
	return current, found && !current.Deleted() && !e.Deleted() &&
		current.Backfill.Request == w.Backfill.Request, err
}

func (b *Backfiller) appendPage(
	ctx context.Context, page []domain.Ledger, w domain.Watch, part domain.Part, read *partRead,
) error {
	for _, l := range page {
		if l.Sequence > part.To {
			break
		}
		s, err := b.appendLedger(ctx, l, read.last+1, w.Pinned(part), part.BegunAtMillis)
		if err != nil {
			return err
		}
		created := uint32(len(s.matches)) // #nosec G115 -- payments of a ledger
		read.last = l.Sequence
		read.matched, read.created = read.matched+created+s.skipped, read.created+created
	}
	return nil
}

func (b *Backfiller) page(ctx context.Context, sequence uint32) ([]domain.Ledger, error) {
	waiting, cancel := context.WithTimeout(ctx, pageWait)
	defer cancel()
	page, err := b.Source.Next(waiting, sequence)
	if err != nil {
		return nil, fmt.Errorf("follower: reading ledger %d for a backfill: %w", sequence, err)
	}
	return page, nil
}

// appendLedger appends the payments and then the matches of one ledger for one watch. The matches
// are one transaction to one partition, so the log has all or none. After an error, reading back
// the part shows which.
func (b *Backfiller) appendLedger(
	ctx context.Context, l domain.Ledger, due uint32, w domain.Watch, createdAtMillis int64,
) (s matched, err error) {
	if !b.isElected() {
		return s, errNotElected
	}
	if err := b.check(l, due); err != nil {
		return s, err
	}
	s, err = match(l.Payments, only{w}, appended{events: b.known[w.ID].events}, b.claims(ctx))
	if err != nil {
		return s, err
	}
	commit := func(records []kafka.Record) error { return b.log.Commit(ctx, records...) }
	err = inParts(s.eachPayment(createdAtMillis), commit)
	if matches := slices.Collect(s.eachMatch(createdAtMillis)); err == nil && len(matches) > 0 {
		err = commit(matches)
	}
	if err != nil {
		b.reports = nil
	}
	return s, err
}

type only struct{ watch domain.Watch }

func (o only) ByWallet(wallet string) ([]domain.Watch, error) {
	if wallet != o.watch.WalletAddress {
		return nil, nil
	}
	return []domain.Watch{o.watch}, nil
}
