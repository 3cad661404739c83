package nodeflags

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/projections"
)

// historyFlags are those of writing the history.
type historyFlags struct {
	blockRows int
	blockWait time.Duration
	lagMax    int64
	retention string
	keep      time.Duration
}

func (s *historyFlags) register(f *pflag.FlagSet) {
	f.IntVar(&s.blockRows, "history-block-rows", 50_000,
		"records after which a block of history is written")
	f.DurationVar(&s.blockWait, "history-block-wait", 200*time.Millisecond, "time after which a "+
		"block of history is written, however small: less is fresher, and more work for ClickHouse. "+
		"In run it is five times as long while the API is not asked for events")
	f.Int64Var(&s.lagMax, "history-lag-max", 1_000_000,
		"records that the history may be behind before /readyz fails")
	f.StringVar(&s.retention, "history-retention", "", "after how many days rows of the history "+
		"are deleted, such as 90d; 0 keeps everything. Not given, it stays as it is")
}

// check returns every fault.
func (s *historyFlags) check() (faults []error) {
	if s.blockRows < 1 || s.blockRows > 1_000_000 {
		faults = append(faults,
			fmt.Errorf("--history-block-rows %d: must be from 1 to 1000000", s.blockRows))
	}
	if s.blockWait < time.Millisecond || s.blockWait > time.Minute {
		faults = append(faults,
			fmt.Errorf("--history-block-wait %s: must be from 1ms to 1m", s.blockWait))
	}
	if s.lagMax < 1 {
		faults = append(faults, fmt.Errorf("--history-lag-max %d: must be at least 1", s.lagMax))
	}
	if s.retention == "" {
		return faults
	}
	var err error
	if s.keep, err = cli.ParseDays(s.retention); err == nil {
		err = projections.CheckRetention(s.keep)
	}
	if err != nil {
		faults = append(faults, fmt.Errorf("--history-retention %q: %w", s.retention, err))
	}
	return faults
}

// config returns the history's configuration; without a database it is set later.
func (s *historyFlags) config(dsn string) node.HistoryConfig {
	c := node.HistoryConfig{
		DSN:       dsn,
		LagMax:    s.lagMax,
		BlockRows: s.blockRows,
		BlockWait: s.blockWait,
	}
	if s.retention != "" {
		c.Keep = &s.keep
	}
	return c
}
