package sim

import (
	"bytes"
	"context"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// backfill starts a part of a backfill. Its context has already ended, so that nothing waits in
// real time.
func (f *followerProcess) backfill() {
	if f.filler == nil {
		f.filler = f.newFiller()
	}
	ended, end := context.WithCancel(context.Background())
	end()
	f.past.begin(func() error {
		f.turns.Requests = f.directory
		watch, found, err := f.turns.Next()
		if err != nil || !found {
			return err
		}
		return f.filler.Advance(ended, watch.ID)
	})
}

func (f *followerProcess) newFiller() *follower.Backfiller {
	log, cfg := followerLog{f, &f.past, backfillTxn}, f.config(&f.past)
	cfg.Backfill = follower.BackfillConfig{
		Source:      f.sourcesOf(&f.past),
		Requests:    f.directory,
		Commands:    desk{f, &f.past},
		PartLedgers: uint32(1 + f.world.rnd.IntN(6)),
	}
	return follower.NewBackfiller(f.reading.WithPosition(cfg, log), log)
}

// desk submits reports of backfills and claims of payments to the engine.
type desk struct {
	f *followerProcess
	r *routine
}

// SubmitAll submits commands one after another.
func (d desk) SubmitAll(
	ctx context.Context, all []domain.Command,
) (results []domain.Result, err error) {
	for _, c := range all {
		result, err := d.Submit(ctx, c)
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	return results, nil
}

// Submit may lose the command. Otherwise it waits for the answer for a while.
func (d desk) Submit(_ context.Context, c domain.Command) (domain.Result, error) {
	f := d.f
	w := f.world
	if err := d.r.wait(nil); err != nil {
		return domain.Result{}, err
	}
	m := schemas.EncodeCommand(c)
	r := kafka.NewRecord(schemas.TopicCommands, c.Body.Aggregate(), m.Value, m.EachHeader)
	w.clients.tellFor([]kafka.Record{r})
	if w.fault(0.1) {
		w.count("reports lost before the log")
	} else {
		w.log.append(r)
	}
	w.tracef("follower %d reports %+v", f.id, c.Body)
	until := w.steady + 5*secondMillis
	if err := d.r.wait(func() bool {
		return w.clients.byID[c.ID].answer != nil ||
			w.steady >= until
	}); err != nil {
		return domain.Result{}, err
	}
	if answer := w.clients.byID[c.ID].answer; answer != nil {
		return *answer, nil
	}
	return domain.Result{}, errLog
}

// checkCovered checks that a covered range was read completely, part by part, each with the watch
// as of the part's start, and that a part that ends has no matches beyond (G2).
func (c *checks) checkCovered(before domain.Watch, covered domain.RangeCovered) {
	w := c.world
	if covered.Part != 0 {
		c.checkEnded(before, covered)
	}
	if covered.From == 0 {
		return
	}
	w.count("covered ranges")
	created := uint32(0)
	for sequence := covered.From; sequence <= covered.To; sequence++ {
		part, found := openPart(before, sequence)
		if !found {
			if len(before.Uncovered(domain.Range{From: sequence, To: sequence})) > 0 {
				w.violate("G2: ledger %d of watch %s is covered, and no part of it was begun", sequence,
					before.ID)
			}
			continue
		}
		for _, p := range w.chain.ledgers[sequence-1].Payments {
			c.toldOf(before.Pinned(part), part, p)
			if c.isNew(before.ID, part, p) {
				created++
			}
		}
	}
	switch {
	case covered.Part < before.Backfill.Request: // doesn't count toward a backfill
	case covered.Created != created || covered.Matched < created:
		w.violate("G2: ledgers %d to %d of watch %s have %d matches, %d of them new, and %d are new",
			covered.From, covered.To, before.ID, covered.Matched, covered.Created, created)
	default:
		c.reread[before.ID] += covered.To - covered.From + 1
	}
}

// partID identifies a part of a backfill. After a restore, there may be parts that started earlier.
type partID struct {
	watch   string
	version uint64
}

// begun records which payments of a part already have an event.
func (c *checks) begun(id partID, part domain.PartBegun) {
	had := make(map[string]bool)
	for _, p := range c.world.chain.payments(part.From, part.To) {
		event := domain.EventID(id.watch, p.ID)
		had[event] = len(c.matched[event]) > 0
	}
	c.had[id] = had
}

// isNew reports whether a payment has an event that it did not have when a part of a backfill
// started.
func (c *checks) isNew(watchID string, part domain.Part, p domain.Payment) bool {
	event := domain.EventID(watchID, p.ID)
	return len(c.matched[event]) > 0 && !c.had[partID{watchID, part.Version}][event]
}

// checkDone checks that a completed backfill has read each of its ledgers, including those matched
// before.
func (c *checks) checkDone(w domain.Watch, f domain.Fact) {
	switch f.Body.(type) {
	case domain.BackfillRequested:
		c.reread[w.ID] = 0
	case domain.RangeCovered:
		b := w.Backfill
		if read := c.reread[w.ID]; b.Done() && b.From <= b.Until && read != b.Until-b.From+1 {
			c.world.violate("G2: the backfill of watch %s from %d to %d is done, and has read %d ledgers",
				w.ID, b.From, b.Until, read)
		}
	default: // other facts don't start or advance a backfill
	}
}

// openPart returns a watch's open part that contains a ledger.
func openPart(w domain.Watch, sequence uint32) (part domain.Part, found bool) {
	i := slices.IndexFunc(w.Parts, func(p domain.Part) bool { return p.Has(sequence) })
	if i < 0 {
		return part, false
	}
	return w.Parts[i], true
}

// checkEnded checks that a part that ends was open, and that it has no matches beyond what it
// covers.
func (c *checks) checkEnded(before domain.Watch, covered domain.RangeCovered) {
	w := c.world
	part, open := before.Part(covered.Part)
	if !open {
		w.violate("G2: part %d of watch %s ends twice", covered.Part, before.ID)
	}
	if part.MatchesFrom == 0 && len(before.Uncovered(part.Range)) == 0 {
		return // it is read again, and its existing matches are skipped
	}
	beyond := part.From
	if covered.From != 0 {
		beyond = covered.To + 1
	}
	for _, p := range w.chain.payments(min(beyond, part.To+1), part.To) {
		if c.isNew(before.ID, part, p) {
			w.violate("G2: part %d of watch %s ends before ledger %d, whose payment %s it matched",
				part.Version, before.ID, p.Ledger, p.ID)
		}
	}
	if covered.From == 0 {
		w.count("parts that ended unread")
	}
}

func (c *checks) toldOf(pinned domain.Watch, part domain.Part, p domain.Payment) {
	w := c.world
	m, matches := c.matchPayment(c.decided(pinned, p), p)
	found := c.matched[domain.EventID(pinned.ID, p.ID)]
	switch {
	case c.had[partID{pinned.ID, part.Version}][domain.EventID(pinned.ID, p.ID)]:
		w.count("payments of backfills that had an event")
	case !matches && len(found) > 0:
		w.violate("G2: payment %s was matched by a backfill of watch %s, which does not match it", p.ID,
			pinned.ID)
	case !matches:
	case len(found) == 0:
		w.violate("G2: ledger %d is covered, and payment %s was not matched by watch %s", p.Ledger, p.ID,
			pinned.ID)
	case found[0].endpoint != pinned.EndpointID ||
		!bytes.Equal(found[0].event.Body, domain.NewPaymentEvent(m, part.BegunAtMillis).Body):
		w.violate("G2: payment %s of a backfill of watch %s is for %s: %s", p.ID, pinned.ID,
			found[0].endpoint, found[0].event.Body)
	default:
		w.count("events of backfills")
	}
}
