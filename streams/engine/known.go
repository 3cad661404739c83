package engine

import (
	"bytes"
	"hash/maphash"
	"math"

	"github.com/lumenhook/lumenhook/streams/store"
)

// known tells which events have no delivery, without reading the state: nearly every match is of a
// new payment, and looking up a missing key is the most expensive read. It counts deliveries by a
// hash of their event, so it never misses an existing one. A hash collision only costs a read.
//
// It is in memory only, and filled by a scan of several thousand keys in each turn after a start.
// Until the scan has passed an event's key, the state is read.
type known struct {
	seed   maphash.Seed
	counts map[uint64]uint8
	passed []byte // the scan is before this key; nil: at the end
	all    bool   // the scan is complete
}

// scanAtOnce is the number of delivery keys that a turn scans.
const scanAtOnce = 4096

func newKnown() *known {
	return &known{
		seed:   maphash.MakeSeed(),
		counts: make(map[uint64]uint8),
		passed: []byte{spaceDelivery},
	}
}

// scan continues the scan. It is called before the turn changes any delivery.
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

// lacks reports that the state has no delivery of an event. False means unknown.
func (k *known) lacks(eventID string) bool {
	return k.hasPassed(eventID) && k.counts[maphash.String(k.seed, eventID)] == 0
}

// add counts a new delivery.
func (k *known) add(eventID string) {
	if !k.hasPassed(eventID) {
		return
	}
	if h := maphash.String(k.seed, eventID); k.counts[h] < math.MaxUint8 {
		k.counts[h]++
	}
}

// remove counts out a deleted delivery. A saturated count stays.
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
