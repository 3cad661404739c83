package sim

import (
	"bytes"
	"maps"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// A restore goes back in time, and the checkers do the same: they return to the facts in the
// backup. External events are not undone: attempts that receivers got, mails that a server
// accepted, ledgers, and records written to the log. Answers to clients about later facts no longer
// count.

type timeline struct {
	model     *model
	reference *referenceModel
	notices   map[string]*referenceNotice
	carried   map[string]int
	reread    map[string]uint32
}

type observed struct {
	ids  map[string]bool
	logs int // number of former logs included
}

// rebase stores the state onto which the following facts are folded.
func (c *checks) rebase() {
	if len(c.world.setup.disasters) == 0 {
		return
	}
	c.committed = nil
	c.base = timeline{c.model.clone(), c.reference.clone(), cloneNotices(c.mails.notices),
		maps.Clone(c.carried), maps.Clone(c.reread)}
}

func (m *model) clone() *model {
	return &model{
		accounts:   maps.Clone(m.accounts),
		endpoints:  maps.Clone(m.endpoints),
		watches:    maps.Clone(m.watches),
		deliveries: maps.Clone(m.deliveries),
		created:    slices.Clone(m.created),
		endpointOf: maps.Clone(m.endpointOf),
		bodies:     maps.Clone(m.bodies),
		settled:    slices.Clone(m.settled),
		notices:    maps.Clone(m.notices),
		handled:    maps.Clone(m.handled),
		changedBy:  maps.Clone(m.changedBy),
		taken:      slices.Clone(m.taken),
		lines:      maps.Clone(m.lines),
		facts:      m.facts,
		wasMoved:   m.wasMoved,
		out:        maps.Clone(m.out),
		rings:      maps.Clone(m.rings),
	}
}

func (m *referenceModel) clone() *referenceModel {
	clone := newReferenceModel(m.world)
	for id, e := range m.endpoints {
		copied := *e
		copied.secrets, copied.events = slices.Clone(e.secrets), slices.Clone(e.events)
		copied.lines = maps.Clone(e.lines)
		clone.endpoints[id] = &copied
	}
	for id, d := range m.deliveries {
		copied := *d
		clone.deliveries[id] = &copied
	}
	for id, list := range m.requeued {
		clone.requeued[id] = slices.Clone(list)
	}
	for id, list := range m.replays {
		clone.replays[id] = slices.Clone(list)
	}
	clone.latest = maps.Clone(m.latest)
	return clone
}

func cloneNotices(notices map[string]*referenceNotice) map[string]*referenceNotice {
	clone := make(map[string]*referenceNotice)
	for id, n := range notices {
		copied := *n
		copied.recorded = maps.Clone(n.recorded)
		clone[id] = &copied
	}
	return clone
}

// goBack resets the checkers to the contents of a backup, from which a new log was created. It
// checks that the backup includes everything that was committed when it was started.
func (c *checks) goBack(b *backup, to *Log) {
	c.model, c.reference = c.base.model, c.base.reference
	c.mails.notices, c.carried = c.base.notices, c.base.carried
	c.reread = c.base.reread
	for i, r := range c.committed {
		switch {
		case r.Offset < b.about.Journal[r.Partition]:
			c.refold(r)
		case i < b.facts:
			c.world.violate("G1: a fact was committed before the backup was begun, and the backup has the "+
				"journal of partition %d up to %d, not up to it: %d", r.Partition,
				b.about.Journal[r.Partition], r.Offset)
		}
	}
	c.allObserved()
	c.cursor = 0
	if b.about.Cursor != nil {
		c.cursor = b.about.Cursor.Ledger
	}
	c.goBackToMatches(b, to)
	c.goBackToPayments(to)
	c.judged.goBack(c.model, c.cursor, to)
	c.world.clients.goBack(c.model)
}

func (c *checks) refold(r kafka.Record) {
	f := decode(r, schemas.DecodeFact)
	before := c.model.watches[f.Aggregate]
	if err := c.model.fold(f); err != nil {
		c.world.violate("a backup: %v", err)
	}
	switch body := f.Body.(type) {
	case domain.BackfillRequested:
		c.reread[f.Aggregate] = 0
	case domain.RangeCovered:
		if body.From != 0 && body.Part >= before.Backfill.Request {
			c.reread[f.Aggregate] += body.To - body.From + 1
		}
	default: // other facts don't start or advance a backfill
	}
	err := c.reference.apply(f)
	if handled, is := f.Body.(domain.CommandHandled); is {
		c.carried[handled.CommandID]++
		err = nil // the answer may say that something was in flight, which is no longer true
	}
	if err != nil {
		c.world.violate("G3, by the reference model of a backup: %v", err)
	}
	if err := c.mails.apply(c.world, f); err != nil {
		c.world.violate("mail, in a backup: %v", err)
	}
}

// goBackToMatches keeps the matches that the new log has, and those with a delivery. Matches that
// were appended before the backup must not be lost, unless their ledger is read again. Matches that
// have not been taken yet need their endpoint, without which they would be cancelled.
func (c *checks) goBackToMatches(b *backup, to *Log) {
	w, there := c.world, make(map[string]bool)
	for _, r := range to.copiedRecords(schemas.TopicMatches) {
		if isDamaged(r) {
			continue
		}
		in := decode(r, schemas.DecodePaymentMatched)
		there[in.Event.ID] = true
		if _, is := c.model.endpoints[in.EndpointID]; !is && in.Moved.Moves == 0 &&
			!in.Event.Type.TellsOfEndpoint() {
			w.violate("G2: a backup has a match for %s, and not that endpoint", in.EndpointID)
		}
	}
	for event := range c.model.endpointOf {
		there[event] = true
	}
	for _, p := range w.chain.payments(1, c.cursor) {
		for _, watch := range w.clients.watches {
			if event := domain.EventID(watch, p.ID); b.matched[event] && !there[event] {
				w.violate("G2: event %s of ledger %d was matched before the backup was begun, which has "+
					"the ledgers up to %d and not the event", event, p.Ledger, c.cursor)
			}
		}
	}
	maps.DeleteFunc(c.matched, func(event string, _ []match) bool { return !there[event] })
	clear(c.told) // new notifications are checked
}

// allObserved checks that no payment was observed twice since the last disaster.
func (c *checks) allObserved() {
	seen := maps.Clone(c.since.ids)
	if seen == nil {
		seen = make(map[string]bool)
	}
	for _, log := range c.world.former[c.since.logs:] {
		c.checkObserved(log.Log, seen)
	}
	c.checkObserved(c.world.log, seen)
}

// goBackToPayments keeps the payments of ledgers that are not read again, and those in the new log.
func (c *checks) goBackToPayments(to *Log) {
	there := make(map[string]bool)
	for _, r := range to.copiedRecords(schemas.TopicPayments) {
		there[decode(r, schemas.DecodePaymentObserved).Payment.ID] = true
	}
	for _, p := range c.world.chain.payments(1, c.cursor) {
		there[p.ID] = there[p.ID] || c.observed[p.ID]
	}
	maps.DeleteFunc(c.observed, func(id string, _ bool) bool { return !there[id] })
	c.since = observed{maps.Clone(c.observed), len(c.world.former) + 1}
}

// goBack keeps the settings of existing watches, what clients know about them, and which ledgers
// were read.
func (j *judged) goBack(m *model, cursor uint32, to *Log) {
	for id, settings := range j.settings {
		j.settings[id] = slices.DeleteFunc(settings, func(w domain.Watch) bool {
			return w.Revision > m.watches[id].Revision
		})
	}
	clamp := func(known map[string]int) {
		for id, i := range known {
			if last := len(j.settings[id]) - 1; last < 0 {
				delete(known, id)
			} else {
				known[id] = min(i, last)
			}
		}
	}
	clamp(j.known)
	for sequence, least := range j.least {
		clamp(least)
		if sequence > cursor {
			delete(j.read, sequence)
		}
	}
	admitted := make(map[string]bool)
	for _, r := range to.copiedRecords(schemas.TopicCommands) {
		cmd, err := schemas.DecodeCommand(schemas.Read(r.Value, r))
		if body, is := cmd.Body.(domain.RecordCoverage); err == nil && is && body.LiveSince != 0 {
			admitted[body.WatchID] = true
		}
	}
	maps.DeleteFunc(j.since, func(id string, _ uint32) bool {
		return m.watches[id].LiveSince == 0 && !admitted[id]
	})
	clear(j.admitted)
	clear(j.claimed)
	for id, w := range m.watches {
		if w.LiveSince != 0 {
			j.since[id] = w.LiveSince
		}
	}
	maps.DeleteFunc(j.gone, func(id string, _ bool) bool { return !m.endpoints[id].Deleted() })
}

func (c *clients) goBack(m *model) {
	for id, cmd := range c.byID {
		if cmd.answer != nil && !m.tells(id, cmd.answer.Answer) {
			cmd.answer, cmd.lost = nil, true
		}
	}
}

// tells reports whether a command has this answer. A command that was handled again, a day later,
// has a new one.
func (m *model) tells(id string, a domain.Answer) bool {
	h, is := m.handled[id]
	return is && bytes.Equal(encoded(id, nil, h.Answer), encoded(id, nil, a))
}

// askForTheLost makes clients repeat most of the lost commands, and always those that they need to
// continue.
func (c *clients) askForTheLost() {
	w := c.world
	for _, cmd := range c.commands {
		if !cmd.lost {
			continue
		}
		cmd.lost = false
		_, needed := cmd.Body.(domain.CreateAccount)
		w.count("acknowledged commands that a disaster took")
		if (needed || w.chance(0.7)) && !c.tooOld(cmd) {
			c.ask(cmd)
		}
	}
}
