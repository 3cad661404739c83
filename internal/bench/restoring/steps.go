package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

const (
	aimCold     = 10.0 // seconds
	aimLocal    = 2.0
	aimTakeOver = 1.0
	aimTopics   = 3.0 // times the live state
	aimCost     = 5.0 // percent

	restoreMax = 10 * time.Minute
	foldMax    = time.Hour
)

// appendEach appends a match for each endpoint, and so for each partition.
func (l *lab) appendEach(ctx context.Context) error {
	records := make([]streams.Record, 0, endpoints)
	for range endpoints {
		records = append(records, match("more", l.appended))
		l.appended++
	}
	return l.producer.Append(ctx, records...)
}

func (l *lab) everyPartition() (list []int32) {
	for p := range l.opt.partitions {
		list = append(list, int32(p)) // #nosec G115 -- a few
	}
	return list
}

// cold measures engines without local state: until every partition has made an attempt.
func (l *lab) cold(ctx context.Context) error {
	during := measuring.Meanwhile()
	var took, used []float64
	for n := range l.opt.times {
		dir := filepath.Join(l.dir, fmt.Sprintf("cold-%d", n))
		seconds, processor, err := l.restore(ctx, dir, true, syscall.SIGTERM)
		if err != nil {
			return err
		}
		took, used = append(took, seconds), append(used, processor)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	l.results.add(during(), "cold: process start to the first attempt of every partition", "s",
		aimCold, took...)
	l.results.add(during(), "cold: processor time of the engine", "s", 0, used...)
	return nil
}

// local measures engines that find the state of one before, which ended in order or was killed.
func (l *lab) local(ctx context.Context) error {
	dir := filepath.Join(l.dir, "local")
	for _, by := range []struct {
		how  syscall.Signal
		what string
	}{
		{syscall.SIGTERM, "local state: process start to the first attempt of every partition"},
		{syscall.SIGKILL, "the same after SIGKILL"},
	} {
		if _, _, err := l.restore(ctx, dir, true, by.how); err != nil {
			return err
		}
		during := measuring.Meanwhile()
		var took []float64
		for range l.opt.times {
			seconds, _, err := l.restore(ctx, dir, false, by.how)
			if err != nil {
				return err
			}
			took = append(took, seconds)
		}
		l.results.add(during(), by.what, "s", aimLocal, took...)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// restore runs an engine until every partition has made an attempt, of a match that was
// appended before it was started, and ends it by a signal.
func (l *lab) restore(
	ctx context.Context, dir string, fromSnapshots bool, end syscall.Signal,
) (seconds, processor float64, err error) {
	if err := l.appendEach(ctx); err != nil {
		return 0, 0, err
	}
	// With a name it has its partitions again at once, also after it was killed.
	p, err := l.begin(childFlags{kind: "engine", dir: dir, snapshots: true, name: "restored"})
	if err != nil {
		return 0, 0, err
	}
	last, err := attemptedAll(p, l.everyPartition(), restoreMax)
	if err != nil {
		return 0, 0, errors.Join(err, p.Stop(syscall.SIGKILL))
	}
	used, err := measuring.ProcessorTime(p.PID())
	if err := errors.Join(err, p.Stop(end)); err != nil {
		return 0, 0, err
	}
	log, err := os.ReadFile(p.Log())
	if err != nil {
		return 0, 0, err
	}
	want := 0
	if fromSnapshots {
		want = l.opt.partitions
	}
	if n := bytes.Count(log, []byte("was loaded from a snapshot")); n != want {
		return 0, 0, fmt.Errorf("%d states were loaded from snapshots, want %d; see %s", n, want, p.Log())
	}
	return last.Sub(p.Began).Seconds(), used.Seconds(), nil
}

// fold measures the fold of the whole journal, beside that of the newest snapshots and what
// follows them, and compares the states.
func (l *lab) fold(ctx context.Context) error {
	whole, during, took, err := l.foldOnce("whole", false)
	if err != nil {
		return err
	}
	var facts float64
	for _, s := range whole {
		facts += float64(s.Next)
	}
	l.results.add(during, "the whole journal folded", "s", 0, took)
	l.results.add(during, "offsets of the journal", "", 0, facts)
	byTopic, err := topicBytes(filepath.Join(l.dir, "broker"))
	if err != nil {
		return err
	}
	l.results.add(during, "bytes of the journal", "MB", 0, float64(byTopic[schemas.TopicJournal])/1e6)
	short, during, took, err := l.foldOnce("short", true)
	if err != nil {
		return err
	}
	l.results.add(during, "the same from snapshots, without group and turns", "s", 0, took)
	for i := range whole {
		if whole[i] != short[i] {
			return fmt.Errorf("the states differ: by the journal %+v, by a snapshot %+v", whole[i], short[i])
		}
	}
	say("  the states by the whole journal and by the snapshots are equal")
	l.results.live = 0
	for _, s := range whole {
		l.results.live += float64(s.Bytes)
	}
	l.results.add(during, "live state: keys and values", "MB", 0, l.results.live/1e6)
	return ctx.Err()
}

func (l *lab) foldOnce(name string, snapshots bool) ([]stateSize, measuring.Load, float64, error) {
	dir := filepath.Join(l.dir, "fold-"+name)
	defer os.RemoveAll(dir)
	during := measuring.Meanwhile()
	p, err := l.begin(childFlags{kind: "fold", dir: dir, snapshots: snapshots})
	if err != nil {
		return nil, measuring.Load{}, 0, err
	}
	var done, counted event
	err = p.Await("the fold", foldMax, func(events []event) bool {
		for _, e := range events {
			switch e.Kind {
			case eventDone:
				done = e
			case eventState:
				counted = e
			}
		}
		return counted.States != nil
	})
	if err != nil {
		return nil, measuring.Load{}, 0, errors.Join(err, p.Stop(syscall.SIGKILL))
	}
	<-p.Ended
	return counted.States, during(), time.Unix(0, done.At).Sub(p.Began).Seconds(), p.Err
}
