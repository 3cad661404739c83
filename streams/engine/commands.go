package engine

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/task"
)

// commands handles the turn's commands. It leaves the rest for the next turn after too many facts,
// or when a command has recalled the delivery that it acts on.
func (m *machine) commands(t *task.Turn) error {
	for i, r := range t.Inputs[inputCommands] {
		if len(m.facts) >= commandFactsAtOnce {
			t.Inputs[inputCommands] = t.Inputs[inputCommands][:i]
			return nil
		}
		if err := m.command(t, r); err != nil {
			return fmt.Errorf("engine: command at offset %d: %w", r.Offset, err)
		}
		if m.recalled {
			m.recalled = false
			t.Inputs[inputCommands] = t.Inputs[inputCommands][:i]
			return nil
		}
	}
	return nil
}

// command handles a command. A repeated command only gets the same answer, and its rows are
// published again.
func (m *machine) command(t *task.Turn, r kafka.Record) error {
	c, err := intake.Command(r, m.cfg.PartitionOf)
	if err != nil {
		m.setAside(t, r, err)
		m.refuseUnread(t, r)
		return nil
	}
	handled, err := load(t.Batch, spaceCommand, c.ID, schemas.UnmarshalHandled)
	if err != nil {
		return err
	}
	if handled.CommandID != "" {
		m.publishResult(t, handled, true)
		m.rows[c.Body.Aggregate()] = true
		return nil
	}
	answer, answered, err := m.decide(t, c)
	if err != nil || !answered {
		return err
	}
	handled = domain.CommandHandled{CommandID: c.ID, BodyHash: c.BodyHash, Answer: answer}
	if answer.Rejection.Temporary() {
		m.publishResult(t, handled, false)
		return nil
	}
	return m.record(t, c.Body.Aggregate(), c.ID, handled)
}

// decide records a command's changes and returns its answer. The answer to a test follows its first
// attempt. Commands of the mailer get none.
func (m *machine) decide(
	t *task.Turn, c domain.Command,
) (answer domain.Answer, answered bool, err error) {
	switch body := c.Body.(type) {
	case domain.TestEndpoint:
		return m.decideTest(t, c, body)
	case domain.ReplayEndpoint:
		return m.decideReplay(t, c, body)
	case domain.ReplayEvents:
		return m.decideReplayEvents(t, c, body)
	case domain.ResendEvent:
		return m.decideResend(t, c, body)
	case domain.RecordMail:
		return domain.Answer{}, false, m.recordMail(t, c, body)
	default: // decided on its aggregate alone
		answer, err = m.decideAlone(t, c)
		return answer, err == nil, err
	}
}

func (m *machine) decideAlone(t *task.Turn, c domain.Command) (domain.Answer, error) {
	var facts []domain.FactBody
	var rejection *domain.Rejection
	var err error
	switch c.Kind() {
	case domain.KindAccount:
		facts, rejection, err = decideOn(t, c, m.state.account, domain.DecideAccount)
	case domain.KindEndpoint:
		facts, rejection, err = decideOn(t, c, m.state.endpoint, domain.DecideEndpoint)
	case domain.KindWatch:
		facts, rejection, err = decideOn(t, c, m.state.watch, domain.DecideWatch)
	case domain.KindNone:
		err = noAggregate(c.Body.Aggregate())
	}
	if err != nil || rejection != nil {
		return domain.Answer{Rejection: rejection}, err
	}
	if err := m.record(t, c.Body.Aggregate(), c.ID, facts...); err != nil {
		return domain.Answer{}, err
	}
	return m.answer(t, c)
}

func decideOn[S any](
	t *task.Turn, c domain.Command, load func(reader, string) (S, error),
	decide func(S, domain.Command, int64) ([]domain.FactBody, *domain.Rejection),
) ([]domain.FactBody, *domain.Rejection, error) {
	s, err := load(t.Batch, c.Body.Aggregate())
	if err != nil {
		return nil, nil, err
	}
	facts, rejection := decide(s, c, t.NowMillis)
	return facts, rejection, nil
}

// answer returns the object that the command changed, which is the key if it created one.
func (m *machine) answer(t *task.Turn, c domain.Command) (domain.Answer, error) {
	id := c.Body.Aggregate()
	switch c.Kind() {
	case domain.KindAccount:
		a, err := m.state.account(t.Batch, id)
		if err != nil {
			return domain.Answer{}, err
		}
		return answerOfAccount(a, c.Body)
	case domain.KindEndpoint:
		e, err := m.state.endpoint(t.Batch, id)
		return domain.Answer{Endpoint: &e}, err
	case domain.KindWatch:
		w, err := m.state.watch(t.Batch, id)
		return domain.AnswerWithWatch(w, c.Body), err
	case domain.KindNone:
	}
	return domain.Answer{}, noAggregate(id)
}

func answerOfAccount(a domain.Account, body domain.CommandBody) (domain.Answer, error) {
	var id string
	switch body := body.(type) {
	case domain.CreateKey:
		id = body.Key.ID
	case domain.RollKey:
		id = body.Key.ID
	default:
		return domain.Answer{Account: &a}, nil
	}
	key, found := a.Key(id)
	if !found {
		return domain.Answer{}, fmt.Errorf("engine: account %s lacks key %s that was just created",
			a.ID, id)
	}
	return domain.Answer{Key: &key, Version: a.Version}, nil
}

// decideTest queues a test.ping ahead of other deliveries. A command that is repeated before the
// first attempt finishes finds its delivery and keeps waiting.
func (m *machine) decideTest(
	t *task.Turn, c domain.Command, body domain.TestEndpoint,
) (domain.Answer, bool, error) {
	endpoint, err := m.state.endpoint(t.Batch, body.EndpointID)
	if err != nil {
		return domain.Answer{}, false, err
	}
	eventID := domain.TestEventID(c.ID)
	delivery, err := m.state.delivery(t.Batch, eventID)
	if err != nil {
		return domain.Answer{}, false, err
	}
	facts, rejection := domain.DecideTest(endpoint, delivery, c, t.NowMillis)
	if rejection != nil {
		return domain.Answer{Rejection: rejection}, true, nil
	}
	m.scheduler.urgent = append(m.scheduler.urgent, eventID)
	return domain.Answer{}, false, m.record(t, body.EndpointID, c.ID, facts...)
}

func (m *machine) decideReplay(
	t *task.Turn, c domain.Command, body domain.ReplayEndpoint,
) (domain.Answer, bool, error) {
	endpoint, err := m.state.endpoint(t.Batch, body.EndpointID)
	if err != nil {
		return domain.Answer{}, false, err
	}
	candidates, matched, err := m.state.replayableBetween(t.Batch, body.EndpointID, body.SinceMillis,
		body.UntilMillis)
	if err != nil {
		return domain.Answer{}, false, err
	}
	facts, result, rejection := domain.DecideReplay(endpoint, c.AccountID, body, candidates, matched,
		t.NowMillis)
	if rejection != nil {
		return domain.Answer{Rejection: rejection}, true, nil
	}
	return m.replayed(t, c, facts, result)
}

func (m *machine) decideReplayEvents(
	t *task.Turn, c domain.Command, body domain.ReplayEvents,
) (domain.Answer, bool, error) {
	endpoint, err := m.state.endpoint(t.Batch, body.EndpointID)
	if err != nil {
		return domain.Answer{}, false, err
	}
	chosen := make([]domain.Delivery, 0, len(body.EventIDs))
	for _, id := range body.EventIDs {
		d, err := m.state.delivery(t.Batch, id)
		if err != nil {
			return domain.Answer{}, false, err
		}
		chosen = append(chosen, d)
	}
	facts, result, rejection := domain.DecideReplayEvents(endpoint, c.AccountID, body, chosen,
		t.NowMillis)
	if rejection != nil {
		return domain.Answer{Rejection: rejection}, true, nil
	}
	return m.replayed(t, c, facts, result)
}

func (m *machine) replayed(
	t *task.Turn, c domain.Command, facts []domain.FactBody, result domain.ReplayResult,
) (domain.Answer, bool, error) {
	endpointID := c.Body.Aggregate()
	if err := m.record(t, endpointID, c.ID, facts...); err != nil {
		return domain.Answer{}, false, err
	}
	version, err := m.state.version(t.Batch, endpointID)
	return domain.Answer{Replay: &result, Version: version}, true, err
}

// decideResend queues one delivery again. If it is no longer stored, it is recalled first, and the
// command is decided in the next turn.
func (m *machine) decideResend(
	t *task.Turn, c domain.Command, body domain.ResendEvent,
) (domain.Answer, bool, error) {
	endpoint, err := m.state.endpoint(t.Batch, body.EndpointID)
	if err != nil {
		return domain.Answer{}, false, err
	}
	delivery, err := m.state.delivery(t.Batch, body.EventID)
	if err != nil {
		return domain.Answer{}, false, err
	}
	facts, rejection := domain.DecideRestoreDelivery(delivery, c.AccountID, body, m.upToDate(t, body))
	m.recalled = len(facts) > 0
	if !delivery.Exists() {
		delivery = body.Left()
	}
	if !m.recalled && rejection == nil {
		facts, rejection = domain.DecideResend(endpoint, delivery, c.AccountID, body,
			m.scheduler.inFlight.has(body.EventID), t.NowMillis)
	}
	if rejection != nil {
		return domain.Answer{Rejection: rejection}, true, nil
	}
	if err := m.record(t, body.EndpointID, c.ID, facts...); err != nil || m.recalled {
		return domain.Answer{}, false, err
	}
	return m.resent(t, body)
}

func (m *machine) resent(
	t *task.Turn, body domain.ResendEvent,
) (domain.Answer, bool, error) {
	delivery, err := m.state.delivery(t.Batch, body.EventID)
	if err != nil {
		return domain.Answer{}, false, err
	}
	if !delivery.Exists() {
		delivery = body.Left()
	}
	delivery = delivery.SeenFrom(body.EndpointID)
	version, err := m.state.version(t.Batch, body.EndpointID)
	return domain.Answer{Delivery: &delivery, Version: version}, true, err
}

// maxAnsweredID bounds the ids of unreadable commands that get an answer.
const maxAnsweredID = 128

func (m *machine) setAside(t *task.Turn, r kafka.Record, why error) {
	letter := intake.DeadLetter(r, why, t.NowMillis)
	t.Append(intake.DeadLetterRecord(letter))
	m.dead = append(m.dead, letter)
}

// refuseUnread answers the client of a command that was set aside. The answer is not stored, so
// that the command still takes effect if it is repeated to a program that can read it.
func (m *machine) refuseUnread(t *task.Turn, r kafka.Record) {
	id, bodyHash := schemas.CommandHead(schemas.Read(r.Value, r))
	if !strings.HasPrefix(id, domain.CommandPrefix) || len(id) > maxAnsweredID ||
		!utf8.ValidString(id) {
		return
	}
	m.publishResult(t,
		domain.CommandHandled{
			CommandID: id,
			BodyHash:  bodyHash,
			Answer: domain.Answer{Rejection: &domain.Rejection{
				Code: domain.CodeCommandUnreadable,
				Detail: "the engine could not read the command, so it has no effect. The operator can " +
					"find it in the topic dead-letters",
			}},
		}, false)
}

func (m *machine) reportDead() {
	for _, d := range m.dead {
		m.cfg.Logger.Error("a record was set aside; the partition continues (see lumenhook topics "+
			"cat dead-letters)",
			"topic", d.Topic, "partition", d.Partition, "offset", d.Offset, "error", d.Reason)
		if m.cfg.OnDeadLetter != nil {
			m.cfg.OnDeadLetter(d.Topic)
		}
	}
	m.dead = m.dead[:0]
}
