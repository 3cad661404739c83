package transfer

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/store"
)

// Digest is a checksum of entries of states. It does not depend on their order, nor on how they are
// divided into partitions.
type Digest struct {
	Entries int64
	Sum     [4]uint64
}

// String returns the sum in hexadecimal digits.
func (d Digest) String() string {
	return fmt.Sprintf("%016x%016x%016x%016x", d.Sum[0], d.Sum[1], d.Sum[2], d.Sum[3])
}

// add adds an entry. The number of a settled delivery is ignored, because each partition has its
// own numbers.
func (d *Digest) add(key, value []byte) {
	if engine.IsSettled(key) {
		key = key[:1]
	}
	h := sha256.New()
	h.Write(binary.AppendUvarint(nil, uint64(len(key))))
	h.Write(key)
	h.Write(value)
	sum := h.Sum(nil)
	d.Entries++
	for i := range d.Sum {
		d.Sum[i] += binary.BigEndian.Uint64(sum[8*i:])
	}
}

func (d *Digest) remove(key, value []byte) {
	var one Digest
	one.add(key, value)
	d.Entries--
	for i := range d.Sum {
		d.Sum[i] -= one.Sum[i]
	}
}

// eachOwned calls take for the entries of a state that belong to an aggregate, in their portable
// form.
func eachOwned(
	s *store.Store, take func(aggregate string, key, value []byte) error,
) error {
	return s.Each(func(key, value []byte) (bool, error) {
		aggregate, err := engine.Owner(s, key, value)
		if err == nil {
			value, err = portableEntry(key, value)
		}
		if err == nil && aggregate != "" {
			err = take(aggregate, key, value)
		}
		return err == nil, err
	})
}

func digestOf(states []*store.Store) (d Digest, err error) {
	for _, s := range states {
		err := eachOwned(s, func(_ string, key, value []byte) error {
			d.add(key, value)
			return nil
		})
		if err != nil {
			return d, err
		}
	}
	return d, nil
}
