package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

const (
	barWidth      = 24              // of Bar
	barCells      = 30              // of Progress
	linesInterval = 5 * time.Second // between two lines where there is no terminal
)

// Progress shows how far a long piece of work is, with its rate and the time that
// remains: on a terminal in one line that changes, else in a line now and then.
type Progress struct {
	out      io.Writer
	terminal bool

	mu     sync.Mutex
	began  time.Time // of the first Show
	first  int64     // done before it
	last   time.Time
	showed bool
}

// NewProgress shows it on out. Its time begins with the first Show.
func NewProgress(out io.Writer) *Progress {
	return &Progress{out: out, terminal: isTerminal(out)}
}

// Show reports that so many records are done of all. Both may grow.
func (b *Progress) Show(done, total int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.began.IsZero() {
		b.began, b.first = now, done
	}
	if !b.terminal && now.Sub(b.last) < linesInterval {
		return
	}
	b.last, b.showed = now, true
	line := b.line(done, total, now.Sub(b.began))
	if b.terminal {
		fmt.Fprintf(b.out, "\r%s\x1b[K", line)
		return
	}
	fmt.Fprintln(b.out, line)
}

func (b *Progress) line(done, total int64, took time.Duration) string {
	part := 1.0
	if total > 0 {
		part = float64(done) / float64(total)
	}
	full := min(barCells, int(part*barCells))
	rate := float64(done-b.first) / max(took.Seconds(), 0.001)
	drawn := strings.Repeat("█", full) + strings.Repeat("░", barCells-full)
	line := fmt.Sprintf("%s %3.0f%%  %d of %d records  %.0f/s", drawn, part*100, done, total, rate)
	if left := total - done; left > 0 && rate >= 1 {
		line += "  " + (time.Duration(float64(left)/rate) * time.Second).String() + " left"
	}
	return line
}

// End leaves the line.
func (b *Progress) End() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.terminal && b.showed {
		fmt.Fprintln(b.out)
	}
}

// Bar draws what is done of all there is to do.
func Bar(done, remaining uint32) string {
	share := float64(done) / float64(uint64(done)+uint64(remaining))
	full := int(share * barWidth)
	drawn := strings.Repeat("#", full) + strings.Repeat(".", barWidth-full)
	return fmt.Sprintf("[%s] %3.0f%%", drawn, 100*share)
}
