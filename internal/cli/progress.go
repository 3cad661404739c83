package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(stream any) bool {
	if p, is := stream.(*plain); is {
		stream = p.below
	}
	if _, edits := stream.(*term.Terminal); edits {
		return true
	}
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

const (
	barWidth      = 24               // of Bar
	barCells      = 30               // of Progress
	linesInterval = 10 * time.Second // between lines outside a terminal
)

// Progress shows the progress of a long operation, its rate and the remaining time. On a terminal
// it updates a single line. Otherwise it prints lines at the start, periodically and at the end.
type Progress struct {
	Unit     string // "": records
	out      io.Writer
	terminal bool
	now      func() time.Time

	mu          sync.Mutex
	began       time.Time // time of the first Show
	first       int64     // done before that
	done, total int64     // of the last report
	last        time.Time // when a report was last shown
	shown       bool      // the last report was shown
}

// NewProgress returns a Progress that writes to out. Its time starts with the first Show.
func NewProgress(out io.Writer) *Progress {
	b := &Progress{out: out, terminal: IsTerminal(out), now: time.Now}
	if p, is := out.(*plain); is {
		b.out = p.below // updating a line needs a control character
	}
	return b
}

// Show reports how many of total records are done. Both may grow.
func (b *Progress) Show(done, total int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if b.began.IsZero() {
		b.began, b.first = now, done
	}
	b.done, b.total, b.shown = done, total, false
	if b.terminal || now.Sub(b.last) >= linesInterval {
		b.print(now)
	}
}

func (b *Progress) print(now time.Time) {
	b.last, b.shown = now, true
	line := b.line(b.done, b.total, now.Sub(b.began))
	if b.terminal {
		fmt.Fprintf(b.out, "\r%s\x1b[K", line)
		return
	}
	fmt.Fprintln(b.out, line)
}

func (b *Progress) line(done, total int64, took time.Duration) string {
	part, drawn := 1.0, ""
	if total > 0 {
		part = float64(done) / float64(total)
	}
	if b.terminal {
		full := min(barCells, int(part*barCells))
		drawn = strings.Repeat("█", full) + strings.Repeat("░", barCells-full) + " "
	}
	rate := float64(done-b.first) / max(took.Seconds(), 0.001)
	line := fmt.Sprintf("%s%3.0f%%  %d of %d %s  %.0f/s", drawn, part*100, done, total,
		cmp.Or(b.Unit, "records"), rate)
	if left := total - done; left > 0 && rate >= 1 {
		line += "  " + (time.Duration(float64(left)/rate) * time.Second).String() + " left"
	}
	return line
}

// End finishes the line after the last report.
func (b *Progress) End() {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.began.IsZero(): // nothing was reported
	case b.terminal:
		fmt.Fprintln(b.out)
	case !b.shown:
		b.print(b.now())
	}
}

// Bar draws the completed share of the work.
func Bar(done, remaining uint32) string {
	share := float64(done) / float64(uint64(done)+uint64(remaining))
	full := int(share * barWidth)
	drawn := strings.Repeat("#", full) + strings.Repeat(".", barWidth-full)
	return fmt.Sprintf("[%s] %3.0f%%", drawn, 100*share)
}
