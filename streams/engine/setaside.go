package engine

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

// maxInputBytes bounds the records that are taken in. What follows from one, with
// all that its aggregate holds, then fits into records of the journal, which are
// at most 1 MiB.
const maxInputBytes = 256 << 10

// maxAnsweredID bounds the identifier of a command that was set aside: nobody
// waits under a longer one.
const maxAnsweredID = 128

// readCommand reads a command, and reports why one cannot be taken in.
func (m *machine) readCommand(r streams.Record) (domain.Command, error) {
	if err := m.acceptable(r); err != nil {
		return domain.Command{}, err
	}
	c, err := schemas.DecodeCommand(schemas.Read(r.Value, r))
	if err != nil {
		return c, err
	}
	return c, errors.Join(m.belongs(r, c.Body.Aggregate()), c.WellFormed())
}

// readMatch reads a match, and reports why one cannot be taken in.
func (m *machine) readMatch(r streams.Record) (domain.MatchInput, error) {
	if err := m.acceptable(r); err != nil {
		return domain.MatchInput{}, err
	}
	in, err := schemas.DecodePaymentMatched(schemas.Read(r.Value, r))
	if err != nil {
		return in, err
	}
	return in, errors.Join(m.belongs(r, in.EndpointID), in.WellFormed())
}

func (m *machine) acceptable(r streams.Record) error {
	switch n := len(r.Value); {
	case n == 0:
		return errors.New("engine: the record has no value")
	case n > maxInputBytes:
		return fmt.Errorf("engine: the record has %d bytes, more than the %d that are taken in", n, maxInputBytes)
	}
	return nil
}

// belongs holds that a record is about the aggregate of its key, and that this
// partition is that aggregate's: an aggregate in two partitions has two histories.
func (m *machine) belongs(r streams.Record, aggregate string) error {
	if string(r.Key) != aggregate {
		return fmt.Errorf("engine: the record's key is %.80q and it concerns %.80q", r.Key, aggregate)
	}
	if m.cfg.PartitionOf == nil {
		return nil
	}
	if p := m.cfg.PartitionOf(aggregate); p != r.Partition {
		return fmt.Errorf("engine: the record stands in partition %d, and %.80q belongs in %d", r.Partition, aggregate, p)
	}
	return nil
}

// setAside puts a record that cannot be taken in among the dead letters, tells of
// it, and lets the partition go on.
func (m *machine) setAside(t *streams.Turn, r streams.Record, why error) {
	letter := schemas.DeadLetter{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Reason: why.Error(), SetAsideAtMillis: t.NowMillis,
		Key: r.Key, Value: r.Value, ValueBytes: len(r.Value),
	}
	for _, h := range r.Headers {
		letter.Headers = append(letter.Headers, [2]string{h.Key, string(h.Value)})
	}
	message := schemas.EncodeDeadLetter(letter)
	key := fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset)
	t.Append(streams.NewRecord(schemas.TopicDeadLetters, key, message.Value, message.EachHeader))
	m.dead = append(m.dead, letter)
}

// refuseUnread answers whoever waits for a command that was set aside. The
// command is not remembered: asked again of a program that can read it, it takes
// effect.
func (m *machine) refuseUnread(t *streams.Turn, r streams.Record) {
	id, bodyHash := schemas.CommandHead(schemas.Read(r.Value, r))
	if !strings.HasPrefix(id, domain.CommandPrefix) || len(id) > maxAnsweredID || !utf8.ValidString(id) {
		return
	}
	m.publishResult(t, domain.CommandHandled{CommandID: id, BodyHash: bodyHash, Answer: domain.Answer{Rejection: &domain.Rejection{
		Code:   domain.CodeCommandUnreadable,
		Detail: "the engine could not read the command and has set it aside; it has no effect. Its operator finds it in the topic dead-letters",
	}}}, false)
}

// tellDead tells of what the turn has set aside, once that is committed.
func (m *machine) tellDead() {
	for _, d := range m.dead {
		m.cfg.Logger.Error("a record was set aside; the partition goes on (lumenhook topics cat dead-letters shows it)",
			"topic", d.Topic, "partition", d.Partition, "offset", d.Offset, "error", d.Reason)
		if m.cfg.OnDeadLetter != nil {
			m.cfg.OnDeadLetter(d.Topic)
		}
	}
	m.dead = m.dead[:0]
}
