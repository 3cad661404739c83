package sim

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// checks verifies the guarantees of docs/architecture.md during a run. It panics on a violation.
type checks struct {
	world     *World
	model     *model
	reference *referenceModel
	started   map[attemptID][]*sent // attempts that reached a receiver
	made      map[attemptID]domain.AttemptResult
	matched   map[string][]match   // by event, in topic order
	took      map[string]string    // the event of each watch for one payment
	handed    map[deliveryID]match // events that were handed over
	told      map[string]string    // endpoints to notify, by event
	observed  map[string]bool      // by payment id
	judged    *judged
	mails     *mailChecks
	stood     map[string]int      // number of committed records, by command id
	carried   map[string]int      // how often a command was answered, by its id
	lost      map[attemptID]bool  // attempts that ended after their delivery was forgotten
	starts    map[string][]int64  // of attempts in the last second, by endpoint: [World.passed]
	routes    map[[2]int32]uint64 // number of the last handover between two partitions
	cursor    uint32
	had       map[partID]map[string]bool // events that existed when a part started
	reread    map[string]uint32          // number of ledgers that a backfill has read, by watch

	// For runs with disasters: the state onto which the facts since the last copy were folded, these
	// facts in commit order, and the payments observed before them.
	base      timeline
	committed []kafka.Record
	since     observed
}

type attemptID struct {
	deliveryID
	number int
}

type sent struct {
	*flight
	result domain.AttemptResult // the receiver's result
}

type match struct {
	endpoint  string
	partition int32
	event     domain.Event
}

func newChecks(w *World) *checks {
	return &checks{
		world:     w,
		model:     newModel(),
		reference: newReferenceModel(w),
		started:   make(map[attemptID][]*sent),
		made:      make(map[attemptID]domain.AttemptResult),
		matched:   make(map[string][]match),
		took:      make(map[string]string),
		had:       make(map[partID]map[string]bool),
		reread:    make(map[string]uint32),
		observed:  make(map[string]bool),
		handed:    make(map[deliveryID]match),
		told:      make(map[string]string),
		judged:    newJudged(),
		mails:     newMailChecks(),
		stood:     make(map[string]int),
		carried:   make(map[string]int),
		lost:      make(map[attemptID]bool),
		starts:    make(map[string][]int64),
		routes:    make(map[[2]int32]uint64),
	}
}

func (c *checks) stands(records []kafka.Record) {
	for _, r := range records {
		switch r.Topic {
		case schemas.TopicJournal:
			if r.Header(schemas.HeaderType) != "" { // otherwise it is a task's note
				if len(c.world.setup.disasters) > 0 {
					c.committed = append(c.committed, r)
				}
				c.fact(r)
			}
		case schemas.TopicCommands:
			c.countCommand(r)
			c.asked(r)
		case schemas.TopicWatches:
			c.judged.shown(r)
		case schemas.TopicEndpoints:
			c.judged.shownEndpoint(r)
		case schemas.TopicMatches:
			c.match(r)
		case schemas.TopicMails:
			c.mails.ordered(c.world, r)
		case schemas.TopicPayments:
			c.payment(r)
		case schemas.TopicLedgers:
			c.checkLedger(r)
		}
	}
}

// checkObserved checks that live reading has written each payment once, no matter how often its
// ledger was read. Backfills write past payments separately for their watch.
func (c *checks) checkObserved(log *Log, seen map[string]bool) {
	for partition := range log.keyed {
		for _, e := range log.partitions[topicPartition{schemas.TopicPayments, partition}].entries {
			if e.control || e.span == nil || e.span.id != followerTxn || e.span.fate != fateCommitted {
				continue
			}
			p := decode(e.record, schemas.DecodePaymentObserved)
			if seen[p.Payment.ID] {
				c.world.violate("G2: payment %s was observed twice", p.Payment.ID)
			}
			seen[p.Payment.ID] = true
		}
	}
}

// checkCoverage checks what a fact says about the ledgers covered for its watch, before the fact is
// folded.
func (c *checks) checkCoverage(f domain.Fact) {
	before := c.model.watches[f.Aggregate]
	if covered, is := f.Body.(domain.RangeCovered); is {
		c.checkCovered(before, covered)
		if covered.Missed != 0 {
			c.checkMissed(before, covered.Missed)
			c.judged.misses(f)
		}
		c.checkFulfilled(before, covered.Fulfilled)
	}
	if begun, is := f.Body.(domain.PartBegun); is {
		c.begun(partID{f.Aggregate, f.Version}, begun)
	}
}

func (c *checks) fact(r kafka.Record) {
	w := c.world
	f := decode(r, schemas.DecodeFact)
	if r.Partition != w.log.partitionOf(r.Topic, f.Aggregate) {
		w.violate("%s of %s is in partition %d", f.Body.FactType(), f.Aggregate, r.Partition)
	}
	c.checkCoverage(f)
	if err := c.model.fold(f); err != nil {
		w.violate("%v", err)
	}
	c.checkDone(c.model.watches[f.Aggregate], f)
	if domain.KindOf(f.Aggregate) == domain.KindWatch {
		c.judged.changed(c.model.watches[f.Aggregate])
	}
	if err := c.causes(f); err != nil {
		w.violate("G3: %v", err)
	}
	if err := c.reference.apply(f); err != nil {
		guarantee := "G3"
		if f.Body.FactType() == "CommandHandled" {
			guarantee = "G1"
		}
		w.violate("%s, by the reference model: %v", guarantee, err)
	}
	if err := c.mails.apply(w, f); err != nil {
		w.violate("mail: %v", err)
	}
	switch b := f.Body.(type) {
	case domain.CommandHandled:
		c.checkStranger(b)
		if c.carried[b.CommandID]++; c.carried[b.CommandID] > c.stood[b.CommandID] {
			w.violate("G1: command %s was carried out %d times, and asked %d times", b.CommandID,
				c.carried[b.CommandID], c.stood[b.CommandID])
		}
	case domain.DeliveryCreated:
		c.checkCreated(r.Partition, b)
		c.noteTest(r.Partition, deliveryID{f.Aggregate, b.Event.ID})
	case domain.AttemptMade:
		c.checkAttempt(f.Aggregate, b)
		c.checkLog(f, b.Entry)
		c.noteTelling(f)
	case domain.EndpointDisabled:
		c.noteTelling(f)
	case domain.EndpointEnabled:
		for _, e := range w.engines {
			for _, t := range e.tasks {
				delete(t.good, f.Aggregate)
				t.enabled = t.enabled || t.partition == r.Partition && c.owns(t)
			}
		}
	default: // the models check these
	}
	w.tracef("fact %d of %s: %s %s", f.Version, short(f.Aggregate), f.Body.FactType(),
		short(f.EventID()))
}

// checkStranger checks that an account's objects don't exist for another account.
func (c *checks) checkStranger(h domain.CommandHandled) {
	cmd := c.world.clients.byID[h.CommandID]
	switch cmd.Body.(type) {
	case domain.CreateAccount, domain.CreateEndpoint, domain.CreateWatch:
		return // created for the account that they name
	default:
	}
	if r := h.Answer.Rejection; cmd.AccountID == stranger &&
		(r == nil || r.Code != domain.CodeNotFound) {
		c.world.violate("%s of another account's is not refused as unknown: %+v", cmd.Body.CommandType(),
			r)
	}
}

// checkCreated checks that a delivery belongs to a match, and to the first one.
func (c *checks) checkCreated(partition int32, b domain.DeliveryCreated) {
	c.world.count("deliveries of " + string(b.Event.Type))
	if b.Event.Type == domain.TestPing {
		return
	}
	matches := c.matched[b.Event.ID]
	if b.Event.Type.TellsOfEndpoint() {
		c.checkTaken(partition, b.Moved)
	}
	if b.Moved.Moves > 0 {
		c.checkTaken(partition, b.Moved)
		matches = []match{c.handed[deliveryID{b.EndpointID, b.Event.ID}]}
	}
	for _, m := range matches {
		if m.partition != partition {
			continue
		}
		if m.endpoint != b.EndpointID || !bytes.Equal(m.event.Body, b.Event.Body) {
			c.world.violate("G2: the delivery of %s is not its first match", b.Event.ID)
		}
		return
	}
	c.world.violate("G2: the delivery of %s is of no match", b.Event.ID)
}

// checkTaken checks that a partition takes each handover from another partition once, in number
// order.
func (c *checks) checkTaken(partition int32, moved domain.Moved) {
	if moved.Number == 0 && c.model.wasMoved {
		return // it was in flight during a move
	}
	route := [2]int32{moved.FromPartition, partition}
	if moved.Number <= c.routes[route] {
		c.world.violate("G2: hand-over %d of partition %d is taken in by %d after %d", moved.Number,
			moved.FromPartition, partition, c.routes[route])
	}
	c.routes[route] = moved.Number
}

// checkAttempt checks that a recorded attempt has happened (G7).
func (c *checks) checkAttempt(endpoint string, b domain.AttemptMade) {
	id := attemptID{deliveryID{endpoint, b.EventID}, b.Number}
	happened := slices.ContainsFunc(c.started[id],
		func(s *sent) bool { return same(s.result, b.Result) })
	if !happened {
		c.world.violate("G7: attempt %d of %s is recorded and never ended so", b.Number, b.EventID)
	}
	c.made[id] = b.Result
	c.world.count("recorded attempts")
	c.world.count("deliveries " + string(b.State))
}

// checkLog checks that an attempt is the next leaf of its endpoint's log. The fold closes a log
// that gets any other leaf.
func (c *checks) checkLog(f domain.Fact, e domain.LogEntry) {
	log := c.model.endpoints[f.Aggregate].Log
	if e.Number == 0 || log.Size != e.Number || log.From != e.From {
		c.world.violate("G4: fact %d of %s is leaf %d of the log from %d, and the log is %+v", f.Version,
			f.Aggregate, e.Number, e.From, log)
	}
}

func (c *checks) askedFor(endpoint string, b domain.AttemptMade) int64 {
	for _, s := range c.started[attemptID{deliveryID{endpoint, b.EventID}, b.Number}] {
		if same(s.result, b.Result) {
			return s.result.RetryAfterMillis
		}
	}
	return 0
}

// underWay reports whether the owner of a delivery's partition has an attempt of it in flight, or
// took its outcome in this turn.
func (c *checks) underWay(id deliveryID) bool {
	partition := c.world.log.partitionOf(schemas.TopicJournal, id.endpoint)
	for _, e := range c.world.engines {
		for _, t := range e.tasks {
			if t.partition != partition || !c.owns(t) {
				continue
			}
			_, under := t.under[id.event]
			return under ||
				slices.ContainsFunc(t.taken,
					func(o engine.Outcome) bool { return o.Attempt.EventID == id.event })
		}
	}
	return false
}

// same compares the stored fields of two results.
func same(a, b domain.AttemptResult) bool {
	return a.SentAtMillis == b.SentAtMillis && a.DurationMillis == b.DurationMillis &&
		a.StatusCode == b.StatusCode && a.Error == b.Error && bytes.Equal(a.ResponseBody, b.ResponseBody)
}

// countCommand counts how often a command was issued. Even if its record is read again, the command
// must not be executed more often than that.
func (c *checks) countCommand(r kafka.Record) {
	if isDamaged(r) {
		return
	}
	cmd := decode(r, schemas.DecodeCommand)
	c.stood[cmd.ID]++
}

// match checks that an event is matched once (G2).
func (c *checks) match(r kafka.Record) {
	if isDamaged(r) {
		return
	}
	in := decode(r, schemas.DecodePaymentMatched)
	if in.Moved.Moves > 0 {
		c.checkHandOver(r, in)
		return
	}
	if in.Event.Type.TellsOfEndpoint() {
		c.checkTelling(r, in)
		return
	}
	for _, first := range c.matched[in.Event.ID] {
		c.world.violate("G2: event %s is matched twice, for %s with the body %s, and for %s with the "+
			"body %s", in.Event.ID, first.endpoint, first.event.Body, in.EndpointID, in.Event.Body)
	}
	found := match{in.EndpointID, r.Partition, in.Event}
	c.matched[in.Event.ID] = append(c.matched[in.Event.ID], found)
	c.takes(in)
}

// checkHandOver checks that an event is handed over with the body with which it was matched.
func (c *checks) checkHandOver(r kafka.Record, in domain.MatchInput) {
	matches := c.matched[in.Event.ID]
	if len(matches) == 0 || !bytes.Equal(matches[0].event.Body, in.Event.Body) {
		c.world.violate("G2: event %s is handed over to %s with another body: %s", in.Event.ID,
			in.EndpointID, in.Event.Body)
	}
	c.handed[deliveryID{in.EndpointID, in.Event.ID}] = match{in.EndpointID, r.Partition, in.Event}
	c.world.count("hand-overs")
}

// checkTelling checks that an endpoint gets a single event about each disabled or failing endpoint.
func (c *checks) checkTelling(r kafka.Record, in domain.MatchInput) {
	if len(c.matched[in.Event.ID]) > 0 {
		c.world.violate("G2: event %s is told to %s twice", in.Event.ID, in.EndpointID)
	}
	found := match{in.EndpointID, r.Partition, in.Event}
	c.matched[in.Event.ID] = append(c.matched[in.Event.ID], found)
	c.world.count("tellings: " + string(in.Event.Type))
}

func (c *checks) noteTelling(f domain.Fact) {
	if telling := f.Telling(); telling.EndpointID != "" {
		c.told[telling.EventID] = telling.EndpointID
	}
}

// allTold checks that each endpoint to notify got a delivery.
func (c *checks) allTold() {
	for event, endpoint := range c.told {
		if c.model.endpointOf[event] != endpoint {
			c.world.violate("G2: %s was not told by %s", endpoint, event)
		}
	}
}

func (c *checks) payment(r kafka.Record) {
	p := decode(r, schemas.DecodePaymentObserved)
	c.observed[p.Payment.ID] = true
}

// checkLedger checks that a ledger's matches are complete when its cursor is written (G2).
func (c *checks) checkLedger(r kafka.Record) {
	w := c.world
	read := decode(r, schemas.DecodeLedgerRead)
	if closed := w.chain.ledgers[read.Sequence-1]; read.Hash != closed.Hash ||
		read.ClosedAtMillis != closed.ClosedAtMillis {
		w.violate("G2: ledger %d is read as %s of %d", read.Sequence, read.Hash, read.ClosedAtMillis)
	}
	if read.Sequence > c.cursor+1 {
		w.violate("G2: ledger %d is read after %d", read.Sequence, c.cursor)
	}
	c.cursor = max(c.cursor, read.Sequence)
	c.checkRead(w.chain.ledgers[read.Sequence-1])
}

// checkStart checks whether an attempt may start, according to the journal (G3).
func (c *checks) checkStart(t *engineTask, a domain.Attempt) {
	w := c.world
	id := deliveryID{a.EndpointID, a.EventID}
	d, e := c.model.deliveries[id], c.model.endpoints[a.EndpointID]
	want, to := c.reference.deliveries[id], c.reference.endpoints[a.EndpointID]
	switch {
	case !t.process.works():
		w.violate("a process that is down starts an attempt")
	case !to.active:
		w.violate("G3: attempt %d of %s starts while its endpoint is %s", a.Number, a.EventID, e.Status)
	case !want.pending():
		w.violate("G3: attempt %d of %s starts while the delivery is %s", a.Number, a.EventID, d.State)
	case a.Number != want.attempts+1:
		w.violate("G7: attempt %d of %s starts after %d were recorded", a.Number, a.EventID,
			want.attempts)
	case a.Sequence != want.sequence:
		w.violate("attempt %d of %s carries number %d, and its delivery has %d", a.Number, a.EventID,
			a.Sequence, want.sequence)
	case want.dueAtMillis > t.nowMillis && !want.firstTest():
		w.violate("G3: attempt %d of %s starts %d ms early", a.Number, a.EventID,
			want.dueAtMillis-t.nowMillis)
	case a.URL != to.url:
		w.violate("attempt %d of %s goes to %s, which was changed to %s", a.Number, a.EventID, a.URL,
			to.url)
	case !bytes.Equal(a.Body, c.model.bodies[id]):
		w.violate("attempt %d of %s carries another body", a.Number, a.EventID)
	case !slices.Equal(a.Secrets, to.signs(t.nowMillis)):
		w.violate("attempt %d of %s is signed with %q", a.Number, a.EventID, a.Secrets)
	case a.Signatures != to.signatures || !slices.Equal(a.SigningKeys, to.signingKeys(a.EndpointID)):
		w.violate("attempt %d of %s has the signatures %q by %q, and was to have %q", a.Number, a.EventID,
			a.Signatures.Names(), a.SigningKeys, to.signatures.Names())
	}
	began := func(event string) bool { _, is := t.under[event]; return is }
	if began(a.EventID) {
		w.violate("an attempt of %s starts while another is under way", a.EventID)
	}
	if first := to.first(want, a.EventID); first != a.EventID {
		w.violate("attempt %d of %s starts before %s has ended, which stands before it in the line of %s",
			a.Number, a.EventID, first, want.line)
	}
	c.oneOfAWallet(a, want.line)
	if earlier, is := c.reference.overtaken(id, began); is {
		w.violate("G3: attempt %d of %s starts before %s, which its replay queued first", a.Number,
			a.EventID, earlier.event)
	}
	t.under[a.EventID] = underWay{
		endpoint: a.EndpointID,
		number:   a.Number,
		probing:  !t.good[a.EndpointID],
		urgent:   want.firstTest(),
	}
	if len(t.under) > w.setup.inFlight {
		w.violate("%d attempts are under way", len(t.under))
	}
	if !want.firstTest() {
		c.bounds(t, a.EndpointID, to.ratePerSecond)
	}
}

// oneOfAWallet checks that no other attempt of the same line is in flight at the receiver, unless
// its process has died or its partition has changed owners.
func (c *checks) oneOfAWallet(a domain.Attempt, line string) {
	if line == "" {
		return
	}
	c.world.count("attempts of the first in a line")
	if len(c.reference.endpoints[a.EndpointID].lines[line]) > 1 {
		c.world.count("attempts that others stand behind")
	}
	for _, f := range c.world.flights {
		if f.line == line && f.attempt.EndpointID == a.EndpointID && f.attempt.EventID != a.EventID &&
			f.lives() && !f.others() {
			c.world.violate("attempt %d of %s starts while %s is under way, of the same wallet", a.Number,
				a.EventID, f.attempt.EventID)
		}
	}
}

// bounds checks that an endpoint doesn't get more attempts at once, or per second, than allowed, no
// matter which tasks start them. Attempts that a user waits for are exempt.
func (c *checks) bounds(t *engineTask, endpoint string, perSecond int) {
	under := 0
	for _, u := range t.under {
		if u.endpoint == endpoint && !u.urgent {
			under++
		}
	}
	if under > c.world.setup.perEndpoint {
		c.world.violate("G6: %d attempts to %s are under way, of %d that it may have", under, endpoint,
			c.world.setup.perEndpoint)
	}
	now := c.world.passed()
	starts := slices.DeleteFunc(c.starts[endpoint],
		func(at int64) bool { return at <= now-secondMillis })
	c.starts[endpoint] = append(starts, now)
	t.usedUp = t.usedUp || len(c.starts[endpoint]) == perSecond
	if n := len(c.starts[endpoint]); perSecond > 0 && n > perSecond {
		c.world.violate("G6: %d attempts to %s begin within a second, and its limit is %d", n, endpoint,
			perSecond)
	}
}

func (c *checks) noteEnd(f *flight) {
	id := attemptID{deliveryID{f.attempt.EndpointID, f.attempt.EventID}, f.attempt.Number}
	c.started[id] = append(c.started[id], &sent{f, f.result})
}

// checkHistory checks that each finished attempt is in the journal, unless its process has died or
// the partition has changed owners (G7).
func (c *checks) checkHistory() {
	for _, delivery := range c.model.created {
		for n := 1; ; n++ {
			id := attemptID{delivery, n}
			if len(c.started[id]) == 0 {
				break
			}
			for _, s := range c.started[id] {
				switch made, is := c.made[id]; {
				case is && same(made, s.result), c.lost[id]:
				case s.lives() && !s.others():
					c.world.violate("G7: attempt %d of %s ended, and its process lived on, "+
						"and it is in no history", n, delivery.event)
				default:
					c.world.count("attempts in no history")
				}
			}
		}
	}
}

// checkOutcomes checks that the outcomes of a committed turn are in the journal (G7).
func (c *checks) checkOutcomes(t *engineTask) {
	for _, o := range t.taken {
		id := attemptID{deliveryID{o.Attempt.EndpointID, o.Attempt.EventID}, o.Attempt.Number}
		made, is := c.made[id]
		if !is && c.world.forgot(id.deliveryID) {
			c.loses(id)
			continue
		}
		if !is || !same(made, o.Result) {
			c.world.violate("G7: the outcome of attempt %d of %s was taken and is not in the journal",
				o.Attempt.Number, o.Attempt.EventID)
		}
	}
	t.taken = nil
}

// loses records that an attempt is in no history, because its delivery was cancelled, and forgotten
// after enough others had settled.
func (c *checks) loses(id attemptID) {
	c.lost[id] = true
	c.world.count("attempts of what was forgotten")
}

// checkReported checks that only committed facts are reported.
func (c *checks) checkReported(f domain.Fact) {
	if f.Version > c.model.version(f.Aggregate) {
		c.world.violate("fact %d of %s is told of before it is committed", f.Version, f.Aggregate)
	}
}

// owns reports whether a task may currently write.
func (c *checks) owns(t *engineTask) bool {
	return !t.ended && c.world.log.producers[txnID(t.partition)].epoch == t.epoch
}

// checkDue checks after each turn that no due delivery waits while there is capacity (G6), whatever
// other endpoints do. A rate limit may delay it by up to a second.
func (c *checks) checkDue(t *engineTask, nowMillis int64) {
	w := c.world
	if !c.owns(t) || t.draining || !t.process.ours() || len(t.under) >= w.setup.inFlight {
		t.limited = nil // deliveries now wait for another reason
		return
	}
	probing, sending := 0, make(map[string]bool)
	for _, u := range t.under {
		sending[u.endpoint] = true
		if u.probing {
			probing++
		}
	}
	probingFull, waited := probing >= max(1, w.setup.inFlight/2), t.limited
	t.limited = make(map[string]int64)
	for _, id := range c.model.created {
		d, e := c.reference.deliveries[id], c.reference.endpoints[id.endpoint]
		if w.log.partitionOf(schemas.TopicJournal, id.endpoint) != t.partition || !d.pending() ||
			!e.active ||
			d.dueAtMillis > nowMillis || e.first(d, id.event) != id.event || sending[id.endpoint] ||
			probingFull && !t.good[id.endpoint] {
			continue
		}
		if e.ratePerSecond > 0 {
			t.waits(id, waited)
			continue
		}
		w.violate("G6: %s is due, its endpoint %s has no attempt under way, and only %d of %d places "+
			"are taken", id.event, id.endpoint, len(
			t.under,
		), w.setup.inFlight)
	}
}

// waits records that a delivery is due but not started, and checks that its endpoint's rate limit
// doesn't delay it by more than a second. waited holds since when endpoints have been waiting.
func (t *engineTask) waits(id deliveryID, waited map[string]int64) {
	w := t.process.world
	since, is := waited[id.endpoint]
	if !is {
		since = w.steady
	}
	if w.steady-since > secondMillis {
		w.violate("G6: %s is due, and its endpoint %s has waited for its rate limit for %d ms",
			id.event, id.endpoint, w.steady-since)
	}
	t.limited[id.endpoint] = since
}

// noteTest records a test at the task that created it and must answer it. The partition's next task
// only learns of it when the command is repeated.
func (c *checks) noteTest(partition int32, id deliveryID) {
	if !c.reference.deliveries[id].test {
		return
	}
	for _, e := range c.world.engines {
		for _, t := range e.tasks {
			if t.partition == partition && c.owns(t) {
				t.tests[id] = 0
			}
		}
	}
}

// mostTestTurns is how many turns a test may wait while its endpoint is disabled: one to decide to
// cancel it, and one to do so.
const mostTestTurns = 2

// checkTests checks after each turn that tests are answered if their endpoint was disabled or
// deleted before they were sent. They must not wait until the endpoint is enabled.
func (c *checks) checkTests(t *engineTask) {
	for id := range t.tests {
		d, e := c.reference.deliveries[id], c.reference.endpoints[id.endpoint]
		if _, under := t.under[id.event]; under || !d.firstTest() || !d.pending() {
			delete(t.tests, id)
			continue
		}
		if e.active || t.draining || !t.process.ours() || !c.owns(t) {
			continue
		}
		if t.tests[id]++; t.tests[id] > mostTestTurns {
			c.world.violate("G1: the test %s waits, and its endpoint %s is not active",
				id.event, id.endpoint)
		}
	}
}

// acknowledged checks that an answer to a client is in the journal (G1).
func (c *checks) acknowledged(cmd *issued, r domain.Result) {
	w := c.world
	if cmd == nil {
		w.violate("an answer to %s, which nobody asked", r.CommandID)
	}
	h, is := c.model.handled[r.CommandID]
	if !is {
		w.violate("G1: %s %s was acknowledged and is not in the journal", cmd.Body.CommandType(),
			r.CommandID)
	}
	if h.again {
		return // repeats are only guaranteed to be recognized for a day
	}
	told := encoded(r.CommandID, r.BodyHash, r.Answer)
	if !bytes.Equal(told, encoded(r.CommandID, h.BodyHash, h.Answer)) {
		w.violate("G1: the answer to %s %s is another than the journal's", cmd.Body.CommandType(),
			r.CommandID)
	}
	if !bytes.Equal(r.BodyHash, cmd.BodyHash) {
		w.violate("the answer to %s is of a later repeat with another body", r.CommandID)
	}
	if cmd.answer != nil && !bytes.Equal(encoded(r.CommandID, r.BodyHash, cmd.answer.Answer), told) {
		w.violate("G1: %s %s got two answers", cmd.Body.CommandType(), r.CommandID)
	}
	if r.Answer.Watch != nil {
		c.judged.acknowledged(*r.Answer.Watch)
	}
	if r.Answer.Rejection == nil && !c.effect(cmd.Body) {
		w.violate("G1: %s %s was acknowledged and has no effect", cmd.Body.CommandType(), r.CommandID)
	}
}

func encoded(commandID string, bodyHash []byte, a domain.Answer) []byte {
	r := domain.Result{CommandID: commandID, BodyHash: bodyHash, Answer: a}
	return schemas.EncodeResult(r).Value
}

// effect reports whether a created object exists, or a deleted one no longer does. For endpoints,
// the reference model checks more.
func (c *checks) effect(body domain.CommandBody) bool {
	switch b := body.(type) {
	case domain.CreateAccount, domain.CreateEndpoint, domain.CreateWatch:
		return c.model.version(body.Aggregate()) > 0
	case domain.DeleteWatch:
		return c.model.watches[b.WatchID].Deleted()
	default:
		return true
	}
}

// askedBy maps facts to the commands that lead to them. Other facts follow from matches and
// attempts, or are checked by the reference model.
var askedBy = map[string][]string{
	"EndpointEnabled":  {"EnableEndpoint"},
	"EndpointDeleted":  {"DeleteEndpoint"},
	"DeliveryRequeued": {"ReplayEndpoint", "ResendEvent"},
	"DeliveryMoved":    {"ResendEvent"},
	"DeliveryRecalled": {"ResendEvent"},
}

// causes checks that a client requested a fact that only commands lead to.
func (c *checks) causes(f domain.Fact) error {
	commands := askedBy[f.Body.FactType()]
	if b, is := f.Body.(domain.EndpointDisabled); is && b.Reason == domain.DisabledManual {
		commands = []string{"DisableEndpoint"}
	}
	cmd := c.world.clients.byID[f.Cause]
	if commands == nil || cmd != nil && cmd.Body.Aggregate() == f.Aggregate &&
		slices.Contains(commands, cmd.Body.CommandType()) {
		return nil
	}
	return fmt.Errorf("nobody asked for %s of %s (cause %q)", f.Body.FactType(), f.Aggregate, f.Cause)
}
