package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// terminalLines bounds what waits to be shown.
	terminalLines = 4096
	// terminalCloseMax bounds the wait for a terminal that takes nothing.
	terminalCloseMax = 2 * time.Second
)

// terminal is a writer that never waits: a terminal that was stopped by Ctrl-S, or
// a pager that nobody pages, must not hold deliveries back. When too much waits to
// be shown, lines are left out, and that is said.
type terminal struct {
	to    io.Writer
	lines chan []byte
	shown chan struct{} // closed when all is shown after Close

	mu      sync.Mutex
	closed  bool
	leftOut int
}

func newTerminal(to io.Writer) *terminal {
	t := &terminal{to: to, lines: make(chan []byte, terminalLines), shown: make(chan struct{})}
	go t.show()
	return t
}

// Write queues a line, or leaves it out.
func (t *terminal) Write(line []byte) (int, error) {
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

func (t *terminal) show() {
	defer close(t.shown)
	for line := range t.lines {
		_, _ = t.to.Write(line) // nobody is left to tell
		t.mu.Lock()
		n := t.leftOut
		if len(t.lines) > 0 {
			n = 0 // it is said where the lines are missing: behind those that wait
		} else {
			t.leftOut = 0
		}
		t.mu.Unlock()
		if n > 0 {
			fmt.Fprintf(t.to, "… %d lines were left out: they came faster than they could be shown\n", n)
		}
	}
}

// Close shows what waits, unless the terminal does not take it in time.
func (t *terminal) Close() {
	t.mu.Lock()
	t.closed = true
	close(t.lines)
	t.mu.Unlock()
	select {
	case <-t.shown:
	case <-time.After(terminalCloseMax):
	}
}
