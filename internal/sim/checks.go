package sim

import (
	"bytes"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/ledger"
)

// checks hold the guarantees of DESIGN.md, section 6, while a run goes on. A
// violation panics.
type checks struct {
	world    *World
	model    *model
	started  map[attemptID][]*sent // attempts that reached a receiver
	made     map[attemptID]domain.AttemptResult
	matched  map[string][]match // by event, in the order of the topic
	awaiting map[uint32][]candidate
	expected map[string]string // event to endpoint (G2)
	cursor   uint32
	// disabling has the endpoints whose next fact must be that they are disabled.
	disabling map[string]domain.DisabledReason
}

type attemptID struct {
	deliveryID
	number int
}

type sent struct {
	result domain.AttemptResult
	ended  bool
}

type match struct {
	endpoint  string
	partition int32
	body      []byte
}

// candidate is a watch that was acknowledged before a ledger closed.
type candidate struct {
	watch    domain.Watch
	revision uint64
}

func newChecks(w *World) *checks {
	return &checks{
		world: w, model: newModel(), started: make(map[attemptID][]*sent), made: make(map[attemptID]domain.AttemptResult),
		matched: make(map[string][]match), awaiting: make(map[uint32][]candidate), expected: make(map[string]string),
		disabling: make(map[string]domain.DisabledReason),
	}
}

// stands takes note of records that are decided.
func (c *checks) stands(records []streams.Record) {
	for _, r := range records {
		switch r.Topic {
		case schemas.TopicJournal:
			c.fact(r)
		case schemas.TopicMatches:
			c.match(r)
		case schemas.TopicLedgers:
			c.ledgerRead(r)
		}
	}
}

func (c *checks) fact(r streams.Record) {
	w := c.world
	f, err := schemas.DecodeFact(schemas.Read(r.Value, r))
	if err != nil {
		w.violate("the journal cannot be read: %v", err)
	}
	if r.Partition != w.log.partitionOf(r.Topic, f.Aggregate) {
		w.violate("%s of %s is in partition %d", f.Body.FactType(), f.Aggregate, r.Partition)
	}
	before, delivery := c.model.endpoints[f.Aggregate], c.model.deliveries[deliveryID{f.Aggregate, eventOf(f.Body)}]
	if err := c.model.fold(f); err != nil {
		w.violate("%v", err)
	}
	if err := c.rules(f, before, delivery); err != nil {
		w.violate("G3: %v", err)
	}
	switch b := f.Body.(type) {
	case domain.DeliveryCreated:
		c.created(r.Partition, b)
	case domain.AttemptMade:
		c.attemptMade(f.Aggregate, b)
	case domain.EndpointEnabled:
		for _, e := range w.engines {
			for _, t := range e.tasks {
				delete(t.good, f.Aggregate)
			}
		}
	}
	w.tracef("fact %d of %s: %s %s", f.Version, short(f.Aggregate), f.Body.FactType(), short(eventOf(f.Body)))
}

// created holds that a delivery is of a match, and of the first one.
func (c *checks) created(partition int32, b domain.DeliveryCreated) {
	if b.Event.Type == domain.TestPing {
		return
	}
	for _, m := range c.matched[b.Event.ID] {
		if m.partition != partition {
			continue
		}
		if m.endpoint != b.EndpointID || !bytes.Equal(m.body, b.Event.Body) {
			c.world.violate("G2: the delivery of %s is not its first match", b.Event.ID)
		}
		return
	}
	c.world.violate("G2: the delivery of %s is of no match", b.Event.ID)
}

// attemptMade holds that what is recorded happened (G7).
func (c *checks) attemptMade(endpoint string, b domain.AttemptMade) {
	id := attemptID{deliveryID{endpoint, b.EventID}, b.Number}
	happened := slices.ContainsFunc(c.started[id], func(s *sent) bool { return s.ended && same(s.result, b.Result) })
	if !happened {
		c.world.violate("G7: attempt %d of %s is recorded and never ended so", b.Number, b.EventID)
	}
	c.made[id] = b.Result
	c.world.count("recorded attempts")
	c.world.count("deliveries " + string(b.State))
}

// same compares what the history keeps of two results.
func same(a, b domain.AttemptResult) bool {
	return a.SentAtMillis == b.SentAtMillis && a.DurationMillis == b.DurationMillis && a.StatusCode == b.StatusCode && a.Error == b.Error && bytes.Equal(a.ResponseBody, b.ResponseBody)
}

func (c *checks) match(r streams.Record) {
	in, err := schemas.DecodePaymentMatched(schemas.Read(r.Value, r))
	if err != nil {
		c.world.violate("a match cannot be read: %v", err)
	}
	c.matched[in.Event.ID] = append(c.matched[in.Event.ID], match{in.EndpointID, r.Partition, in.Event.Body})
}

// ledgerCloses notes which watches must see the ledger.
func (c *checks) ledgerCloses(l ledger.Ledger) {
	for _, id := range c.world.clients.watches {
		watch := c.model.watches[id]
		if !watch.Exists() || watch.Deleted() || c.world.clients.asked(id) {
			continue
		}
		if by := c.world.clients.byID[c.model.changedBy[id]]; by != nil && by.answer != nil {
			c.awaiting[l.Sequence] = append(c.awaiting[l.Sequence], candidate{watch, watch.Revision})
		}
	}
}

// ledgerRead holds that a ledger that was read has told what it had to (G2).
func (c *checks) ledgerRead(r streams.Record) {
	w := c.world
	read, err := schemas.DecodeLedgerRead(schemas.Read(r.Value, r))
	if err != nil {
		w.violate("the cursor cannot be read: %v", err)
	}
	if read.Sequence > c.cursor+1 {
		w.violate("G2: ledger %d is read after %d", read.Sequence, c.cursor)
	}
	c.cursor = max(c.cursor, read.Sequence)
	for _, candidate := range c.awaiting[read.Sequence] {
		if c.model.watches[candidate.watch.ID].Revision != candidate.revision || w.clients.asked(candidate.watch.ID) {
			continue // it was changed meanwhile
		}
		for _, p := range w.chain.ledgers[read.Sequence-1].Payments {
			if m, matches := domain.MatchPayment(candidate.watch, p); matches && p.AmountStroops > 0 {
				c.expect(m)
			}
		}
	}
	delete(c.awaiting, read.Sequence)
}

func (c *checks) expect(m domain.Match) {
	if len(c.matched[m.EventID]) == 0 {
		c.world.violate("G2: ledger %d is read, and payment %s was not matched by watch %s", m.Payment.Ledger, m.Payment.ID, m.Watch.ID)
	}
	c.expected[m.EventID] = m.Watch.EndpointID
	c.world.count("expected events")
}

// attemptStarts holds that an attempt may start, by what the journal says (G3).
func (c *checks) attemptStarts(t *task, a domain.Attempt) {
	w := c.world
	id := deliveryID{a.EndpointID, a.EventID}
	d, e := c.model.deliveries[id], c.model.endpoints[a.EndpointID]
	switch {
	case !t.process.works():
		w.violate("a process that is down starts an attempt")
	case !e.Sends():
		w.violate("G3: attempt %d of %s starts while its endpoint is %s", a.Number, a.EventID, e.Status)
	case !d.State.Pending():
		w.violate("G3: attempt %d of %s starts while the delivery is %s", a.Number, a.EventID, d.State)
	case a.Number != d.Attempts+1:
		w.violate("G7: attempt %d of %s starts after %d were recorded", a.Number, a.EventID, d.Attempts)
	case c.model.dueAt(d) > t.nowMillis && (d.TestCommandID == "" || d.Attempts > 0): // somebody waits for a test's first
		w.violate("G3: attempt %d of %s starts %d ms early", a.Number, a.EventID, c.model.dueAt(d)-t.nowMillis)
	case a.URL != e.URL:
		w.violate("attempt %d of %s goes to %s, which was changed to %s", a.Number, a.EventID, a.URL, e.URL)
	case !bytes.Equal(a.Body, c.model.bodies[id]):
		w.violate("attempt %d of %s carries another body", a.Number, a.EventID)
	case !slices.Equal(a.Secrets, secretsOf(e, t.nowMillis)):
		w.violate("attempt %d of %s is signed with %q", a.Number, a.EventID, a.Secrets)
	}
	if _, is := t.under[a.EventID]; is {
		w.violate("an attempt of %s starts while another is under way", a.EventID)
	}
	doubtful := !t.good[a.EndpointID]
	t.under[a.EventID] = underWay{a.EndpointID, doubtful}
	if len(t.under) > w.setup.inFlight {
		w.violate("%d attempts are under way", len(t.under))
	}
}

func secretsOf(e domain.Endpoint, nowMillis int64) []domain.Secret {
	plain := []domain.Secret{}
	for _, s := range e.ValidSecrets(nowMillis) {
		plain = append(plain, domain.Secret(s.Sealed))
	}
	return plain
}

// attemptEnds notes what a receiver saw.
func (c *checks) attemptEnds(f *flight) {
	id := attemptID{deliveryID{f.attempt.EndpointID, f.attempt.EventID}, f.attempt.Number}
	c.started[id] = append(c.started[id], &sent{result: f.result, ended: true})
	if !f.task.ended {
		f.task.outcomes = append(f.task.outcomes, f)
	}
}

// outcomesTaken holds that the outcomes of a turn that was committed are in the
// journal (G7).
func (c *checks) outcomesTaken(t *task) {
	for _, f := range t.taken {
		id := attemptID{deliveryID{f.attempt.EndpointID, f.attempt.EventID}, f.attempt.Number}
		if made, is := c.made[id]; !is || !same(made, f.result) {
			c.world.violate("G7: the outcome of attempt %d of %s was taken and is not in the journal", f.attempt.Number, f.attempt.EventID)
		}
	}
	t.taken = nil
}

// factTold holds that only what is committed is told of.
func (c *checks) factTold(f domain.Fact) {
	if f.Version > c.model.version(f.Aggregate) {
		c.world.violate("fact %d of %s is told of before it is committed", f.Version, f.Aggregate)
	}
}

// owns tells whether a task is the one that may write.
func (c *checks) owns(t *task) bool {
	return !t.ended && c.world.log.producers[txnID(t.partition)].epoch == t.epoch
}

// settled holds that nothing that is due is left alone while there is room for it
// (G6): a slow neighbour is no reason. It is counted in turns: after each one.
func (c *checks) settled(t *task, nowMillis int64) {
	w := c.world
	if !c.owns(t) || t.draining || !t.process.ours() || len(t.under) >= w.setup.inFlight {
		return
	}
	doubtful, sending := 0, make(map[string]bool)
	for _, u := range t.under {
		sending[u.endpoint] = true
		if u.doubtful {
			doubtful++
		}
	}
	crowded := doubtful >= max(1, w.setup.inFlight/2)
	for _, id := range c.model.created {
		d, e := c.model.deliveries[id], c.model.endpoints[id.endpoint]
		if w.log.partitionOf(schemas.TopicJournal, id.endpoint) != t.partition || !d.State.Pending() || !e.Sends() || e.RateLimitPerSecond > 0 ||
			c.model.dueAt(d) > nowMillis || sending[id.endpoint] || crowded && !t.good[id.endpoint] {
			continue
		}
		w.violate("G6: %s is due, its endpoint %s has no attempt under way, and only %d of %d places are taken", id.event, id.endpoint, len(t.under), w.setup.inFlight)
	}
}

// acknowledged holds that what a client was told is in the journal (G1).
func (c *checks) acknowledged(cmd *issued, r domain.Result) {
	w := c.world
	if cmd == nil {
		w.violate("an answer to %s, which nobody asked", r.CommandID)
	}
	h, is := c.model.handled[r.CommandID]
	if !is {
		w.violate("G1: %s %s was acknowledged and is not in the journal", cmd.Body.CommandType(), r.CommandID)
	}
	if h.again {
		return // repeats are promised to be noticed for a day
	}
	told := schemas.EncodeResult(domain.Result{CommandID: r.CommandID, BodyHash: r.BodyHash, Answer: r.Answer})
	kept := schemas.EncodeResult(domain.Result{CommandID: r.CommandID, BodyHash: h.BodyHash, Answer: h.Answer})
	if !bytes.Equal(told.Value, kept.Value) {
		w.violate("G1: the answer to %s %s is another than the journal's", cmd.Body.CommandType(), r.CommandID)
	}
	if !bytes.Equal(r.BodyHash, cmd.BodyHash) {
		w.violate("the answer to %s is of a later repeat with another body", r.CommandID)
	}
	if cmd.answer != nil && !bytes.Equal(schemas.EncodeResult(domain.Result{CommandID: r.CommandID, BodyHash: r.BodyHash, Answer: cmd.answer.Answer}).Value, told.Value) {
		w.violate("G1: %s %s got two answers", cmd.Body.CommandType(), r.CommandID)
	}
	if r.Answer.Rejection == nil && !c.effect(cmd.Body) {
		w.violate("G1: %s %s was acknowledged and has no effect", cmd.Body.CommandType(), r.CommandID)
	}
}

// effect tells whether what was created is there.
func (c *checks) effect(body domain.CommandBody) bool {
	m := c.model
	switch b := body.(type) {
	case domain.CreateAccount:
		return m.accounts[b.AccountID].Exists()
	case domain.CreateEndpoint:
		return m.endpoints[b.EndpointID].Exists()
	case domain.CreateWatch:
		return m.watches[b.Watch.ID].Exists()
	case domain.DeleteEndpoint:
		return m.endpoints[b.EndpointID].Deleted()
	case domain.DeleteWatch:
		return m.watches[b.WatchID].Deleted()
	case domain.TestEndpoint:
		return slices.ContainsFunc(m.created, func(id deliveryID) bool { return id.endpoint == b.EndpointID })
	}
	return true
}
