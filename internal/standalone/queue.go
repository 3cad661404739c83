package standalone

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// queueLines bounds the lines that are not printed yet.
	queueLines = 4096
	// closeMax bounds the wait for a blocked terminal.
	closeMax = 2 * time.Second
)

// lineQueue is a writer of lines that never blocks: a terminal that was paused by Ctrl-S, or a
// pager, must not delay deliveries. If too many lines wait, some are dropped, and that is
// reported.
type lineQueue struct {
	to    io.Writer
	lines chan []byte
	shown chan struct{} // closed when all is shown after Close

	mu      sync.Mutex
	closed  bool
	leftOut int
}

// newLineQueue starts printing written lines. The caller closes it.
func newLineQueue(to io.Writer) *lineQueue {
	t := &lineQueue{
		to:    to,
		lines: make(chan []byte, queueLines),
		shown: make(chan struct{}),
	}
	go t.show()
	return t
}

// Write queues a line, or drops it.
func (t *lineQueue) Write(line []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, io.ErrClosedPipe
	}
	select {
	case t.lines <- append([]byte(nil), line...):
	default:
		t.leftOut++
	}
	return len(line), nil
}

func (t *lineQueue) show() {
	defer close(t.shown)
	for line := range t.lines {
		_, _ = t.to.Write(line) // an error cannot be reported
		t.mu.Lock()
		n := t.leftOut
		if len(t.lines) > 0 {
			n = 0 // it is reported where the lines are missing: after those that wait
		} else {
			t.leftOut = 0
		}
		t.mu.Unlock()
		if n > 0 {
			fmt.Fprintf(t.to, "… %d lines were left out: "+
				"they came faster than they could be shown\n", n)
		}
	}
}

// Close prints the queued lines, unless the terminal does not accept it in time.
func (t *lineQueue) Close() {
	t.mu.Lock()
	t.closed = true
	close(t.lines)
	t.mu.Unlock()
	select {
	case <-t.shown:
	case <-time.After(closeMax):
	}
}
