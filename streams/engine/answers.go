package engine

import (
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

const groupCommands = "commands"

// rememberCommands is how long an answer is kept, in milliseconds. We promise to recognize repeats
// for 24 hours; the rest is a margin for clocks and long restores.
const rememberCommands = 48 * 3_600_000

func expiry(atMillis int64) int64 { return atMillis + rememberCommands }

func (s *state) remember(batch *store.Batch, f domain.Fact, body domain.CommandHandled) error {
	err := batch.SetTimer(groupCommands, expiry(f.AtMillis), body.CommandID)
	if err != nil {
		return err
	}
	return batch.Set(keyOf(spaceCommand, body.CommandID),
		schemas.MarshalHandled(f.Aggregate, f.AtMillis, body))
}

// expireAnswers deletes expired answers to commands. This writes no fact. If a command was handled
// again after its answer had expired, folding the journal sets a timer for each of the two answers.
// The first timer then finds the second answer and keeps it until its own time.
func (m *machine) expireAnswers(t *task.Turn) error {
	for _, c := range m.scheduler.popExpired() {
		if err := m.expireAnswer(t.Batch, c); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) expireAnswer(b *store.Batch, due store.Claimed) error {
	key := keyOf(spaceCommand, due.ID)
	value, err := b.Get(key)
	if err != nil {
		return err
	}
	_, atMillis, err := schemas.HandledFor(value)
	if err != nil {
		return err
	}
	if err := b.ClearTimer(due.Group, due.DueMillis, due.ID); err != nil {
		return err
	}
	expires := expiry(atMillis)
	if expires <= due.DueMillis {
		return b.Delete(key)
	}
	// Set it again, because while one timer of an id is claimed, the index skips the others. Those
	// between the first and the last stay until a later start, which finds no answer or one that
	// expires at their time.
	return b.SetTimer(due.Group, expires, due.ID)
}
