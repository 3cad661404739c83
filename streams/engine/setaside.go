package engine

import (
	"strings"
	"unicode/utf8"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/task"
)

// maxAnsweredID bounds the identifier of an unreadable command: no client waits under a
// longer one.
const maxAnsweredID = 128

// setAside writes a record that cannot be processed to the dead letters, reports it, and
// lets the partition continue.
func (m *machine) setAside(t *task.Turn, r kafka.Record, why error) {
	letter := intake.DeadLetter(r, why, t.NowMillis)
	t.Append(intake.DeadLetterRecord(letter))
	m.dead = append(m.dead, letter)
}

// refuseUnread answers the client that waits for a command that was set aside. The command
// is not remembered: repeated to a program that can read it, it takes effect.
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
				Detail: "the engine could not read the command and has set it aside; it has no effect. Its " +
					"operator finds it in the topic dead-letters",
			}},
		}, false)
}

// tellDead reports what the turn has set aside, once that is committed.
func (m *machine) tellDead() {
	for _, d := range m.dead {
		m.cfg.Logger.Error("a record was set aside; the partition goes on (lumenhook topics cat "+
			"dead-letters shows it)",
			"topic", d.Topic, "partition", d.Partition, "offset", d.Offset, "error", d.Reason)
		if m.cfg.OnDeadLetter != nil {
			m.cfg.OnDeadLetter(d.Topic)
		}
	}
	m.dead = m.dead[:0]
}
