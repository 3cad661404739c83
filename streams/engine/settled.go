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

// rememberedSettled is how many of the deliveries that settled last a partition remembers.
// That a resend finds what is forgotten in the history depends on it: the history may be as
// many records behind ([machine.upToDate]). Another number is another StateFormat: a state
// that remembered fewer has forgotten what this program believes to have.
const rememberedSettled = 16_384

// This does not compile if a turn could forget what it has settled itself.
const _ = uint(rememberedSettled - task.TurnFacts)

// ring remembers the deliveries that settled last, in the order of the facts that settled
// them, and nothing but the journal decides which these are.
//
//	0x19 | number, 8 bytes, big endian -> version, 8 bytes | moves, 1 byte | event id
//	0x1a -> numbers of the oldest entry and of the next one
//
// Version and moves tell the delivery as it was: one that has settled again, or is on its
// way again, has others, and only its latest entry counts.
//
// The entries of this process are in memory too, so that it reads neither them nor their
// deliveries again.
type ring struct {
	size         uint64
	oldest, next uint64
	loaded       bool
	changed      bool
	from         uint64            // the first entry of this process
	events       []string          // of the entries from there on that are left
	latest       map[string]uint64 // of those that count: their entry, by event
}

// entryHead is how many bytes of an entry precede the event's identifier.
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

// add adds a delivery, and reports whether the oldest entry has to go.
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

// leave notes that a delivery is on its way again, or that its event has another.
func (r *ring) leave(eventID string) { delete(r.latest, eventID) }

// drop removes the oldest entry. It returns the event whose delivery is to be forgotten;
// empty: a later fact of it counts.
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
			"state folder to build it anew)", number)
	}
	version, moves := binary.BigEndian.Uint64(entry), int(entry[entryHead-1])
	eventID := string(entry[entryHead:])
	d, err := deliveries.peek(batch, eventID)
	if err != nil || d.Version != version || d.Moves != moves {
		return "", errors.Join(err, batch.Delete(key))
	}
	return eventID, batch.Delete(key)
}

// settle remembers a delivery that a fact has left settled, and forgets the one that settled
// longest ago.
func (s *state) settle(batch *store.Batch, after domain.Delivery) error {
	full, err := s.settled.add(batch, after)
	if err != nil || !full {
		return err
	}
	eventID, err := s.settled.drop(batch, &s.deliveries)
	if err != nil || eventID == "" {
		return err
	}
	s.known.remove(eventID)
	return s.deliveries.remove(batch, eventID)
}

// settledAs returns the delivery of an entry; none if a later fact of it counts, or if it is
// forgotten.
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

// IsSettled reports whether a key of the state is that of an entry of the ring.
func IsSettled(key []byte) bool { return len(key) == 9 && key[0] == spaceSettled }

// AddSettled adds an entry of another state to the ring of a batch's state, as its n-th, if
// that state has the delivery as the entry has it.
func AddSettled(b *store.Batch, entry []byte, n uint64) (added bool, err error) {
	d, err := settledAs(b, entry)
	if err != nil || !d.Exists() {
		return false, err
	}
	return true, b.Set(entryKey(n), entry)
}

// SetSettled ends the ring of a batch's state, whose entries AddSettled has added.
func SetSettled(b *store.Batch, entries uint64) error {
	r := ring{next: entries, changed: true}
	return r.flush(b)
}

// peek is get without remembering what it reads.
func (c *writeBackCache[T]) peek(r reader, id string) (T, error) {
	if v, ok := c.changed[id]; ok {
		return v, nil
	}
	if v, ok := c.clean.Peek(id); ok {
		return v, nil
	}
	return load(r, c.space, id, c.decode)
}

// remove deletes an aggregate.
func (c *writeBackCache[T]) remove(batch *store.Batch, id string) error {
	delete(c.changed, id)
	c.clean.Remove(id)
	return batch.Delete(keyOf(c.space, id))
}

// upToDate reports whether the history that a resend was read from has all that became of
// a delivery which is forgotten here. After its last fact as many deliveries settled as
// are remembered, each with a record of the journal of its own: a history that lacks fewer
// records has that fact.
func (m *machine) upToDate(t *task.Turn, c domain.ResendEvent) bool {
	at := t.Next + int64(len(m.facts))
	return c.Remembered != nil && at-c.Remembered.AsOf < int64(m.state.settled.size)
}
