package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/projections"
)

// historySettings are the flags of what writes the history.
type historySettings struct {
	blockRows int
	blockWait time.Duration
	lagMax    int64
	retention string
	keep      time.Duration
}

func (s *historySettings) register(f *pflag.FlagSet) {
	f.IntVar(&s.blockRows, "history-block-rows", 50_000, "records after which a block of history is written")
	f.DurationVar(&s.blockWait, "history-block-wait", 200*time.Millisecond, "time after which a block of history is written, however small: less is fresher, and more work for ClickHouse")
	f.Int64Var(&s.lagMax, "history-lag-max", 1_000_000, "records that the history may be behind before /readyz fails")
	f.StringVar(&s.retention, "history-retention", "", "after how many days rows of the history are deleted, such as 90d; 0 keeps everything. Not given, it stays as it is")
}

// check returns every fault.
func (s *historySettings) check() (faults []error) {
	if s.blockRows < 1 || s.blockRows > 1_000_000 {
		faults = append(faults, fmt.Errorf("--history-block-rows %d: must be from 1 to 1000000", s.blockRows))
	}
	if s.blockWait < time.Millisecond || s.blockWait > time.Minute {
		faults = append(faults, fmt.Errorf("--history-block-wait %s: must be from 1ms to 1m", s.blockWait))
	}
	if s.lagMax < 1 {
		faults = append(faults, fmt.Errorf("--history-lag-max %d: must be at least 1", s.lagMax))
	}
	if s.retention == "" {
		return faults
	}
	var err error
	if s.keep, err = parseDays(s.retention); err == nil {
		err = projections.CheckRetention(s.keep)
	}
	if err != nil {
		faults = append(faults, fmt.Errorf("--history-retention %q: %w", s.retention, err))
	}
	return faults
}

// config is the history of a database that is given later; it may be away at the
// start where it is another's to start.
func (s *historySettings) config(mayBeAway bool) node.HistoryConfig {
	c := node.HistoryConfig{
		LagMax: s.lagMax, BlockRows: s.blockRows, BlockWait: s.blockWait, MayBeAway: mayBeAway,
	}
	if s.retention != "" {
		c.Keep = &s.keep
	}
	return c
}

// Why there is no history, for those who ask for it.
const (
	historyFetched = "the ClickHouse engine that keeps it is still being fetched through npm, and what happens meanwhile will be in it"
	historyFailed  = "ClickHouse could not be started, and the service's terminal says why"
)

// Waits between attempts to fetch the ClickHouse engine.
const (
	fetchWaitMin = 10 * time.Second
	fetchWaitMax = 10 * time.Minute
)

// historyLater fetches the ClickHouse engine, however long that takes, and starts
// the history then.
func (v *service) historyLater(ctx context.Context) error {
	told := ""
	for wait := fetchWaitMin; ; wait = min(2*wait, fetchWaitMax) {
		_, err := clickhouse.Ensure(ctx, clickhouse.Options{Progress: v.terminal, Logger: v.Logger})
		if err == nil {
			break
		}
		if ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			v.out.Say("no history yet, and it is tried again: %v", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
	if err := v.tryHistory(ctx); err != nil && ctx.Err() == nil {
		v.noHistory(err)
	} else if err == nil {
		v.out.Say("the history is there, and catches up")
		v.sayClickHouse()
		if err := v.republish(); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// noHistory says why the service goes without one this time.
func (v *service) noHistory(err error) {
	v.node.History().Lacks(historyFailed)
	v.out.Say("no history this time (GET /v1/events answers 503): %v", err)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.file.ClickHouse = nil
}

func (v *service) sayClickHouse() {
	v.mu.Lock()
	at := v.file.ClickHouse
	v.mu.Unlock()
	if at != nil {
		v.out.Say("  ClickHouse %s   %s", at.Native, at.HTTP)
	}
}

// publish writes run.json.
func (v *service) publish() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.published = true
	return v.dir.Publish(v.file)
}

// republish writes run.json anew if it is there.
func (v *service) republish() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.published {
		return nil
	}
	return v.dir.Publish(v.file)
}

func (v *service) unpublish() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.published = false
	_ = v.dir.Unpublish() // the next start removes it too
}
