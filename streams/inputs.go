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

// How far a task came in its inputs is part of its state, and so of its journal:
// the last record of a turn carries the positions in a header, and a turn that
// writes nothing else to the journal adds a record of the header alone, a note.
// The group has them too, but forgets them: a stable group those of topics that
// it does not subscribe to after seven days, an empty one all, a deleted one at
// once. Inputs that were taken long ago must not be taken again then: what
// remembers them may be forgotten.

const (
	// headerInputs holds input positions, as topic=offset,topic=offset.
	headerInputs = "inputs"
	// headerStart is of the record with which an owner begins (restore.go).
	headerStart = "start"
)

// headerType is of all records that are not a task's own.
const headerType = "type"

// isNote reports whether a record holds nothing but what a task notes for itself.
// Readers are not given it, as they are not given control records.
func isNote(r Record) bool {
	return len(r.Value) == 0 &&
		r.Header(headerInputs)+r.Header(headerStart)+r.Header(headerFiller) != "" &&
		r.Header(headerType) == ""
}

// StartRecord is what an owner writes before anything else.
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

// progress is how far a state came: in its journal, and in its inputs.
type progress struct {
	journal   string
	partition int32
	inputs    []string
	logger    *slog.Logger

	next  int64 // offset of the journal that is not folded yet
	mark  bookmark
	taken inputPositions
	noted string // the positions that the journal has
}

// load takes up what the state says of itself.
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

// reset is the progress of an empty state.
func (p *progress) reset() { p.next, p.mark, p.taken, p.noted = 0, bookmark{}, nil, "" }

// readFrom is where the journal is read from, so that the state's last fact is among
// what is read.
func (p *progress) readFrom() int64 {
	if p.mark.known {
		return min(p.next, p.mark.offset)
	}
	return p.next
}

// fold takes in a record of the journal, and what it says of the inputs.
func (p *progress) fold(r Record) (err error) {
	text := r.Header(headerInputs)
	switch {
	case text != "":
		if p.taken, err = parsePositions(text); err != nil {
			return err
		}
		p.noted = text
	case p.next == 0 && isNote(r):
		// The first owner: nothing was taken before. Its record need not be at offset
		// 0: that of an owner who was fenced while it began is aborted.
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

// resume returns where the inputs go on: at the larger of what the state and the
// group know. The group may be ahead of journals that an older program wrote. An
// input that has become shorter goes on at its end. Where nothing is known and
// the journal is not empty, it refuses: from the beginning, commands would be
// carried out again.
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

// take moves the positions behind what a turn takes, and writes them with it; always,
// if it is asked to.
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

// turned moves to behind what a turn wrote to the journal: next is the offset there. The
// bookmark moves to the last of it, which is a fact if the turn wrote any.
func (p *progress) turned(t *Turn, next int64) {
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

// note writes positions to the turn's last record of the journal, or to one of
// their own.
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

// saveJournal writes how far the journal is folded into a batch of state.
func (p *progress) saveJournal(b *Batch) error {
	return errors.Join(b.SetCheckpoint(p.journal, p.partition, p.next), p.mark.set(b))
}

// saveInputs writes how far the inputs are taken into a batch of state.
func (p *progress) saveInputs(b *Batch) error {
	if len(p.taken) == 0 || len(p.inputs) == 0 {
		return nil
	}
	return b.Set(inputsKey, []byte(p.taken.String()))
}
