package mailer

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/streams"
)

// maxWindow bounds the notices of a partition that are kept: those that wait,
// and those that are settled beyond the first that waits. A position's note has
// room for that many offsets, however far they are from each other.
const maxWindow = 256

// notice is a fact of which the account holder is to be told.
type notice struct {
	offset   int64
	fact     domain.Fact
	disabled domain.EndpointDisabled
	tries    int
	since    time.Time // the first try
	due      time.Time // the next try
	waits    *retry.Backoff
}

// window is what is known of a partition: below its position all is settled,
// and beyond it the offsets in settled are.
type window struct {
	next    int64     // offset of the record to read next
	waiting []*notice // by offset
	settled []int64   // in order, all above the first that waits
}

// restoreWindow takes up what position tells of.
func restoreWindow(at streams.Position) (*window, error) {
	w := &window{next: at.Next}
	note, err := base64.RawStdEncoding.DecodeString(at.Note)
	if err != nil {
		return w, fmt.Errorf("mailer: the note of a position is damaged: %w", err)
	}
	for last := at.Next; len(note) > 0; {
		more, n := binary.Uvarint(note)
		if n <= 0 {
			return w, fmt.Errorf("mailer: the note of a position is damaged: %q", at.Note)
		}
		last += int64(more)
		w.settled, note = append(w.settled, last), note[n:]
	}
	return w, nil
}

// position is what to commit. Its note holds the settled offsets, each as its
// distance from the one before it.
func (w *window) position() streams.Position {
	at := streams.Position{Next: w.next}
	if len(w.waiting) > 0 {
		at.Next = w.waiting[0].offset
	}
	var note []byte
	last := at.Next
	for _, offset := range w.settled {
		if offset >= at.Next {
			note = binary.AppendUvarint(note, uint64(offset-last))
			last = offset
		}
	}
	at.Note = base64.RawStdEncoding.EncodeToString(note)
	return at
}

// room is how many more notices there is room for.
func (w *window) room() int { return maxWindow - len(w.waiting) - len(w.settled) }

// add takes a notice, unless it was settled by whoever had the partition before.
func (w *window) add(n *notice) {
	if _, settled := slices.BinarySearch(w.settled, n.offset); !settled {
		w.waiting = append(w.waiting, n)
	}
}

// settle takes a notice out: nothing more is to be done for it.
func (w *window) settle(n *notice) {
	w.waiting = slices.DeleteFunc(w.waiting, func(one *notice) bool { return one == n })
	at, _ := slices.BinarySearch(w.settled, n.offset)
	w.settled = slices.Insert(w.settled, at, n.offset)
	w.forget()
}

// forget drops the settled offsets that the position tells of by itself.
func (w *window) forget() {
	position := w.next
	if len(w.waiting) > 0 {
		position = w.waiting[0].offset
	}
	below, _ := slices.BinarySearch(w.settled, position)
	w.settled = slices.Delete(w.settled, 0, below)
}

// first is the notice to try next; nil when none waits.
func (w *window) first() *notice {
	if len(w.waiting) == 0 {
		return nil
	}
	return slices.MinFunc(w.waiting, func(a, b *notice) int { return a.due.Compare(b.due) })
}

// stuck is the notice that keeps a full window from moving on; nil when the
// window is not full, or when no notice behind it has been settled either.
func (w *window) stuck() *notice {
	if w.room() > 0 || len(w.settled) == 0 {
		return nil
	}
	return w.waiting[0]
}
