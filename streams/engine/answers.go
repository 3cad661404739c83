package engine

import (
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// groupCommands is the timer group of answers that will be forgotten.
const groupCommands = "commands"

// rememberCommands is how long an answer is kept. Repeats are promised to be recognized for
// 24 hours; the rest is a margin for clocks and long restores.
const rememberCommands = 48 * 3_600_000 // milliseconds

// expiry is when an answer is forgotten that was given at a time.
func expiry(atMillis int64) int64 { return atMillis + rememberCommands }

// remember stores the answer to a command, and when it expires.
func (s *state) remember(batch *store.Batch, f domain.Fact, body domain.CommandHandled) error {
	err := batch.SetTimer(groupCommands, expiry(f.AtMillis), body.CommandID)
	if err != nil {
		return err
	}
	return batch.Set(keyOf(spaceCommand, body.CommandID),
		schemas.MarshalHandled(f.Aggregate, f.AtMillis, body))
}

// expireAnswers deletes expired answers to commands. That is no fact: where a command was handled
// anew after its answer had been forgotten, folding the journal again sets the timers of both, and
// the first of them finds the second answer, which is kept for its own.
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
	// Set again: while one time of an id is claimed, the index passes over its others. Times between
	// two stay until a later start, which finds them without an answer, or with one of its own time.
	return b.SetTimer(due.Group, expires, due.ID)
}
