package transfer

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"time"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// A follower reads back the records that it appended after its cursor, and the engine does not take
// inputs twice. So the matches after the cursor are copied in two parts: those that the states have
// taken, and those that they have not.

// part is a range of a topic.
type part struct {
	topic    string
	taken    bool // by the states
	from, to map[int32]int64
	// keep reports whether a record is copied; nil: all are.
	keep func(kafka.Record) (bool, error)
}

// others lists the topics whose records are copied completely, because they exist nowhere else.
func others() []string {
	return []string{schemas.TopicQuarantine, schemas.TopicDeadLetters, schemas.TopicKeyUses}
}

// remains returns the parts of topics that the states do not replace. It is called after the states
// are folded, with the cursor and the ends that were read before.
func (s *Source) remains(
	ctx context.Context, cursor schemas.LedgerRead, before inputEnds,
) ([]part, error) {
	taken, err := s.taken()
	if err != nil {
		return nil, err
	}
	matches, err := s.ends.Of(ctx, schemas.TopicMatches)
	if err != nil {
		return nil, err
	}
	readBack, err := s.readBackFrom(cursor.MatchesOffsets)
	if err != nil {
		return nil, err
	}
	parts := []part{
		{
			topic: schemas.TopicMatches,
			taken: true,
			from:  readBack,
			to:    taken[schemas.TopicMatches],
		},
		{
			topic: schemas.TopicMatches,
			from:  taken[schemas.TopicMatches],
			to:    matches,
			keep: func(r kafka.Record) (bool, error) {
				return s.isCopied(r, before.matches)
			},
		},
		{
			topic: schemas.TopicCommands,
			from:  taken[schemas.TopicCommands],
			to:    before.commands,
		},
	}
	if len(cursor.PaymentsOffsets) > 0 {
		parts = append(parts, part{
			topic: schemas.TopicPayments,
			taken: true,
			from:  cursor.PaymentsOffsets,
			to:    before.payments,
		})
	}
	for _, topic := range others() {
		end, err := s.ends.Of(ctx, topic)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{topic: topic, to: end})
	}
	return parts, nil
}

// taken returns the positions up to which the states have taken their inputs, by topic and
// partition.
func (s *Source) taken() (map[string]map[int32]int64, error) {
	by := make(map[string]map[int32]int64)
	for _, topic := range engine.Inputs() {
		by[topic] = make(map[int32]int64)
	}
	for p, r := range s.replicas {
		positions, known := r.Taken()
		if !known && r.Folded() > 0 {
			return nil, fmt.Errorf("transfer: the journal of partition %d does not say how far its "+
				"inputs were taken: start the engine once, and repeat", p)
		}
		for topic := range by {
			by[topic][int32(p)] = positions[topic] // #nosec G115 -- a partition
		}
	}
	return by, nil
}

func (s *Source) copyParts(
	ctx context.Context, dir string, parts []part,
) (list []recordsFile, err error) {
	for i, p := range parts {
		s.cfg.Progress(int64(i), int64(len(parts)))
		f, err := s.copyPart(ctx, dir, p)
		if err != nil {
			return nil, fmt.Errorf("transfer: copying records of %s: %w", p.topic, err)
		}
		list = append(list, f)
	}
	s.cfg.Progress(int64(len(parts)), int64(len(parts)))
	return list, nil
}

func (s *Source) copyPart(ctx context.Context, dir string, p part) (recordsFile, error) {
	f := recordsFile{Topic: p.topic, Taken: p.taken}
	starts, err := s.startsOf(ctx, p)
	if err != nil {
		return f, err
	}
	name := p.topic + ".zst"
	if p.taken {
		name = p.topic + "-taken.zst"
	}
	w, err := newTupleWriter(filepath.Join(dir, name), name)
	if err != nil {
		return f, err
	}
	err = s.read(ctx, p.topic, starts, p.to, func(r kafka.Record) error {
		if p.keep != nil {
			if keep, err := p.keep(r); err != nil || !keep {
				return err
			}
		}
		return w.write(fieldsOf(portableRecord(r))...)
	})
	if err != nil {
		w.abandon()
		return f, err
	}
	if f.file, err = w.end(); err == nil {
		_, err = s.startsOf(ctx, p) // fails if retention deleted records in the meantime
	}
	return f, err
}

// startsOf returns the offsets from which to read a part. It fails if records of it were deleted.
// Topics without positions are read from their beginning.
func (s *Source) startsOf(ctx context.Context, p part) (map[int32]int64, error) {
	starts, err := s.ends.Starts(ctx, p.topic)
	if err != nil {
		return nil, err
	}
	for partition, from := range p.from {
		start := starts[partition]
		if from > 0 && start > from && from < p.to[partition] {
			return nil, fmt.Errorf("partition %d of %s begins at offset %d, and what is needed begins at "+
				"%d: records were deleted; begin again, and let nothing but Lumenhook delete of this topic",
				partition, p.topic, start, from)
		}
		starts[partition] = max(start, from)
	}
	return starts, nil
}

// fieldsOf returns the fields of a record in a file: time, key, value, and names and values of
// headers.
func fieldsOf(r kafka.Record) [][]byte {
	fields := [][]byte{
		binary.BigEndian.AppendUint64(nil, uint64(r.Timestamp.UnixMilli())), r.Key, r.Value,
	}
	for _, h := range r.Headers {
		fields = append(fields, []byte(h.Key), h.Value)
	}
	return fields
}

func recordOf(topic string, fields [][]byte) (kafka.Record, error) {
	if len(fields) < 3 || len(fields)%2 == 0 || len(fields[0]) != 8 {
		return kafka.Record{}, errDamaged
	}
	r := kafka.Record{
		Topic:     topic,
		Timestamp: time.UnixMilli(int64(binary.BigEndian.Uint64(fields[0]))),
		Key:       fields[1],
		Value:     fields[2],
	}
	for i := 3; i < len(fields); i += 2 {
		r.Headers = append(r.Headers, kafka.Header{Key: string(fields[i]), Value: fields[i+1]})
	}
	return r, nil
}
