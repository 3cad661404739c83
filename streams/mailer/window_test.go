package mailer

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lumenhook/lumenhook/streams"
)

// Whoever restores a position at any moment, and reads on, settles just what had
// not been settled before (M1, M2).
func TestNothingSettledIsRestored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, err := restoreWindow(streams.Position{})
		if err != nil {
			t.Fatal(err)
		}
		var journal []int64 // offsets of notices
		settled := make(map[int64]bool)
		end := int64(0)
		restore := func(t *rapid.T) {
			at := w.position()
			if len(at.Note) > streams.MaxNoteBytes {
				t.Fatalf("the note has %d bytes", len(at.Note))
			}
			read := w.next
			if w, err = restoreWindow(at); err != nil {
				t.Fatal(err)
			}
			for _, offset := range journal {
				if offset >= at.Next && offset < read {
					w.add(&notice{offset: offset})
				}
			}
			w.next = max(w.next, read)
			w.forget()
		}
		t.Repeat(map[string]func(*rapid.T){
			"read": func(t *rapid.T) {
				if w.room() == 0 {
					return
				}
				end += rapid.Int64Range(1, 1<<rapid.IntRange(1, 50).Draw(t, "bits")).Draw(t, "records")
				journal = append(journal, end-1)
				w.add(&notice{offset: end - 1})
				w.next = end
				w.forget()
			},
			"settle": func(t *rapid.T) {
				if len(w.waiting) == 0 {
					return
				}
				n := w.waiting[rapid.IntRange(0, len(w.waiting)-1).Draw(t, "which")]
				settled[n.offset] = true
				w.settle(n)
			},
			"restore": restore,
			"": func(t *rapid.T) {
				var waiting []int64
				for _, n := range w.waiting {
					waiting = append(waiting, n.offset)
				}
				want := slices.DeleteFunc(slices.Clone(journal),
					func(offset int64) bool { return settled[offset] })
				if !slices.Equal(waiting, want) {
					t.Fatalf("%v wait, and should %v", waiting, want)
				}
				if at := w.position(); len(want) > 0 && at.Next != want[0] ||
					len(want) == 0 && (at.Next != end || at.Note != "") {
					t.Fatalf("the position is %+v", at)
				}
			},
		})
	})
}

func TestAFullWindowsNoteFits(t *testing.T) {
	w := &window{next: 1 << 62}
	notices := make([]*notice, maxWindow)
	for i := range notices {
		notices[i] = &notice{offset: int64(i+1) << 54}
		w.add(notices[i])
	}
	for _, n := range notices[1:] {
		w.settle(n)
	}
	if at := w.position(); len(at.Note) > streams.MaxNoteBytes || w.room() != 0 {
		t.Errorf("%d bytes, room for %d", len(at.Note), w.room())
	}
}

func TestADamagedNoteIsAnError(t *testing.T) {
	for _, note := range []string{"?", "gA"} {
		if w, err := restoreWindow(streams.Position{Next: 5, Note: note}); err == nil || w.next != 5 {
			t.Errorf("%q: %v", note, err)
		}
	}
}

// M3: what is given up, and when.
func TestGivingUp(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	temporary, outage := &Refusal{Temporary: true, Err: errors.New("452")},
		errors.New("refused connection")
	full := func() *window {
		w := &window{next: maxWindow}
		for i := range maxWindow {
			w.add(&notice{offset: int64(i), tries: giveUpTries, since: now})
		}
		return w
	}
	for name, c := range map[string]struct {
		err     error
		prepare func(w *window, n *notice)
		want    Outcome
	}{
		"no for now": {temporary, func(*window, *notice) {}, Retried},
		"no for three days": {
			temporary, func(_ *window, n *notice) { n.since = now.Add(-giveUpAfter) }, GivenUp,
		},
		"no for good": {
			&Refusal{Err: errors.New("550")}, func(*window, *notice) {}, Refused,
		},
		"an outage of three days": {
			outage, func(_ *window, n *notice) { n.since = now.Add(-giveUpAfter) }, Retried,
		},
		"in the way of others": {
			outage, func(w *window, _ *notice) { w.settle(w.waiting[7]) }, GivenUp,
		},
		"in the way of others, not for long": {
			outage,
			func(w *window, n *notice) { w.settle(w.waiting[7]); n.tries = giveUpTries - 1 },
			Retried,
		},
		"a full window that nobody got out of": {outage, func(*window, *notice) {}, Retried},
	} {
		s := &session{
			Mailer: New(Config{Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler)}),
			window: full(),
		}
		n := s.window.waiting[0]
		c.prepare(s.window, n)
		if got := s.judge(n, c.err); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
		if c.want == Retried && !n.due.After(now) {
			t.Errorf("%s: tried again at once", name)
		}
	}
}

// TestTriesWaitEverLonger: of a mail that is refused for now, up to five minutes.
func TestTriesWaitEverLonger(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := &session{
		Mailer: New(Config{Now: func() time.Time { return now }}),
		window: &window{},
	}
	n := &notice{since: now}
	for try := 1; try <= 12; try++ {
		longest := min(time.Second<<(try-1), 5*time.Minute)
		if s.judge(n, &Refusal{Temporary: true}) != Retried {
			t.Fatalf("try %d was the last", try)
		}
		if wait := n.due.Sub(now); wait < longest/2 || wait > longest {
			t.Errorf("after try %d: %s, want at most %s", try, wait, longest)
		}
	}
}
