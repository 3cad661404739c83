package terminal

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Lines prints what happens, in one line each with the time of day. Its Say may be called
// from any goroutine.
type Lines struct {
	mu sync.Mutex
	w  io.Writer
}

// NewLines writes to w.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Say writes a line.
func (l *Lines) Say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, time.Now().Format("15:04:05.000")+"  "+format+"\n", args...)
}
