package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// rememberedSettled is how many settled deliveries a partition remembers. Resending a forgotten
// delivery reads it from the history, which may be this many records behind ([machine.upToDate]).
// Changing the number requires another StateFormat: a state that remembered fewer lacks deliveries
// that this program needs.
const rememberedSettled = 16_384

// Does not compile if a turn could forget a delivery that it has settled itself.
const _ = uint(rememberedSettled - task.TurnFacts)

// ring remembers the most recently settled deliveries, in the order of the facts that settled them.
// It is a function of the journal.
//
//	0x19 | number, 8 bytes, big endian -> version, 8 bytes | moves, 1 byte | event id
//	0x1a -> numbers of the oldest entry and of the next one
//
// An entry is outdated if the delivery has another version or other moves: it has settled again, or
// is pending again. Entries that this process added are also in memory.
type ring struct {
	size         uint64
	oldest, next uint64
	loaded       bool
	changed      bool
	from         uint64            // the first number that this process added
	events       []string          // of the remaining entries from there
	latest       map[string]uint64 // the current entry by event
}

const entryHead = 9

var ringKey = []byte{spaceRing}

func entryKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{spaceSettled}, number)
}

func (r *ring) load(from reader) error {
	if r.loaded {
		return nil
	}
	value, err := from.Get(ringKey)
	if err != nil {
		return err
	}
	if len(value) == 16 {
		r.oldest, r.next = binary.BigEndian.Uint64(value), binary.BigEndian.Uint64(value[8:])
	}
	r.loaded, r.from, r.latest = true, r.next, make(map[string]uint64)
	return nil
}

func (r *ring) flush(batch *store.Batch) error {
	if !r.changed {
		return nil
	}
	r.changed = false
	value := binary.BigEndian.AppendUint64(nil, r.oldest)
	return batch.Set(ringKey, binary.BigEndian.AppendUint64(value, r.next))
}

// add adds a delivery, and reports whether the oldest entry must be dropped.
func (r *ring) add(batch *store.Batch, d domain.Delivery) (full bool, err error) {
	if err := r.load(batch); err != nil {
		return false, err
	}
	entry := binary.BigEndian.AppendUint64(nil, d.Version)
	entry = append(append(entry, byte(d.Moves)), d.EventID...)
	if err := batch.Set(entryKey(r.next), entry); err != nil {
		return false, err
	}
	r.events = append(r.events, d.EventID)
	r.latest[d.EventID] = r.next
	r.next, r.changed = r.next+1, true
	return r.next-r.oldest > r.size, nil
}

// requeued notes that a delivery is pending again, or that its event has a new one.
func (r *ring) requeued(eventID string) { delete(r.latest, eventID) }

// drop removes the oldest entry, and returns the event whose delivery is to be forgotten, if any.
func (r *ring) drop(
	batch *store.Batch, deliveries *writeBackCache[domain.Delivery],
) (forgotten string, err error) {
	number, key := r.oldest, entryKey(r.oldest)
	r.oldest++
	if number >= r.from {
		eventID := r.events[0]
		r.events = r.events[1:]
		if latest, counts := r.latest[eventID]; !counts || latest != number {
			return "", batch.Delete(key)
		}
		delete(r.latest, eventID)
		return eventID, batch.Delete(key)
	}
	entry, err := batch.Get(key)
	if err != nil {
		return "", err
	}
	if len(entry) <= entryHead {
		return "", fmt.Errorf("engine: the state has no settled delivery %d (it is a cache: delete the "+
			"state folder to rebuild it)", number)
	}
	version, moves := binary.BigEndian.Uint64(entry), int(entry[entryHead-1])
	eventID := string(entry[entryHead:])
	d, err := deliveries.peek(batch, eventID)
	if err != nil || d.Version != version || d.Moves != moves {
		return "", errors.Join(err, batch.Delete(key))
	}
	return eventID, batch.Delete(key)
}

func (s *state) rememberSettled(batch *store.Batch, after domain.Delivery) error {
	full, err := s.settled.add(batch, after)
	if err != nil || !full {
		return err
	}
	eventID, err := s.settled.drop(batch, &s.deliveries)
	if err != nil || eventID == "" {
		return err
	}
	return s.deliveries.remove(batch, eventID)
}

// settledAs returns the delivery of an entry, or the zero value if the entry is outdated.
func settledAs(r reader, entry []byte) (domain.Delivery, error) {
	if len(entry) <= entryHead {
		return domain.Delivery{}, fmt.Errorf("engine: an entry of a settled delivery is malformed: %x",
			entry)
	}
	version, moves := binary.BigEndian.Uint64(entry), int(entry[entryHead-1])
	d, err := load(r, spaceDelivery, string(entry[entryHead:]), schemas.UnmarshalDelivery)
	if err != nil || d.Version != version || d.Moves != moves {
		return domain.Delivery{}, err
	}
	return d, nil
}

// IsSettled reports whether a key of the state belongs to an entry of the ring.
func IsSettled(key []byte) bool { return len(key) == 9 && key[0] == spaceSettled }

// AddSettled adds another state's entry as the n-th of the ring, unless the entry is outdated.
func AddSettled(b *store.Batch, entry []byte, n uint64) (added bool, err error) {
	d, err := settledAs(b, entry)
	if err != nil || !d.Exists() {
		return false, err
	}
	return true, b.Set(entryKey(n), entry)
}

// SetSettled completes the ring after AddSettled has added its entries.
func SetSettled(b *store.Batch, entries uint64) error {
	r := ring{next: entries, changed: true}
	return r.flush(b)
}

// peek is get without caching the result.
func (c *writeBackCache[T]) peek(r reader, id string) (T, error) {
	if v, ok := c.changed[id]; ok {
		return v, nil
	}
	if v, ok := c.clean.Peek(id); ok {
		return v, nil
	}
	return load(r, c.space, id, c.decode)
}

func (c *writeBackCache[T]) remove(batch *store.Batch, id string) error {
	delete(c.changed, id)
	c.clean.Remove(id)
	return batch.Delete(keyOf(c.space, id))
}

// upToDate reports whether the history from which a resend was read includes the last fact of a
// delivery that is forgotten here. Since that fact, rememberedSettled deliveries have settled with
// a journal record each, so a history that is fewer records behind includes it.
func (m *machine) upToDate(t *task.Turn, c domain.ResendEvent) bool {
	at := t.Next + int64(len(m.facts))
	return c.Remembered != nil && at-c.Remembered.AsOf < int64(m.state.settled.size)
}
