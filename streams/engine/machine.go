package engine

import (
	"fmt"
	"math"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

// machine is the handler of one task: it decides, folds, and starts attempts.
type machine struct {
	cfg      Config
	task     *streams.Task
	state    *state
	attempts *attempts
	facts    []domain.Fact // of the turn, for OnFact
}

func newMachine(cfg Config, ours func() bool, task *streams.Task) *machine {
	return &machine{cfg: cfg, task: task, state: newState(), attempts: newAttempts(cfg, ours, task)}
}

// Positions of the inputs in a turn.
const (
	inputCommands = iota
	inputMatches
)

// Fold folds a record of the journal during a restore.
func (m *machine) Fold(tx *streams.Txn, r streams.Record) error {
	f, err := schemas.DecodeFact(schemas.Read(r.Value, r))
	if err != nil {
		return fmt.Errorf("engine: record %d of the journal: %w", r.Offset, err)
	}
	if err := m.state.fold(tx, f); err != nil {
		return err
	}
	return m.state.flush(tx)
}

// Start publishes again the rows of what the latest facts changed: a crash may
// have kept the facts and torn the rows of the last transaction off.
func (m *machine) Start(t *streams.Turn, latest []streams.Record) error {
	touched := make(map[string]bool)
	for _, r := range latest {
		f, err := schemas.DecodeFact(schemas.Read(r.Value, r))
		if err != nil {
			return fmt.Errorf("engine: record %d of the journal: %w", r.Offset, err)
		}
		if changesRow(f.Body) && !touched[f.Aggregate] {
			touched[f.Aggregate] = true
			if err := m.publishRow(t, f.Aggregate); err != nil {
				return err
			}
		}
	}
	return nil
}

// changesRow tells whether a fact changes what the tables show.
func changesRow(body domain.FactBody) bool {
	switch body.(type) {
	case domain.DeliveryCreated, domain.AttemptMade, domain.DeliveryRequeued, domain.DeliveryCancelled:
		return false
	}
	return true
}

// Turn decides on commands, outcomes and matches, in this order: a flood of
// payments never delays a person.
func (m *machine) Turn(t *streams.Turn) error {
	m.facts = m.facts[:0]
	for _, r := range t.Inputs[inputCommands] {
		if err := m.command(t, r); err != nil {
			return fmt.Errorf("engine: command at offset %d: %w", r.Offset, err)
		}
	}
	for _, local := range t.Locals {
		if err := m.outcome(t, local.(outcome)); err != nil {
			return err
		}
	}
	for _, r := range t.Inputs[inputMatches] {
		if err := m.match(t, r); err != nil {
			return fmt.Errorf("engine: match at offset %d: %w", r.Offset, err)
		}
	}
	if err := m.forgetCommands(t); err != nil {
		return err
	}
	return m.state.flush(t.Tx)
}

// record appends facts to the journal and folds them.
func (m *machine) record(t *streams.Turn, aggregate, cause string, bodies ...domain.FactBody) error {
	version, err := m.state.version(t.Tx, aggregate)
	if err != nil {
		return err
	}
	for _, body := range bodies {
		version++
		f := domain.Fact{Aggregate: aggregate, Version: version, AtMillis: t.NowMillis, Cause: cause, Body: body}
		message := schemas.EncodeFact(f)
		t.Append(streams.NewRecord(schemas.TopicJournal, aggregate, message.Value, message.EachHeader))
		if err := m.state.fold(t.Tx, f); err != nil {
			return err
		}
		m.facts = append(m.facts, f)
	}
	return nil
}

// command answers a command. One that was answered before is answered alike, and
// its rows are published again; it changes nothing.
func (m *machine) command(t *streams.Turn, r streams.Record) error {
	c, err := schemas.DecodeCommand(schemas.Read(r.Value, r))
	if err != nil {
		return err
	}
	aggregate := c.Body.Aggregate()
	handled, err := load(t.Tx, spaceCommand, c.ID, schemas.UnmarshalHandled)
	if err != nil {
		return err
	}
	replayed := handled.CommandID != ""
	if !replayed {
		if handled, err = m.decide(t, c); err != nil {
			return err
		}
		if err := m.record(t, aggregate, c.ID, handled); err != nil {
			return err
		}
	}
	result := schemas.EncodeResult(domain.Result{CommandID: c.ID, BodyHash: handled.BodyHash, Answer: handled.Answer, Replayed: replayed})
	t.Append(streams.NewRecord(schemas.TopicResults, c.ID, result.Value, result.EachHeader))
	return m.publishRow(t, aggregate)
}

// decide records what a command changes and gives its answer.
func (m *machine) decide(t *streams.Turn, c domain.Command) (domain.CommandHandled, error) {
	handled := domain.CommandHandled{CommandID: c.ID, BodyHash: c.BodyHash}
	facts, rejection, err := m.decideBody(t, c)
	if err != nil {
		return handled, err
	}
	if rejection != nil {
		handled.Answer.Rejection = rejection
		return handled, nil
	}
	if err := m.record(t, c.Body.Aggregate(), c.ID, facts...); err != nil {
		return handled, err
	}
	handled.Answer, err = m.answer(t, c.Body.Aggregate())
	return handled, err
}

func (m *machine) decideBody(t *streams.Turn, c domain.Command) ([]domain.FactBody, *domain.Rejection, error) {
	switch body := c.Body.(type) {
	case domain.CreateAccount:
		a, err := m.state.account(t.Tx, body.AccountID)
		facts, rejection := domain.DecideCreateAccount(a, body, t.NowMillis)
		return facts, rejection, err
	case domain.CreateEndpoint:
		e, err := m.state.endpoint(t.Tx, body.EndpointID)
		facts, rejection := domain.DecideCreateEndpoint(e, body, t.NowMillis)
		return facts, rejection, err
	case domain.CreateWatch:
		w, err := m.state.watch(t.Tx, body.Watch.ID)
		facts, rejection := domain.DecideCreateWatch(w, body, t.NowMillis)
		return facts, rejection, err
	}
	return nil, nil, fmt.Errorf("engine: command %s is of type %T, which nothing decides", c.ID, c.Body)
}

// answer is the aggregate as it stands now.
func (m *machine) answer(t *streams.Turn, aggregate string) (domain.Answer, error) {
	switch prefixOf(aggregate) {
	case domain.AccountPrefix:
		a, err := m.state.account(t.Tx, aggregate)
		return domain.Answer{Account: &a}, err
	case domain.WatchPrefix:
		w, err := m.state.watch(t.Tx, aggregate)
		return domain.Answer{Watch: &w}, err
	default:
		e, err := m.state.endpoint(t.Tx, aggregate)
		return domain.Answer{Endpoint: &e}, err
	}
}

// publishRow writes the current row of an aggregate to its table. An aggregate
// that was never created has none.
func (m *machine) publishRow(t *streams.Turn, aggregate string) error {
	current, err := m.answer(t, aggregate)
	if err != nil {
		return err
	}
	var topic string
	var row schemas.Message
	switch {
	case current.Account != nil && current.Account.Exists():
		topic, row = schemas.TopicAccounts, schemas.EncodeAccount(*current.Account)
	case current.Endpoint != nil && current.Endpoint.Exists():
		topic, row = schemas.TopicEndpoints, schemas.EncodeEndpoint(*current.Endpoint)
	case current.Watch != nil && current.Watch.Exists():
		topic, row = schemas.TopicWatches, schemas.EncodeWatch(*current.Watch)
	default:
		return nil
	}
	t.Append(streams.NewRecord(topic, aggregate, row.Value, row.EachHeader))
	return nil
}

// match queues the event of a match.
func (m *machine) match(t *streams.Turn, r streams.Record) error {
	in, err := schemas.DecodePaymentMatched(schemas.Read(r.Value, r))
	if err != nil {
		return err
	}
	endpoint, err := m.state.endpoint(t.Tx, in.EndpointID)
	if err != nil {
		return err
	}
	delivery, err := m.state.delivery(t.Tx, in.Event.ID)
	if err != nil {
		return err
	}
	return m.record(t, in.EndpointID, "", domain.DecideMatch(endpoint, delivery, in)...)
}

// outcome records what an attempt brought back.
func (m *machine) outcome(t *streams.Turn, o outcome) error {
	delivery, err := m.state.delivery(t.Tx, o.attempt.EventID)
	if err != nil {
		return err
	}
	endpoint, err := m.state.endpoint(t.Tx, o.attempt.EndpointID)
	if err != nil {
		return err
	}
	policy := domain.Policy{Schedule: m.cfg.Schedule, DisableAfter: domain.DefaultDisableAfter}
	facts := domain.DecideAttempt(endpoint, delivery, o.attempt.Number, o.result, policy, t.NowMillis)
	m.attempts.ended(o, len(facts) > 0)
	return m.record(t, o.attempt.EndpointID, "", facts...)
}

// forgetCommands drops answers whose time has passed.
func (m *machine) forgetCommands(t *streams.Turn) error {
	for _, c := range m.attempts.forget {
		if err := t.Tx.Delete(keyOf(spaceCommand, c.ID)); err != nil {
			return err
		}
		if err := t.Tx.ClearTimer(c.Group, c.DueMillis, c.ID); err != nil {
			return err
		}
	}
	m.attempts.forget = m.attempts.forget[:0]
	return nil
}

// Settled tells of the turn's facts and starts the attempts that are due.
func (m *machine) Settled(nowMillis int64) (int64, error) {
	if m.cfg.OnFact != nil {
		for _, f := range m.facts {
			m.cfg.OnFact(f)
		}
	}
	m.facts = m.facts[:0]
	if m.attempts.draining {
		return math.MaxInt64, nil
	}
	tx := m.task.Store().Begin()
	defer tx.Discard()
	return m.attempts.start(tx, m.state, nowMillis)
}

// Drain starts no further attempts.
func (m *machine) Drain() { m.attempts.draining = true }

// Busy tells whether attempts are under way.
func (m *machine) Busy() bool { return len(m.attempts.inFlight) > 0 }
