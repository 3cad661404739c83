package engine

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

type machine struct {
	cfg       Config
	state     *state
	scheduler *scheduler
	inherited []domain.Attempt // from previous tasks, until Start
	facts     []domain.Fact    // of the turn; they bound its commands
	dead      []schemas.DeadLetter
	rows      map[string]bool // whose rows the turn publishes
	recalled  bool            // the current command waits for the next turn
	tabled    bool            // all rows of this state are published
}

// NewHandler returns the handler of one partition. inherited are the attempts that its previous
// tasks in this process have in flight ([Flights.Inherit]).
func NewHandler(cfg Config, inherited []domain.Attempt) task.Handler[Effect, Outcome] {
	s := newState(cfg.remembered())
	return &machine{
		cfg:       cfg,
		state:     s,
		scheduler: newScheduler(cfg, s),
		inherited: inherited,
		rows:      make(map[string]bool),
	}
}

// Indexes of [Inputs].
const (
	inputCommands = iota
	inputMatches
)

// Inputs returns the input topics of an engine, in order.
func Inputs() []string { return []string{schemas.TopicCommands, schemas.TopicMatches} }

// Bounds of a turn, whose facts stay below task.TurnFacts: each outcome leads to at most three,
// each match to two, each cancellation to two, each mail to one, and the last command to one per
// delivery of a replay.
const (
	// After commandFactsAtOnce facts, a turn leaves the remaining commands for the next one.
	commandFactsAtOnce = task.TurnInputs
	cancelAtOnce       = 256
	expireAtOnce       = 256
)

// Does not compile if a turn may have more than task.TurnFacts. The last command may add two.
const _ = uint(task.TurnFacts - (commandFactsAtOnce + domain.MaxReplay + 2) -
	3*task.TurnInputs - 2*task.TurnInputs - 2*cancelAtOnce - ordersAtOnce)

// Fold folds a journal record.
func (m *machine) Fold(batch *store.Batch, r kafka.Record) error {
	f, err := readFact(r)
	if err != nil {
		return err
	}
	_, err = m.state.fold(batch, f)
	return err
}

// readFact decodes a journal record. An unreadable record stops its partition, because folding
// without it would give a different state.
func readFact(r kafka.Record) (domain.Fact, error) {
	f, err := schemas.DecodeFact(schemas.Read(r.Value, r))
	if err != nil {
		return f, fmt.Errorf("engine: record %d of partition %d of the journal cannot be read, and its "+
			"partition cannot continue without it: run the version of lumenhook that wrote it, or restore "+
			"the topic from a backup if it is damaged: %w",
			r.Offset, r.Partition, err)
	}
	return f, nil
}

// Flush writes the state's buffered changes.
func (m *machine) Flush(batch *store.Batch) error { return m.state.flush(batch) }

// Start takes over the attempts of previous tasks and counts the unsettled notices.
func (m *machine) Start(t *task.Turn) error {
	if err := m.scheduler.inherit(t, m.inherited); err != nil {
		return err
	}
	m.inherited = nil
	if err := m.countNotices(t); err != nil {
		return err
	}
	return m.publishRows(t)
}

const rowsAtOnce = 256

// tableRows publishes the rows of a rebuilt state, rowsAtOnce in each turn, because the published
// ones may come from a state that differed from the journal.
func (m *machine) tableRows(t *task.Turn) error {
	if m.tabled {
		return nil
	}
	mark := []byte{spaceTabled}
	from, err := t.Batch.Get(mark)
	if err != nil {
		return err
	}
	if from == nil {
		from = []byte{spaceAccount}
	}
	end, found := []byte{spaceDelivery}, 0 // accounts, endpoints and watches have lower keys
	err = t.Batch.Scan(from, end, func(key, _ []byte) (bool, error) {
		if found++; found > rowsAtOnce {
			end = bytes.Clone(key)
			return false, nil
		}
		m.rows[string(key[1:])] = true
		return true, nil
	})
	m.tabled = found <= rowsAtOnce
	if err != nil || bytes.Equal(from, end) {
		return err
	}
	return t.Batch.Set(mark, end)
}

// mayChangeRow reports whether a fact may change a row. An attempt that settles its
// delivery may, because endpoints count consecutive failures.
func mayChangeRow(body domain.FactBody) bool {
	switch b := body.(type) {
	case domain.DeliveryCreated, domain.DeliveryRecalled, domain.DeliveryRequeued,
		domain.DeliveryCancelled, domain.DeliveryMoved, domain.MailOrdered, domain.MailAttempted,
		domain.CommandHandled:
		return false
	case domain.AttemptMade:
		return b.State == domain.StateFailed || b.State == domain.StateDelivered
	default: // publishing an unchanged row is harmless
		return true
	}
}

func changesRow(body domain.FactBody, c change) bool {
	if _, is := body.(domain.AttemptMade); is {
		return c.before.ConsecutiveFailures != c.after.ConsecutiveFailures
	}
	return mayChangeRow(body)
}

// Turn processes commands, outcomes, due timers and matches, in this order, so that a flood of
// payments never delays a user's command.
func (m *machine) Turn(t *task.Turn, outcomes []Outcome) error {
	m.facts, m.dead = m.facts[:0], m.dead[:0]
	if err := m.commands(t); err != nil {
		return err
	}
	for _, o := range outcomes {
		if err := m.outcome(t, o); err != nil {
			return err
		}
	}
	for _, due := range []func(*task.Turn) error{
		m.cancelDeliveries, m.expireAnswers, m.orderMails,
	} {
		if err := due(t); err != nil {
			return err
		}
	}
	for _, r := range t.Inputs[inputMatches] {
		if err := m.match(t, r); err != nil {
			return fmt.Errorf("engine: match at offset %d: %w", r.Offset, err)
		}
	}
	if err := m.tableRows(t); err != nil {
		return err
	}
	return m.publishRows(t)
}

func (m *machine) record(
	t *task.Turn, aggregate, cause string, bodies ...domain.FactBody,
) error {
	if len(bodies) == 0 {
		return nil
	}
	version, err := m.state.version(t.Batch, aggregate)
	if err != nil {
		return err
	}
	for _, body := range bodies {
		version++
		body = domain.Numbered(body, m.handOverNumber(t))
		f := domain.Fact{
			Aggregate: aggregate,
			Version:   version,
			AtMillis:  t.NowMillis,
			Cause:     cause,
			Body:      body,
		}
		message := schemas.EncodeFact(f)
		t.Append(kafka.NewRecord(schemas.TopicJournal, aggregate, message.Value, message.EachHeader))
		if err := m.foldRecorded(t, f); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) foldRecorded(t *task.Turn, f domain.Fact) error {
	c, err := m.state.fold(t.Batch, f)
	if err != nil {
		return err
	}
	if changesRow(f.Body, c) {
		m.rows[f.Aggregate] = true
	}
	switch body := f.Body.(type) {
	case domain.CommandHandled:
		m.publishResult(t, body, false)
	case domain.DeliveryMoved:
		if err := m.handOver(t, f.Aggregate, body); err != nil {
			return err
		}
	case domain.MailOrdered:
		if err := m.order(t, c.notice[1]); err != nil {
			return err
		}
	default:
	}
	if err := m.notify(t, f); err != nil {
		return err
	}
	m.scheduler.noteChange(c.before, c.after)
	m.scheduler.mails.noteChange(c.notice[0], c.notice[1])
	m.facts = append(m.facts, f)
	return nil
}

func (m *machine) publishResult(t *task.Turn, handled domain.CommandHandled, replayed bool) {
	result := schemas.EncodeResult(domain.Result{
		CommandID: handled.CommandID,
		BodyHash:  handled.BodyHash,
		Answer:    handled.Answer,
		Replayed:  replayed,
	})
	t.Append(kafka.NewRecord(
		schemas.TopicResults, handled.CommandID, result.Value, result.EachHeader))
}

// publishRows writes the current rows of the changed aggregates.
func (m *machine) publishRows(t *task.Turn) error {
	// Sorted, so that a turn is deterministic.
	for _, aggregate := range slices.Sorted(maps.Keys(m.rows)) {
		topic, row, exists, err := m.row(t, aggregate)
		if err != nil {
			return err
		}
		if exists {
			t.Append(kafka.NewRecord(topic, aggregate, row.Value, row.EachHeader))
		}
	}
	clear(m.rows)
	return nil
}

func (m *machine) row(
	t *task.Turn, id string,
) (topic string, row schemas.Message, exists bool, err error) {
	switch domain.KindOf(id) {
	case domain.KindAccount:
		a, err := m.state.account(t.Batch, id)
		return schemas.TopicAccounts, schemas.EncodeAccount(a), a.Exists(), err
	case domain.KindEndpoint:
		e, err := m.state.endpoint(t.Batch, id)
		return schemas.TopicEndpoints, schemas.EncodeEndpoint(e), e.Exists(), err
	case domain.KindWatch:
		w, err := m.state.watch(t.Batch, id)
		return schemas.TopicWatches, schemas.EncodeWatch(w), w.Exists(), err
	case domain.KindNone:
	}
	return "", schemas.Message{}, false, noAggregate(id)
}

func (m *machine) match(t *task.Turn, r kafka.Record) error {
	in, err := intake.Match(r, m.cfg.PartitionOf)
	if err != nil {
		m.setAside(t, r, err)
		return nil
	}
	if known, err := m.state.knowsHandOver(t.Batch, in.Moved); err != nil || known {
		return err
	}
	endpoint, err := m.state.endpoint(t.Batch, in.EndpointID)
	if err != nil {
		return err
	}
	delivery, err := m.state.delivery(t.Batch, in.Event.ID)
	if err != nil {
		return err
	}
	return m.record(t, in.EndpointID, "", domain.DecideMatch(endpoint, delivery, in)...)
}

// outcome records the result of an attempt. If it is a test's first, it also answers the command.
func (m *machine) outcome(t *task.Turn, o Outcome) error {
	delivery, err := m.state.delivery(t.Batch, o.Attempt.EventID)
	if err != nil {
		return err
	}
	endpoint, err := m.state.endpoint(t.Batch, o.Attempt.EndpointID)
	if err != nil {
		return err
	}
	if delivery.EndpointID != o.Attempt.EndpointID {
		delivery = domain.Delivery{} // the event has moved to another endpoint
	}
	facts := domain.DecideAttempt(endpoint, delivery, o.Attempt.Number, o.Result, m.cfg.Policy,
		t.NowMillis)
	m.scheduler.end(t.Timers, o, len(facts) > 0)
	for _, body := range facts {
		if made, ok := body.(domain.AttemptMade); ok {
			if handled, answers := domain.TestAnswered(delivery, made); answers {
				facts = append(facts, handled)
			}
		}
	}
	return m.record(t, o.Attempt.EndpointID, "", facts...)
}

// cancelDeliveries cancels deliveries whose endpoint was deleted, and unsent tests whose endpoint
// is disabled.
func (m *machine) cancelDeliveries(t *task.Turn) error {
	for _, c := range m.scheduler.popCancels() {
		delivery, err := m.state.delivery(t.Batch, c.ID)
		if err != nil {
			return err
		}
		endpoint, err := m.state.endpoint(t.Batch, delivery.EndpointID)
		if err != nil {
			return err
		}
		if endpoint.Sends() {
			t.Timers.Release(c)
			m.scheduler.urgent = append(m.scheduler.urgent, c.ID)
			continue
		}
		facts := domain.DecideCancel(endpoint, delivery)
		if err := m.record(t, delivery.EndpointID, "", facts...); err != nil {
			return err
		}
	}
	return nil
}

// AfterCommit reports the turn's facts and returns the attempts that are due.
func (m *machine) AfterCommit(a task.After) ([]Effect, int64, error) {
	for _, f := range m.facts {
		m.reportMailAbandoned(f)
		if m.cfg.OnFact != nil {
			m.cfg.OnFact(f)
		}
	}
	m.reportDead()
	effects, wakeMillis, err := m.scheduler.start(a)
	if !m.tabled && !m.scheduler.draining {
		wakeMillis = min(wakeMillis, a.NowMillis)
	}
	return effects, wakeMillis, err
}

// Drain prevents further attempts.
func (m *machine) Drain() { m.scheduler.draining = true }

// Busy reports whether attempts are in flight.
func (m *machine) Busy() bool { return m.scheduler.inFlight.len() > 0 }

// Unhurried reports whether no delivery is waiting for an attempt to finish.
func (m *machine) Unhurried() bool {
	s := m.scheduler
	return s.free() > 0 && s.waitlisted.len() == 0 && s.inFlight.blocking == 0
}
