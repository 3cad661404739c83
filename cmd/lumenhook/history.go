package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
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

// setRetention sets what was asked for, if anything was.
func (s *historySettings) setRetention(ctx context.Context, db *projections.DB) error {
	if s.retention == "" {
		return nil
	}
	if err := projections.SetRetention(ctx, db, s.keep); err != nil {
		return fmt.Errorf("--history-retention %q: %w", s.retention, err)
	}
	return nil
}

// Why there is no history, for those who ask for it.
const (
	historyFetched = "the ClickHouse engine that keeps it is still being fetched through npm, and what happens meanwhile will be in it"
	historyFailed  = "ClickHouse could not be started, and the service's terminal says why"
)

// lacks says why there is no history.
func (h *lateHistory) lacks(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why = why
}

// now is the history, or why there is none.
func (h *lateHistory) now() (*projections.History, *projections.Projector, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		return nil, nil, api.HistoryMissing{Why: h.why}
	}
	return h.of, h.projector, nil
}

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
		_, err := clickhouse.Ensure(ctx, clickhouse.Options{Progress: v.out.w, Logger: v.logger})
		if err == nil {
			break
		}
		if ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			v.out.line("no history yet, and it is tried again: %v", err)
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
		v.out.line("the history is there, and catches up")
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
	v.history.lacks(historyFailed)
	v.out.line("no history this time (GET /v1/events answers 503): %v", err)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.file.ClickHouse = nil
}

func (v *service) sayClickHouse() {
	v.mu.Lock()
	at := v.file.ClickHouse
	v.mu.Unlock()
	if at != nil {
		v.out.line("  ClickHouse %s   %s", at.Native, at.HTTP)
	}
}

// publish writes run.json.
func (v *service) publish() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.published = true
	return v.dir.writeRunFile(v.file)
}

// republish writes run.json anew if it is there.
func (v *service) republish() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.published {
		return nil
	}
	return v.dir.writeRunFile(v.file)
}

func (v *service) unpublish() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.published = false
	_ = os.Remove(v.dir.join(runFileName)) // the next start removes it too
}

// describe says how far the history is behind.
func (h *lateHistory) describe(ctx context.Context) string {
	records, err := h.lag(ctx)
	switch {
	case err != nil:
		return "how far it is behind is not known: " + err.Error()
	case records == 0:
		return "up to date"
	}
	return fmt.Sprintf("%d records behind", records)
}

// projectionLag gives the lag as metrics, asked for at each scrape.
type projectionLag struct {
	projector *projections.Projector
	records   *prometheus.Desc
	seconds   *prometheus.Desc
}

// lagWaitMax bounds what a scrape waits for the topics' ends.
const lagWaitMax = 2 * time.Second

func newProjectionLag(p *projections.Projector) projectionLag {
	return projectionLag{
		projector: p,
		records: prometheus.NewDesc("lumenhook_projection_lag_records",
			"Records, control records included, that are not in the history yet, of the partitions of this projector, by topic.", []string{"topic"}, nil),
		seconds: prometheus.NewDesc("lumenhook_projection_lag_seconds",
			"How old the oldest fact of the block written last was when it could be read.", nil, nil),
	}
}

func (l projectionLag) Describe(to chan<- *prometheus.Desc) {
	to <- l.records
	to <- l.seconds
}

// Collect leaves out what is not known: the broker may be away.
func (l projectionLag) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(l.seconds, prometheus.GaugeValue, l.projector.Status().Delay.Seconds())
	ctx, cancel := context.WithTimeout(context.Background(), lagWaitMax)
	defer cancel()
	by, err := l.projector.LagByTopic(ctx)
	if err != nil {
		return
	}
	for topic, records := range by {
		to <- prometheus.MustNewConstMetric(l.records, prometheus.GaugeValue, float64(records), topic)
	}
}
