package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/lumenhook/lumenhook/projections/writer"
)

const (
	// mostSkew is far more than with NTP; receivers refuse signatures that are five minutes off.
	mostSkew = time.Minute
	// someSkew shows that a clock is not kept. A Date of HTTP is of whole seconds.
	someSkew = 3 * time.Second
)

// clock holds this host's clock against each that can be asked.
func (cfg *Config) clock(ctx context.Context, f *findings) {
	told := 0
	for _, ask := range []func(context.Context, *findings) int{
		cfg.kafkaClock, cfg.clickhouseClock, cfg.ledgerClocks,
	} {
		told += ask(ctx, f)
	}
	if told == 0 {
		f.add(Warning, "see that the clock is kept by NTP (`timedatectl`)",
			"nobody that was asked tells the time, so the clock of this host was held against none")
	}
}

func (cfg *Config) kafkaClock(ctx context.Context, f *findings) int {
	if len(cfg.Cluster.Brokers) == 0 || cfg.Cluster.Listening(ctx) != nil {
		return 0 // the check of Kafka says so
	}
	before := cfg.Now()
	at, known, err := cfg.Cluster.Clock(ctx)
	if err != nil {
		f.add(Warning, "grant the user what `lumenhook topics acls` prints",
			"Kafka does not tell its time: %s", f.explain(err))
	}
	if err != nil || !known {
		return 0
	}
	return skew("Kafka's controller", before, at, cfg.Now(), f)
}

func (cfg *Config) clickhouseClock(ctx context.Context, f *findings) (told int) {
	if cfg.ClickHouse == "" {
		return 0
	}
	db, err := writer.Open(cfg.ClickHouse)
	if err != nil {
		return 0
	}
	defer db.Close()
	states, errs := db.Clocks(ctx, cfg.Now)
	for i, state := range states {
		if errs[i] == nil {
			told += skew("ClickHouse at "+state.Address, state.Asked[0], state.Clock, state.Asked[1], f)
		}
	}
	return told
}

func (cfg *Config) ledgerClocks(ctx context.Context, f *findings) (told int) {
	for _, server := range cfg.Clocks {
		before := cfg.Now()
		_, _ = server.Source.Report(ctx) // its problems are another check's
		if its, at := server.Clock(); !its.IsZero() {
			// It was any time of that second.
			told += skew(server.Name, before, its.Add(time.Second/2), at, f)
		}
	}
	return told
}

// skew compares a time with this host's before and after the question.
func skew(whose string, before, its, after time.Time, f *findings) int {
	off, which := its.Sub(after), "behind"
	if early := before.Sub(its); early > off {
		off, which = early, "ahead of"
	}
	said := fmt.Sprintf("the clock of this host is %s %s that of %s",
		max(0, off).Round(100*time.Millisecond), which, whose)
	switch {
	case off > mostSkew:
		f.add(Problem, "set both by NTP: brokers refuse records of the future, and receivers signatures "+
			"that are five minutes off", "%s", said)
	case off > someSkew:
		f.add(Warning, "set both by NTP", "%s", said)
	default:
		f.ok("the clock of this host agrees with that of %s", whose)
	}
	return 1
}
