package streams

import (
	"fmt"
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

// foldPositions takes in what a record of the journal says of the inputs.
func (c *Core) foldPositions(r Record) error {
	text := r.Header(headerInputs)
	if text == "" && c.next == 0 && isNote(r) {
		// The first owner: nothing was taken before. Its record need not be at offset
		// 0: that of an owner who was fenced while it began is aborted.
		c.taken = make(inputPositions)
		for _, topic := range c.cfg.Inputs {
			c.taken[topic] = 0
		}
	}
	if text == "" {
		return nil
	}
	p, err := parsePositions(text)
	if err != nil {
		return err
	}
	c.taken, c.noted = p, text
	return nil
}

// Resume says where the inputs go on: at the larger of what the state and the
// group know. The group may be ahead of journals that an older program wrote. An
// input that has become shorter goes on at its end. Where nothing is known and
// the journal is not empty, it refuses: from the beginning, commands would be
// carried out again.
func (c *Core) Resume(group, ends map[string]int64) (map[string]int64, error) {
	from := make(inputPositions)
	for _, topic := range c.cfg.Inputs {
		at, known := c.taken[topic]
		if theirs, is := group[topic]; is {
			at, known = max(at, theirs), true
		}
		if !known && c.next > 0 && ends[topic] > 0 {
			return nil, fmt.Errorf("streams: nobody knows how far %s was taken in partition %d: its "+
				"consumer group lost its positions and the journal, of an older version, has none. "+
				"Stop the engine and set the position of that partition (kafka-consumer-groups.sh "+
				"--reset-offsets --to-latest skips what is not taken yet; --to-datetime takes again what "+
				"came since), then start it",
				topic, c.cfg.Partition)
		}
		from[topic] = min(at, ends[topic])
	}
	c.taken = from
	return maps.Clone(from), nil
}

// take moves the positions behind what a turn takes, and writes them with it.
func (c *Core) take(t *Turn) {
	if c.taken == nil {
		return // not resumed: a turn without inputs
	}
	for i, records := range t.Inputs {
		if n := len(records); n > 0 {
			c.taken[c.cfg.Inputs[i]] = records[n-1].Offset + 1
		}
	}
	t.positions = maps.Clone(c.taken)
	if text := c.taken.String(); t.keep || len(t.out) > 0 && text != c.noted {
		t.note(c.cfg.Journal, text)
		c.noted = text
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

// keepPositions writes the positions into a batch of state.
func (c *Core) keepPositions(batch *Batch) error {
	if len(c.taken) == 0 || len(c.cfg.Inputs) == 0 {
		return nil
	}
	return batch.Set(inputsKey, []byte(c.taken.String()))
}

// loadPositions reads them back.
func (c *Core) loadPositions() error {
	text, err := c.store.Get(inputsKey)
	if err != nil || len(text) == 0 {
		return err
	}
	c.taken, err = parsePositions(string(text))
	c.noted = string(text)
	return err
}
