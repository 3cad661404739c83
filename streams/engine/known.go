package engine

import (
	"bytes"
	"hash/maphash"
	"math"

	"github.com/lumenhook/lumenhook/streams/store"
)

// known says of which events the state has no delivery, without a look into it: nearly every
// match is of a payment that was never seen, and looking for what is not there costs most of
// all. It counts deliveries by a hash of their event, so one that is there is never missed;
// two events of one hash only cost a look.
//
// It is in memory only, and filled by a scan of a few thousand keys in each turn after a
// start. Until that has passed an event's key, the state is asked.
type known struct {
	seed   maphash.Seed
	counts map[uint64]uint8
	passed []byte // the scan is before this key; nil: at its end
	all    bool   // the scan is over
}

// scanAtOnce is how many keys of deliveries a turn reads.
const scanAtOnce = 4096

func newKnown() *known {
	return &known{
		seed:   maphash.MakeSeed(),
		counts: make(map[uint64]uint8),
		passed: []byte{spaceDelivery},
	}
}

// scan goes on with the scan. It is called before the turn changes any delivery.
func (k *known) scan(batch *store.Batch) error {
	if k.all {
		return nil
	}
	found := 0
	err := batch.Scan(k.passed, []byte{spaceDelivery + 1}, func(key, _ []byte) (bool, error) {
		if found++; found > scanAtOnce {
			k.passed = bytes.Clone(key)
			return false, nil
		}
		k.counts[maphash.Bytes(k.seed, key[1:])]++
		return true, nil
	})
	k.all = found <= scanAtOnce
	return err
}

// hasPassed reports whether the scan has passed the key of an event.
func (k *known) hasPassed(eventID string) bool {
	return k.all || bytes.Compare(keyOf(spaceDelivery, eventID), k.passed) < 0
}

// lacks reports that the state has no delivery of an event. False says nothing.
func (k *known) lacks(eventID string) bool {
	return k.hasPassed(eventID) && k.counts[maphash.String(k.seed, eventID)] == 0
}

// add notes a delivery that the state had not.
func (k *known) add(eventID string) {
	if !k.hasPassed(eventID) {
		return
	}
	if h := maphash.String(k.seed, eventID); k.counts[h] < math.MaxUint8 {
		k.counts[h]++
	}
}

// remove notes that the state has a delivery no more. A count that has reached its end stays.
func (k *known) remove(eventID string) {
	if !k.hasPassed(eventID) {
		return
	}
	switch h := maphash.String(k.seed, eventID); k.counts[h] {
	case math.MaxUint8:
	case 0, 1:
		delete(k.counts, h)
	default:
		k.counts[h]--
	}
}
