package writer

import (
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/schemas"
)

func TestABlockWaitsAsLongAsItsReadersAllow(t *testing.T) {
	began := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	at := topicPartition{schemas.TopicJournal, 3}
	limits := limits{wait: 10 * time.Millisecond, unasked: time.Second}
	for _, c := range []struct {
		name    string
		records int
		asked   map[int32]int64 // nil: no reader
		busy    time.Duration   // since the block began
		want    time.Duration   // since the block began
	}{
		{"a small block, unread", many - 1, nil, 0, time.Second},
		{"a large block, unread", many, nil, 0, manyFactor * time.Second},
		{"a small block, read", many - 1, map[int32]int64{}, 0, 10 * time.Millisecond},
		{"a large block, read", many, map[int32]int64{}, 0, 10 * time.Millisecond},
		{"a large block that somebody waits for", many, map[int32]int64{3: 7}, 0, 0},
		{"a block whose writer is busy", many, map[int32]int64{3: 7}, time.Minute, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asking asking
			if c.asked != nil {
				asking.asked(began, c.asked)
			}
			s := newSession(sessionConfig{
				limits:   limits,
				now:      func() time.Time { return began },
				asking:   &asking,
				position: map[topicPartition]int64{at: 7},
			})
			b := newBlock()
			b.began, b.records = began, c.records
			b.cover(at, 5, 7)
			var busy time.Time
			if c.busy > 0 {
				busy = began.Add(c.busy)
			}
			if got := s.due(b, busy).Sub(began); got != c.want {
				t.Errorf("it is due after %v; want %v", got, c.want)
			}
		})
	}
}
