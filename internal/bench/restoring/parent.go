package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
	"github.com/lumenhook/lumenhook/internal/terminal"
)

// child is a process that is measured.
type child = measuring.Process[event]

// begin starts a child; what it logs goes into the lab's folder.
func (l *lab) begin(c childFlags) (*child, error) {
	c.brokers, c.partitions = l.broker.Addr(), l.opt.partitions
	l.children++
	return measuring.Begin[event](measuring.Command{
		Args: c.args(),
		Log:  filepath.Join(l.dir, fmt.Sprintf("child-%d.log", l.children)),
	})
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
func attemptedAll(
	p *child, partitions []int32, within time.Duration,
) (last time.Time, err error) {
	err = p.Await(fmt.Sprintf("an attempt of each of %v", partitions), within,
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
