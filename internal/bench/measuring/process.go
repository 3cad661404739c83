package measuring

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/orphans"
)

// Command is a program to be measured.
type Command struct {
	Program string // empty: this one
	Args    []string
	Input   []byte
	Dir     string   // where it works; empty: here
	Env     []string // beside this one's
	Log     string   // a file for what it prints, but for its events
}

// Process is a running one. Each line of its standard output that is a JSON object is an
// event.
type Process[E any] struct {
	Began time.Time // just before it was started
	Ended chan struct{}
	Err   error // of its end

	cmd     *exec.Cmd
	log     string
	mu      sync.Mutex
	events  []E
	changed chan struct{} // closed at the next event
}

// Begin starts a process. It is killed when this one ends.
func Begin[E any](c Command) (*Process[E], error) {
	if c.Program == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		c.Program = self
	}
	p := &Process[E]{
		cmd:     exec.Command(c.Program, c.Args...), // #nosec G204 -- the benchmark's own
		log:     c.Log,
		Ended:   make(chan struct{}),
		changed: make(chan struct{}),
	}
	p.cmd.Dir, p.cmd.Env = c.Dir, append(os.Environ(), c.Env...)
	p.cmd.Stdin, p.cmd.SysProcAttr = bytes.NewReader(c.Input), orphans.Killed()
	if p.cmd.SysProcAttr != nil {
		p.cmd.SysProcAttr.Setpgid = true // what a terminal interrupts is this process alone
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p.cmd.Stderr = log
	p.Began = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() {
		defer close(p.Ended)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			p.read(lines.Bytes(), log)
		}
		p.Err = errors.Join(lines.Err(), p.cmd.Wait(), log.Close())
	}()
	return p, nil
}

func (p *Process[E]) read(line []byte, log *os.File) {
	var e E
	if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &e) != nil {
		_, _ = log.Write(append(line, '\n'))
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	close(p.changed)
	p.changed = make(chan struct{})
}

// PID is its number.
func (p *Process[E]) PID() int { return p.cmd.Process.Pid }

// Log is the file of what it printed.
func (p *Process[E]) Log() string { return p.log }

// Events are those that it has reported so far.
func (p *Process[E]) Events() []E {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

// Await waits until its events are what is waited for.
func (p *Process[E]) Await(what string, within time.Duration, is func([]E) bool) error {
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		p.mu.Lock()
		came, changed := is(p.events), p.changed
		p.mu.Unlock()
		if came {
			return nil
		}
		select {
		case <-changed:
			continue
		case <-p.Ended:
		case <-late.C:
			return fmt.Errorf("after %s there is not yet: %s; see %s", within, what, p.log)
		}
		if is(p.Events()) { // its last event came with its end
			return nil
		}
		return fmt.Errorf("a process ended before %s: %v; see %s", what, p.Err, p.log)
	}
}

// Stop ends it by a signal and waits for that. One that is killed has no error.
func (p *Process[E]) Stop(how syscall.Signal) error {
	if err := p.cmd.Process.Signal(how); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.Ended
	if how == syscall.SIGKILL || p.Err == nil {
		return nil
	}
	return fmt.Errorf("%w; see %s", p.Err, p.log)
}
