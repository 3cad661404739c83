package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
	"github.com/lumenhook/lumenhook/streams"
)

const (
	warmMax = 5 * time.Minute
	// paceEvery is how often each partition gets matches while it is taken over.
	paceEvery = 50 * time.Millisecond
)

// takeOvers measures how long partitions of an engine that ends make no attempt, when others
// have a copy of them: from the signal, by which it drains and leaves, or dies.
func (l *lab) takeOvers(ctx context.Context) error {
	engines := 0
	next := func() (*child, error) {
		engines++
		dir := filepath.Join(l.dir, fmt.Sprintf("takeover-%d", engines%2))
		return l.begin(childFlags{kind: "engine", dir: dir, replicas: 1, snapshots: true})
	}
	owner, err := next()
	if err != nil {
		return err
	}
	err = owner.Await("every partition", warmMax, func(events []event) bool {
		return len(latest(events).Owned) == l.opt.partitions
	})
	by := make(map[syscall.Signal][]float64)
	during := measuring.Meanwhile()
	signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}
	for n := range 2 * l.opt.times {
		if err != nil {
			break
		}
		var heir *child
		if heir, err = next(); err != nil {
			break
		}
		how := signals[n/l.opt.times]
		var took float64
		if took, err = l.takeOver(owner, heir, how); err == nil {
			by[how] = append(by[how], took)
		}
		owner = heir
	}
	if err = errors.Join(err, owner.Stop(syscall.SIGTERM)); err != nil {
		return err
	}
	l.results.add(during(), "take-over by a standby: SIGTERM to the last partition's first attempt",
		"s", aimTakeOver, by[syscall.SIGTERM]...)
	l.results.add(during(), "the same from SIGKILL, less the session of 6 s", "s", aimTakeOver,
		less(by[syscall.SIGKILL], streams.SessionTimeout.Seconds())...)
	return ctx.Err()
}

func less(values []float64, by float64) (list []float64) {
	for _, v := range values {
		list = append(list, v-by)
	}
	return list
}

// takeOver ends an owner once two engines have half of the partitions each, and a copy of the
// other half.
func (l *lab) takeOver(owner, heir *child, how syscall.Signal) (seconds float64, err error) {
	half := l.opt.partitions / 2
	shared := func(events []event) bool {
		has := latest(events)
		return len(has.Owned) >= half && len(has.Owned)+len(has.Standing) == l.opt.partitions
	}
	for _, p := range []*child{owner, heir} {
		err := p.Await("half of the partitions, and a copy of the others", warmMax, shared)
		if err != nil {
			return 0, err
		}
	}
	orphans := latest(owner.Events()).Owned
	stop := l.pace(paceEvery)
	<-time.After(2 * time.Second)
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- owner.Stop(how) }()
	last, err := attemptedAll(heir, orphans, warmMax)
	return last.Sub(began).Seconds(), errors.Join(err, stop(), <-ended)
}
