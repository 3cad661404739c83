package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/terminal"
)

// child is a process that is measured.
type child struct {
	cmd   *exec.Cmd
	log   string
	began time.Time // just before it was started
	ended chan struct{}
	err   error

	mu      sync.Mutex
	events  []event
	changed chan struct{} // closed at the next event
}

// begin starts a child; what it logs goes into the lab's folder.
func (l *lab) begin(c childFlags) (*child, error) {
	c.brokers, c.partitions = l.broker.Addr(), l.opt.partitions
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	l.children++
	p := &child{
		cmd:     exec.Command(program, c.args()...), // #nosec G204 -- itself
		log:     filepath.Join(l.dir, fmt.Sprintf("child-%d.log", l.children)),
		ended:   make(chan struct{}),
		changed: make(chan struct{}),
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	p.cmd.Stderr = log
	p.began = time.Now()
	if err := errors.Join(p.cmd.Start(), log.Close()); err != nil {
		return nil, err
	}
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				p.note(e)
			}
		}
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (p *child) note(e event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	close(p.changed)
	p.changed = make(chan struct{})
}

// await waits until the events of a child are what is waited for.
func (p *child) await(what string, within time.Duration, is func([]event) bool) error {
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
		case <-p.ended:
			return fmt.Errorf("a child ended before %s: %v; see %s", what, p.err, p.log)
		case <-late.C:
			return fmt.Errorf("after %s there is not yet: %s; see %s", within, what, p.log)
		}
	}
}

// firsts returns when the first attempts were made, by partition.
func firsts(events []event) map[int32]time.Time {
	by := make(map[int32]time.Time)
	for _, e := range events {
		if e.Kind == eventFirst {
			by[e.Partition] = time.Unix(0, e.At)
		}
	}
	return by
}

// latest returns what partitions a child has, as it reported last.
func latest(events []event) event {
	for _, e := range slices.Backward(events) {
		if e.Kind == eventState {
			return e
		}
	}
	return event{}
}

// attemptedAll waits for the first attempt of each of these partitions, and returns when the
// last of them came.
func (p *child) attemptedAll(partitions []int32, within time.Duration) (last time.Time, err error) {
	err = p.await(fmt.Sprintf("an attempt of each of %v", partitions), within,
		func(events []event) bool {
			by := firsts(events)
			last = time.Time{}
			for _, n := range partitions {
				at, is := by[n]
				if !is {
					return false
				}
				if at.After(last) {
					last = at
				}
			}
			return true
		})
	return last, err
}

// stop terminates a child and waits for its end.
func (p *child) stop(how syscall.Signal) error {
	if err := p.cmd.Process.Signal(how); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	if how == syscall.SIGKILL {
		return nil
	}
	return p.err
}

// processorTime is what a process has used so far.
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	const user, system, ticksASecond = 11, 12, 100
	if len(fields) <= system {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var ticks int64
	for _, at := range []int{user, system} {
		n, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksASecond, nil
}

// pace appends a match for each partition again and again, until it is stopped.
func (l *lab) pace(every time.Duration) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case <-tick.C:
			}
			if err := l.appendEach(ctx); err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
		}
	}()
	return func() error {
		cancel()
		return <-ended
	}
}

// waited shows a bar until something is done.
func (l *lab) waited(total int64, done func() int64) (stop func()) {
	bar := terminal.NewProgress(os.Stderr)
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		defer bar.End()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			bar.Show(min(done(), total), total)
			select {
			case <-ctx.Done():
				bar.Show(min(done(), total), total)
				return
			case <-tick.C:
			}
		}
	})
	return func() { cancel(); ended.Wait() }
}
