package streams

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A task's input positions are part of its state, and so of its journal: the last record of
// a turn carries them in a header, and a turn that writes nothing else to the journal adds
// a record with that header only, a note. The group stores them too, but not for ever:
// after seven days it drops those of topics that it does not subscribe to, or all of them
// if it is empty, and a deleted group drops them at once. Inputs that were processed long
// ago must not be processed again then: what identifies them as repeats may have been
// dropped.

const (
	// headerInputs holds input positions, as topic=offset,topic=offset.
	headerInputs = "inputs"
	// headerStart marks the record that an owner writes first (restore.go).
	headerStart = "start"
)

// headerType is a header of every record except a task's own.
const headerType = "type"

// isNote reports whether a record holds only a task's notes for itself. Readers skip these,
// as they skip control records.
func isNote(r Record) bool {
	return len(r.Value) == 0 &&
		r.Header(headerInputs)+r.Header(headerStart)+r.Header(headerFiller) != "" &&
		r.Header(headerType) == ""
}

// StartRecord returns the record that an owner writes before anything else.
func StartRecord(journal string, partition int32) Record {
	return Record{
		Topic:     journal,
		Partition: partition,
		Key:       []byte{},
		Headers:   []Header{{Key: headerStart, Value: []byte("1")}},
	}
}

// inputPositions are the offsets of the next records of a task's inputs, by topic.
type inputPositions map[string]int64

func (p inputPositions) String() string {
	var b strings.Builder
	for i, topic := range slices.Sorted(maps.Keys(p)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(topic + "=" + strconv.FormatInt(p[topic], 10))
	}
	return b.String()
}

func parsePositions(text string) (inputPositions, error) {
	p := make(inputPositions)
	for part := range strings.SplitSeq(text, ",") {
		topic, offset, ok := strings.Cut(part, "=")
		at, err := strconv.ParseInt(offset, 10, 64)
		if !ok || err != nil || at < 0 || topic == "" {
			return nil, fmt.Errorf("streams: the input positions %.200q cannot be read", text)
		}
		p[topic] = at
	}
	return p, nil
}

// progress is how far a state has advanced in its journal and in its inputs.
type progress struct {
	journal   string
	partition int32
	inputs    []string
	logger    *slog.Logger

	next  int64 // offset of the next journal record to fold
	mark  bookmark
	taken inputPositions
	noted string // the positions that the journal has
}

// load reads the progress from a state.
func (p *progress) load(s *Store) (err error) {
	if p.next, err = s.Checkpoint(p.journal, p.partition); err != nil {
		return err
	}
	if p.mark, err = loadBookmark(s); err != nil {
		return err
	}
	text, err := s.Get(inputsKey)
	if err != nil || len(text) == 0 {
		return err
	}
	p.taken, err = parsePositions(string(text))
	p.noted = string(text)
	return err
}

// reset sets the progress of an empty state.
func (p *progress) reset() { p.next, p.mark, p.taken, p.noted = 0, bookmark{}, nil, "" }

// readFrom returns the offset to read the journal from, so that the state's last fact is
// read again.
func (p *progress) readFrom() int64 {
	if p.mark.known {
		return min(p.next, p.mark.offset)
	}
	return p.next
}

// fold applies a record of the journal, and the input positions in it.
func (p *progress) fold(r Record) (err error) {
	text := r.Header(headerInputs)
	switch {
	case text != "":
		if p.taken, err = parsePositions(text); err != nil {
			return err
		}
		p.noted = text
	case p.next == 0 && isNote(r):
		// The first owner: nothing was processed before. Its record need not be at offset
		// 0: that of an owner who was fenced while it started is aborted.
		p.taken = make(inputPositions)
		for _, topic := range p.inputs {
			p.taken[topic] = 0
		}
	}
	p.next = r.Offset + 1
	if !isNote(r) {
		p.mark = bookmarkOf(r.Offset, r)
	}
	return nil
}

// resume returns the input positions to continue at: the larger ones of what the state and
// the group have. The group may be ahead of journals that an older program wrote. An input
// that has become shorter is continued at its end. Where no positions are known and the
// journal is not empty, it refuses: reading from the beginning would carry out commands
// again.
func (p *progress) resume(group, ends map[string]int64) (map[string]int64, error) {
	from := make(inputPositions)
	for _, topic := range p.inputs {
		at, known := p.taken[topic]
		if theirs, is := group[topic]; is {
			at, known = max(at, theirs), true
		}
		if !known && p.next > 0 && ends[topic] > 0 {
			return nil, fmt.Errorf("streams: nobody knows how far %s was taken in partition %d: its "+
				"consumer group lost its positions and the journal, of an older version, has none. "+
				"Stop the engine and set the position of that partition (kafka-consumer-groups.sh "+
				"--reset-offsets --to-latest skips what is not taken yet; --to-datetime takes again what "+
				"came since), then start it",
				topic, p.partition)
		}
		if at > ends[topic] {
			p.logger.Warn("an input ends before what was taken of it and goes on at its end: it has "+
				"lost records", "topic", topic, "partition", p.partition, "taken", at, "end", ends[topic])
		}
		from[topic] = min(at, ends[topic])
	}
	p.taken = from
	return maps.Clone(from), nil
}

// take advances the positions past the turn's inputs, and adds them to the turn; always, if
// that is set.
func (p *progress) take(t *Turn, always bool) {
	for i, records := range t.Inputs {
		if n := len(records); n > 0 {
			p.taken[p.inputs[i]] = records[n-1].Offset + 1
		}
	}
	t.positions = maps.Clone(p.taken)
	if text := p.taken.String(); always || len(t.out) > 0 && text != p.noted {
		t.note(p.journal, text)
		p.noted = text
	}
}

// advance moves past what a turn wrote to the journal: next is the offset after it. The
// bookmark moves to the last record, which is a fact if the turn wrote any.
func (p *progress) advance(t *Turn, next int64) {
	p.next = max(p.next, next)
	for _, r := range slices.Backward(t.out) {
		if r.Topic != p.journal {
			continue
		}
		if !isNote(r) {
			p.mark = bookmarkOf(next-1, r)
		}
		return
	}
}

// note writes positions to the turn's last record of the journal, or to a record of their
// own.
func (t *Turn) note(journal, text string) {
	header := Header{Key: headerInputs, Value: []byte(text)}
	for i, r := range slices.Backward(t.out) {
		if r.Topic == journal {
			t.out[i].Headers = append(slices.Clip(r.Headers), header)
			return
		}
	}
	t.Append(Record{Topic: journal, Key: []byte{}, Headers: []Header{header}})
}

var inputsKey = []byte{keySpaceOwn, 'p'}

// saveJournal writes the journal checkpoint into a batch of state.
func (p *progress) saveJournal(b *Batch) error {
	return errors.Join(b.SetCheckpoint(p.journal, p.partition, p.next), p.mark.set(b))
}

// saveInputs writes the input positions into a batch of state.
func (p *progress) saveInputs(b *Batch) error {
	if len(p.taken) == 0 || len(p.inputs) == 0 {
		return nil
	}
	return b.Set(inputsKey, []byte(p.taken.String()))
}
