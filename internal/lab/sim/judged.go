package sim

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/lab/draw"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// judged decides which matches each payment may and must have (G2). It is based on the history of
// watches: which of a watch's settings may have been used, and the first ledger that it sees.
type judged struct {
	settings map[string][]domain.Watch // of each watch, oldest first
	known    map[string]int            // the latest one that the client knows, if any
	// since is the first live ledger of a watch, as first recorded since it last missed a ledger.
	// first is the first live ledger before it missed any.
	since, first map[string]uint32
	admitted     map[string][]admission // by watch, in log order
	missed       map[string][]uint32    // ledgers that a watch is said to have missed, by watch
	claimed      map[string]int64       // first offset of such a claim, by command
	// The oldest settings that a ledger's reader may have used, by ledger and watch.
	least map[uint32]map[string]int
	read  map[uint32]bool       // ledgers
	gone  map[string]bool       // endpoints that were deleted according to their table row
	drawn map[string]draw.Rules // by the printed form of the product's rules and event types
}

func newJudged() *judged {
	return &judged{
		settings: make(map[string][]domain.Watch),
		known:    make(map[string]int),
		since:    make(map[string]uint32),
		first:    make(map[string]uint32),
		admitted: make(map[string][]admission),
		missed:   make(map[string][]uint32),
		claimed:  make(map[string]int64),
		least:    make(map[uint32]map[string]int),
		read:     make(map[uint32]bool),
		gone:     make(map[string]bool),
		drawn:    make(map[string]draw.Rules),
	}
}

func (j *judged) changed(w domain.Watch) {
	of := j.settings[w.ID]
	if w.Exists() && (len(of) == 0 || of[len(of)-1].Revision != w.Revision) {
		j.settings[w.ID] = append(of, w)
	}
}

// shown records a watch as in its table row.
func (j *judged) shown(row kafka.Record) {
	watch := decode(row, schemas.DecodeWatch)
	j.changed(watch)
}

// shownEndpoint records an endpoint as in its table row, which followers use as well.
func (j *judged) shownEndpoint(row kafka.Record) {
	endpoint := decode(row, schemas.DecodeEndpoint)
	if endpoint.Deleted() {
		j.gone[endpoint.ID] = true
	}
}

func (j *judged) acknowledged(w domain.Watch) {
	i := slices.IndexFunc(j.settings[w.ID],
		func(s domain.Watch) bool { return s.Revision == w.Revision })
	if known, is := j.known[w.ID]; i >= 0 && (!is || i > known) {
		j.known[w.ID] = i
	}
}

// admission is a command that makes a watch live from a ledger on.
type admission struct {
	offset int64
	ledger uint32
}

// asked records a watch's first admission in the log since it missed a ledger, and the ledgers that
// the watch has missed. The admission must name a ledger that has not been read yet.
func (c *checks) asked(r kafka.Record) {
	if isDamaged(r) {
		return
	}
	asked := decode(r, schemas.DecodeCommand)
	body, is := asked.Body.(domain.RecordCoverage)
	j := c.judged
	if is && body.Missed != 0 {
		j.missed[body.WatchID] = append(j.missed[body.WatchID], body.Missed)
		if _, repeated := j.claimed[asked.ID]; !repeated { // only the first takes effect
			j.claimed[asked.ID] = r.Offset
		}
	}
	if !is || body.LiveSince == 0 {
		return
	}
	j.admitted[body.WatchID] = append(j.admitted[body.WatchID], admission{r.Offset, body.LiveSince})
	if j.since[body.WatchID] != 0 {
		return
	}
	if body.LiveSince <= c.cursor {
		c.world.violate("G2: watch %s is said to be live from ledger %d on, when %d was read",
			body.WatchID, body.LiveSince, c.cursor)
	}
	j.since[body.WatchID] = body.LiveSince
	if j.first[body.WatchID] == 0 {
		j.first[body.WatchID] = body.LiveSince
	}
}

// checkMissed checks that a watch only misses a ledger while its endpoint is deleted. A backup may
// have the claim but not the deletion.
func (c *checks) checkMissed(watch domain.Watch, ledger uint32) {
	if len(c.world.setup.disasters) == 0 && !c.judged.gone[watch.EndpointID] {
		c.world.violate("G2: watch %s misses ledger %d, and its endpoint %s is not deleted", watch.ID,
			ledger, watch.EndpointID)
	}
}

// misses records that a watch has missed a ledger. The next admission in the log makes it live
// again.
func (j *judged) misses(f domain.Fact) {
	delete(j.since, f.Aggregate)
	for _, a := range j.admitted[f.Aggregate] {
		if a.offset > j.claimed[f.Cause] {
			j.since[f.Aggregate] = a.ledger
			return
		}
	}
}

// missing reports whether a watch has been without an endpoint since it was last live.
func (j *judged) missing(watchID string, sequence uint32) bool {
	return slices.ContainsFunc(j.missed[watchID], func(ledger uint32) bool {
		return j.since[watchID] <= ledger && ledger <= sequence
	})
}

// closed records the minimum knowledge of a ledger's readers.
func (j *judged) closed(sequence uint32) {
	least := make(map[string]int)
	for id, i := range j.known {
		least[id] = i
	}
	j.least[sequence] = least
}

// may returns the settings with which a watch may have matched a ledger. certain reports whether
// the watch's client knew about the watch before the ledger closed.
func (j *judged) may(watchID string, sequence uint32) (settings []domain.Watch, certain bool) {
	from, certain := j.least[sequence][watchID]
	return j.settings[watchID][from:], certain
}

func (c *checks) checkRead(l domain.Ledger) {
	j := c.judged
	if j.read[l.Sequence] {
		return
	}
	j.read[l.Sequence] = true
	for _, id := range c.world.clients.watches {
		if len(j.settings[id]) > 0 {
			c.readFor(id, l)
		}
	}
	if len(c.world.setup.disasters) == 0 { // otherwise it may be read again
		delete(j.least, l.Sequence)
	}
}

func (c *checks) readFor(watchID string, l domain.Ledger) {
	w, j := c.world, c.judged
	settings, certain := j.may(watchID, l.Sequence)
	since := j.since[watchID]
	live := since != 0 && since <= l.Sequence
	deleted := slices.ContainsFunc(settings, domain.Watch.Deleted)
	missing := j.missing(watchID, l.Sequence)
	if certain && !live && !deleted && !missing {
		w.violate("G2: watch %s was acknowledged before ledger %d closed, and is live from %d on (0: "+
			"never)", watchID, l.Sequence, since)
	}
	for _, p := range l.Payments {
		if p.To != settings[0].WalletAddress {
			continue
		}
		event := domain.EventID(watchID, p.ID)
		switch found := c.matched[event]; {
		case len(found) == 0 && missing:
			w.count("payments that a watch without an endpoint missed")
		case len(found) == 0 && live:
			c.checkUnmatched(settings, p)
		case len(found) > 0 && !live && !c.beganPart(watchID, l.Sequence):
			w.violate("G2: payment %s was matched by watch %s, which is live from ledger %d on (0: never)",
				p.ID, watchID, since)
		case len(found) > 0 && live:
			c.checkMatchOf(settings, p, found[0])
			w.count("expected events")
		}
	}
}

// beganPart reports whether a backfill is reading or has read a ledger.
func (c *checks) beganPart(watchID string, sequence uint32) bool {
	watch := c.model.watches[watchID]
	_, open := openPart(watch, sequence)
	return open || len(watch.Covered.Missing(domain.Range{From: sequence, To: sequence})) == 0
}

// checkUnmatched checks that an unmatched payment did not have to be matched.
func (c *checks) checkUnmatched(settings []domain.Watch, p domain.Payment) {
	c.checkNotTheOne(settings, p)
	for _, watch := range settings {
		if _, matches := c.matchPayment(c.decided(watch, p), p); !matches {
			return
		}
	}
	c.world.violate("G2: ledger %d is read, and payment %s was not matched by watch %s",
		p.Ledger, p.ID, settings[0].ID)
}

// checkMatchOf checks that a match belongs to settings that the watch had, and that its payment was
// observed.
func (c *checks) checkMatchOf(settings []domain.Watch, p domain.Payment, found match) {
	w := c.world
	if !c.observed[p.ID] {
		w.violate("G2: ledger %d is read, and payment %s was matched and not observed", p.Ledger, p.ID)
	}
	if watch := settings[0]; !watch.Once {
		c.checkTime(settings, p)
	} else {
		c.checkTime(c.judged.settings[watch.ID], p)
	}
	for _, watch := range settings {
		m, matches := c.matchPayment(c.decided(watch, p), p)
		if matches && found.endpoint == watch.EndpointID &&
			bytes.Equal(found.event.Body, domain.NewPaymentEvent(m, found.event.CreatedAtMillis).Body) {
			return
		}
	}
	w.violate("G2: the match of payment %s by watch %s is another: for %s, %s", p.ID, settings[0].ID,
		found.endpoint, found.event.Body)
}

// matchPayment returns a watch's match of a payment, and checks it against the specification.
// Watches for one payment are checked below.
func (c *checks) matchPayment(watch domain.Watch, p domain.Payment) (domain.Match, bool) {
	m, matches := domain.MatchPayment(watch, p)
	matches = matches && p.AmountStroops > 0
	if watch.Once || watch.Deleted() || p.To != watch.WalletAddress || p.From == p.To ||
		p.AmountStroops == 0 {
		return m, matches
	}
	rules, is := c.judged.drawn[fmt.Sprint(watch.Rules, watch.EventTypes)]
	if !is {
		c.world.violate("watch %s has the rules %+v, which nobody gave it", watch.ID, watch.Rules)
	}
	kind, reasons := rules.Event(c.world.chain.drawn[p.ID])
	if watch.ExpiresAtMillis != 0 && p.ClosedAtMillis > watch.ExpiresAtMillis {
		kind = ""
	}
	if matches != (kind != "") || matches && (string(m.Type) != kind ||
		fmt.Sprint(m.Verification.Reasons) != fmt.Sprint(reasons)) {
		c.world.violate("G2: payment %s makes %t %s %v with watch %s, and is to make %q %v", p.ID,
			matches, m.Type, m.Verification.Reasons, watch.ID, kind, reasons)
	}
	return m, matches
}

// takes checks that a watch for one payment creates a single event, no matter how often and by
// which processes ledgers are read (G2).
func (c *checks) takes(in domain.MatchInput) {
	if settings := c.judged.settings[in.WatchID]; len(settings) == 0 || !settings[0].Once {
		return
	}
	if former := c.tookEvent(in.WatchID); former != "" && former != in.Event.ID {
		c.world.violate("G2: watch %s is for one payment, and makes the events %s and %s", in.WatchID,
			former, in.Event.ID)
	}
	c.took[in.WatchID] = in.Event.ID
	c.world.count("events of watches for one payment")
}

func (c *checks) tookEvent(watchID string) string {
	if event := c.took[watchID]; len(c.matched[event]) > 0 {
		return event
	}
	return ""
}

// checkFulfilled checks that a watch is fulfilled once, by a payment that it may match.
func (c *checks) checkFulfilled(before domain.Watch, by domain.Fulfilment) {
	w := c.world
	switch {
	case !by.Is():
		return
	case !before.Once || before.Fulfilled.Is():
		w.violate("G2: watch %s is fulfilled by %s, and is for one payment: %t, and has %q", before.ID,
			by.PaymentID, before.Once, before.Fulfilled.PaymentID)
	}
	payments := w.chain.ledgers[by.Ledger-1].Payments
	i := slices.IndexFunc(payments, func(p domain.Payment) bool { return p.ID == by.PaymentID })
	if i < 0 {
		w.violate("G2: watch %s is fulfilled by %+v, which is no payment", before.ID, by)
	}
	judgedBy := slices.Clone(c.judged.settings[before.ID])
	for _, part := range before.Parts {
		judgedBy = append(judgedBy, before.Pinned(part))
	}
	if !slices.ContainsFunc(judgedBy, func(s domain.Watch) bool {
		_, matches := c.matchPayment(s, payments[i])
		return matches
	}) {
		w.violate("G2: watch %s is fulfilled by payment %s, which it does not match", before.ID,
			by.PaymentID)
	}
	w.count("fulfilled watches")
}

// decided returns a watch's settings, including the payment that it has matched if it is for one
// payment.
func (c *checks) decided(settings domain.Watch, p domain.Payment) domain.Watch {
	if !settings.Once {
		return settings
	}
	settings.Fulfilled = c.model.watches[settings.ID].Fulfilled
	switch event := c.tookEvent(settings.ID); event {
	case "":
	case domain.EventID(settings.ID, p.ID):
		settings.Fulfilled = domain.FulfilledBy(p)
	default:
		settings.Fulfilled = domain.Fulfilment{PaymentID: event}
	}
	return settings
}

// checkTime checks that a payment isn't matched if its ledger closed after all expiry times that
// the watch may have had. An earlier fulfilment may have changed since.
func (c *checks) checkTime(settings []domain.Watch, p domain.Payment) {
	late := func(s domain.Watch) bool {
		return s.ExpiresAtMillis != 0 && p.ClosedAtMillis > s.ExpiresAtMillis
	}
	if slices.ContainsFunc(settings, func(s domain.Watch) bool { return !late(s) }) {
		return
	}
	c.world.violate("G2: payment %s was taken by watch %s, which had expired when ledger %d closed",
		p.ID, settings[0].ID, p.Ledger)
}

// checkNotTheOne checks that a payment without an event of a watch has not fulfilled the watch.
func (c *checks) checkNotTheOne(settings []domain.Watch, p domain.Payment) {
	id := settings[0].ID
	over := slices.ContainsFunc(settings, func(s domain.Watch) bool {
		return s.Deleted() || c.judged.gone[s.EndpointID]
	})
	if c.model.watches[id].Fulfilled.PaymentID == p.ID && !over {
		c.world.violate("G2: watch %s is fulfilled by payment %s, and made no event of it", id, p.ID)
	}
}
