package transfer

import (
	"errors"
	"fmt"

	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

// divider writes the entries of states into the states of another partition count.
type divider struct {
	targets     stores
	batches     []*store.Batch
	pending     []int    // entries of each batch
	settled     []uint64 // settled deliveries of each target
	partitionOf func(aggregate string) int32
	digest      Digest // of the targets' entries
	progress    func(entries int64)
}

// divide fills empty states with the entries of others, and returns their digest. Deliveries come
// first: if there are two of one event, only one stays, and other entries depend on which.
func divide(from []*store.Store, to stores, progress func(entries int64)) (Digest, error) {
	d := &divider{
		targets:     to,
		pending:     make([]int, len(to)),
		settled:     make([]uint64, len(to)),
		partitionOf: kafka.PartitionOf(len(to)),
		progress:    progress,
	}
	for _, s := range to {
		d.batches = append(d.batches, s.Begin())
	}
	err := errors.Join(d.each(from, d.delivery), d.each(from, d.other), d.endRings())
	for _, b := range d.batches {
		if err != nil {
			b.Discard()
			continue
		}
		err = b.Commit()
	}
	return d.digest, err
}

func (d *divider) each(from []*store.Store, put func(p int32, key, value []byte) error) error {
	for _, s := range from {
		err := eachOwned(s, func(aggregate string, key, value []byte) error {
			return put(d.partitionOf(aggregate), key, value)
		})
		if err != nil {
			return fmt.Errorf("transfer: dividing the states: %w", err)
		}
	}
	return nil
}

// delivery writes a delivery, unless its event was handed over within the partition.
func (d *divider) delivery(p int32, key, value []byte) error {
	if !engine.IsDelivery(key) {
		return nil
	}
	present, err := d.batches[p].Get(key)
	if err != nil {
		return err
	}
	if present != nil {
		d.digest.remove(key, present)
		if value, err = engine.Later(present, value); err != nil {
			return err
		}
	}
	return d.set(p, key, value)
}

func (d *divider) other(p int32, key, value []byte) error {
	switch {
	case engine.IsDelivery(key):
		return nil
	case engine.IsSettled(key):
		return d.addSettled(p, key, value)
	case engine.IsBody(key):
		present, err := d.batches[p].Get(key)
		if err != nil || present != nil {
			return err // an event has one body
		}
	}
	return d.set(p, key, value)
}

// addSettled adds a settled delivery after those that the target has. The order within a source is
// kept. Which of two sources settled earlier is unknown, and nothing depends on it.
func (d *divider) addSettled(p int32, key, value []byte) error {
	added, err := engine.AddSettled(d.batches[p], value, d.settled[p])
	if err != nil || !added {
		return err
	}
	d.settled[p]++
	d.digest.add(key, value)
	return d.flush(p)
}

// endRings writes the number of settled deliveries of each target.
func (d *divider) endRings() (err error) {
	for p, n := range d.settled {
		err = errors.Join(err, engine.SetSettled(d.batches[p], n))
	}
	return err
}

func (d *divider) set(p int32, key, value []byte) error {
	d.digest.add(key, value)
	if d.digest.Entries%progressEvery == 0 {
		d.progress(d.digest.Entries)
	}
	if err := d.batches[p].Set(key, value); err != nil {
		return err
	}
	return d.flush(p)
}

func (d *divider) flush(p int32) error {
	if d.pending[p]++; d.pending[p] < batchEntries {
		return nil
	}
	err := d.batches[p].Commit()
	d.pending[p], d.batches[p] = 0, d.targets[p].Begin()
	return err
}
