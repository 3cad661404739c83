package task

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

type progress struct {
	journal   string
	partition int32
	inputs    []string
	logger    *slog.Logger

	next      int64 // offset of the next journal record to fold
	mark      bookmark
	grown     int64 // journal bytes folded since the latest snapshot
	positions inputPositions
	kept      string // the positions in the state, if known
	noted     string // the positions in the journal
	// grouped are the positions that the group has. groupedMillis is when this owner last committed
	// any, on the steady clock; those of its first turn follow immediately.
	grouped       string
	groupedMillis int64
}

// groupEvery is how often the group gets the input positions. Only the lag display and the deletion
// of processed records need them there, so a turn should not wait for another request.
const groupEvery = time.Second

func (p *progress) load(s *store.Store) (err error) {
	if p.next, err = s.Checkpoint(p.journal, p.partition); err != nil {
		return err
	}
	if p.mark, err = loadBookmark(s); err != nil {
		return err
	}
	if p.grown, err = loadGrown(s); err != nil {
		return err
	}
	text, err := s.Get(inputsKey)
	if err != nil || len(text) == 0 {
		return err
	}
	p.positions, err = parsePositions(string(text))
	p.noted = string(text)
	return err
}

func (p *progress) reset() {
	p.next, p.mark, p.grown, p.positions = 0, bookmark{}, 0, nil
	p.kept, p.noted = "", ""
}

// firstUnproved returns the journal offset from which the last folded record is read again.
func (p *progress) firstUnproved() int64 {
	if p.mark.known {
		return min(p.next, p.mark.offset)
	}
	return p.next
}

func (p *progress) advance(r kafka.Record) (err error) {
	text := r.Header(kafka.HeaderInputs)
	switch {
	case text != "":
		if p.positions, err = parsePositions(text); err != nil {
			return err
		}
		p.noted = text
	case p.next == 0 && kafka.IsNote(r):
		// The first owner: nothing was processed before. Its record need not be at offset 0, because that
		// of an owner that was fenced while starting is aborted.
		p.positions = make(inputPositions)
		for _, topic := range p.inputs {
			p.positions[topic] = 0
		}
	}
	p.next = r.Offset + 1
	p.grown += r.Size()
	p.mark = bookmarkOf(r.Offset, r)
	return nil
}

// resume returns where to continue in each input: at the larger of the state's and the group's
// positions, but not beyond the end. If both are missing and the journal is not empty, it returns
// an error, because reading from the beginning would repeat commands.
func (p *progress) resume(group, ends map[string]int64) (map[string]int64, error) {
	from := make(inputPositions)
	for _, topic := range p.inputs {
		at, known := p.positions[topic]
		if theirs, is := group[topic]; is {
			at, known = max(at, theirs), true
		}
		if !known && p.next > 0 && ends[topic] > 0 {
			return nil, fmt.Errorf("streams: the position in %s of partition %d is unknown: its "+
				"consumer group lost its positions and the journal has no position. "+
				"Stop the engine and set the position of that partition (kafka-consumer-groups.sh "+
				"--reset-offsets --to-latest skips pending records; --to-datetime repeats the records "+
				"since then), then start it",
				topic, p.partition)
		}
		if at > ends[topic] {
			p.logger.Warn("an input lost records: it ends before the last processed position; "+
				"reading continues at its end", "topic", topic, "partition", p.partition,
				"taken", at, "end", ends[topic])
		}
		from[topic] = min(at, ends[topic])
	}
	p.positions = from
	differs := func(topic string) bool { return group[topic] != from[topic] }
	if !slices.ContainsFunc(p.inputs, differs) {
		p.grouped = from.String()
	}
	return maps.Clone(from), nil
}

// advanceInputs moves past the turn's inputs. It adds changed positions to the turn's journal
// records and, every groupEvery or if always is set, to the group's commit. If the turn writes
// nothing else, it adds a note, because a transaction needs a record.
func (p *progress) advanceInputs(t *Turn, steadyMillis int64, always bool) {
	for i, records := range t.Inputs {
		if n := len(records); n > 0 {
			p.positions[p.inputs[i]] = records[n-1].Offset + 1
		}
	}
	text := p.positions.String()
	group := always ||
		text != p.grouped && steadyMillis-p.groupedMillis >= groupEvery.Milliseconds()
	if group {
		t.positions = maps.Clone(p.positions)
		p.grouped, p.groupedMillis = text, steadyMillis
	}
	if group && len(t.out) == 0 || len(t.out) > 0 && text != p.noted {
		t.note(p.journal, text)
		p.noted = text
	}
}

func (p *progress) advanceTurn(t *Turn, next int64) {
	p.next = max(p.next, next)
	last := true
	for _, r := range slices.Backward(t.out) {
		if r.Topic != p.journal {
			continue
		}
		if last {
			p.mark = bookmarkOf(next-1, r)
		}
		last = false
		p.grown += r.Size()
	}
}

func (t *Turn) note(journal, text string) {
	note := noteOf(journal, t.partition, kafka.HeaderInputs, text)
	for i, r := range slices.Backward(t.out) {
		if r.Topic == journal {
			t.out[i].Headers = append(slices.Clip(r.Headers), note.Headers...)
			return
		}
	}
	t.Append(note)
}

var inputsKey = []byte{store.KeySpaceOwn, 'p'}

func (p *progress) saveJournal(b *store.Batch) error {
	return errors.Join(b.SetCheckpoint(p.journal, p.partition, p.next), p.mark.set(b),
		saveGrown(b, p.grown))
}

// SetTaken sets how far the state of a partition that was derived from another state has folded its
// journal and taken its inputs.
func SetTaken(
	b *store.Batch, journal string, partition int32, next int64, positions map[string]int64,
) error {
	return errors.Join(b.SetCheckpoint(journal, partition, next),
		b.Set(inputsKey, []byte(inputPositions(positions).String())))
}

func (p *progress) saveInputs(b *store.Batch) error {
	if len(p.positions) == 0 || len(p.inputs) == 0 {
		return nil
	}
	text := p.positions.String()
	if text == p.kept {
		return nil // an idle task writes nothing, so that its store is not flushed
	}
	p.kept = text
	return b.Set(inputsKey, []byte(text))
}
