package check

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"go.yaml.in/yaml/v3"
)

type ruleCase struct {
	alert, series string
	fires         bool
}

func TestRulesOfEndpointsFire(t *testing.T) {
	checkRules(t, []ruleCase{
		// The report: 63% of the attempts fail, and no event has FAILED yet.
		{"LumenhookAttemptsFailing", `lumenhook_attempts_total{status="2xx",error="",state="DELIVERED"} 0+37x30
			lumenhook_attempts_total{status="5xx",error="",state="WAITING"} 0+40x30
			lumenhook_attempts_total{status="none",error="TIMEOUT",state="WAITING"} 0+23x30`, true},
		{"LumenhookAttemptsFailing", `lumenhook_attempts_total{status="2xx",error="",state="DELIVERED"} 0+90x30
			lumenhook_attempts_total{status="5xx",error="",state="WAITING"} 0+10x30`, false},
		{"LumenhookAttemptsFailing", `lumenhook_attempts_total{status="5xx",error="",state="FAILED"} 9+0x30`, false},
		{"LumenhookEndpointsDown", `lumenhook_endpoints_down{instance="a"} 6x30
			lumenhook_endpoints_down{instance="b"} 6x30`, true},
		{"LumenhookEndpointsDown", `lumenhook_endpoints_down 0x30`, false},
	})
}

// The series of a process that is gone are missing or end in the middle (`_` is a missing point),
// so rules that compare values would not notice.
func TestRulesOfMissingProcessesFire(t *testing.T) {
	const (
		engine     = `lumenhook_engine_partitions{state="working",instance="a"} `
		restoring  = `lumenhook_engine_partitions{state="restoring",instance="a"} `
		goneEngine = `lumenhook_engine_partitions{state="working",instance="b"} 6x9 _x20`
		ready      = `lumenhook_ready{part="disk"} 1x30
			lumenhook_ready{part="engine"} 1x30
			`
	)
	checkRules(t, []ruleCase{
		{"LumenhookNoEngine", ready, true},
		{"LumenhookNoEngine", goneEngine, true},
		{"LumenhookNoEngine", engine + "0x30\n" + restoring + "12x30", true},
		{"LumenhookNoEngine", engine + "6x30\n" + goneEngine, false},
		{"LumenhookNoAPI", ready, true},
		{"LumenhookNoAPI", ready + `lumenhook_ready{part="api"} 1x9 _x20`, true},
		{"LumenhookNoAPI", ready + `lumenhook_ready{part="api"} 0x30`, false}, // LumenhookPartNotReady
		{"LumenhookNoProjector", ready, true},
		{"LumenhookNoProjector", ready + `lumenhook_ready{part="projector"} 1x30`, false},
		{"LumenhookNoFollower", `lumenhook_ledger_closed_timestamp_seconds 0x30`, true},
		{"LumenhookNoFollower", `lumenhook_ledger_closed_timestamp_seconds{instance="a"} 0x30
			lumenhook_ledger_closed_timestamp_seconds{instance="b"} 9x30`, false},
		{"LumenhookProcessGone", `up{job="lumenhook",instance="a"} 1x30
			up{job="lumenhook",instance="b"} 1x9 0x20
			up{job="other",instance="c"} 0x30`, true},
		{"LumenhookProcessGone", `up{job="lumenhook",instance="a"} 1x30`, false},
	})
}

// -1 means unknown, which is neither damaged nor complete.
func TestRulesOfTheHistoryFire(t *testing.T) {
	const damaged = `lumenhook_history_damaged_tables `
	checkRules(t, []ruleCase{
		{"LumenhookHistoryDamaged", damaged + `2x30`, true},
		{"LumenhookHistoryDamaged", damaged + `-1x30`, false},
		{"LumenhookHistoryUnchecked", damaged + `-1x30`, true},
		{"LumenhookHistoryUnchecked", damaged + `0x30`, false},
	})
}

// One of two engines cannot write snapshots, or restarts often.
func TestRulesOfFailingPartsFire(t *testing.T) {
	checkRules(t, []ruleCase{
		{"LumenhookPartRestarting", `lumenhook_part_restarts_total{part="engine",instance="a"} 0+0x30
			lumenhook_part_restarts_total{part="engine",instance="b"} 0+6x30
			lumenhook_part_restarts_total{part="follower",instance="c"} 0+0x30`, true},
		{"LumenhookPartRestarting", `lumenhook_part_restarts_total{part="engine"} 0x15 3x14`, false},
		{"LumenhookSnapshotsFailing", `lumenhook_snapshots_resting_partitions{instance="a"} 0x30
			lumenhook_snapshots_resting_partitions{instance="b"} 3x30`, true},
		{"LumenhookSnapshotsFailing", `lumenhook_snapshots_resting_partitions 0x30`, false},
	})
}

// checkRules evaluates the rules on series of half an hour with one point per minute, in the
// notation of `promtool test rules`.
func checkRules(t *testing.T, cases []ruleCase) {
	t.Helper()
	rules := expressions(t)
	for _, c := range cases {
		kept := seriesOf(t, c.series)
		engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1000, Timeout: time.Minute})
		query, err := engine.NewInstantQuery(t.Context(), kept, nil, rules[c.alert], time.Unix(30*60, 0))
		if err != nil {
			t.Fatal(err)
		}
		defer query.Close()
		found, err := query.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatal(err)
		}
		if fires := len(found) > 0; fires != c.fires || len(found) > 1 {
			t.Errorf("%s on %s: %v", c.alert, c.series, found)
		}
	}
}

func expressions(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "lumenhook.rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	by := make(map[string]string)
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			by[rule.Alert] = rule.Expr
		}
	}
	return by
}

// seriesOf returns series in memory for the Prometheus engine.
func seriesOf(t *testing.T, lines string) storage.Queryable {
	t.Helper()
	type one struct {
		labels labels.Labels
		storage.Series
	}
	var all []one
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		named, values, err := parser.ParseSeriesDesc(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{int64(i) * 60_000, v.Value})
			}
		}
		all = append(all, one{named, storage.NewListSeries(named, samples)})
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: func(
		_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher,
	) storage.SeriesSet {
		set := &seriesSet{}
		for _, s := range all {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool {
				return !m.Matches(s.labels.Get(m.Name))
			}) {
				set.left = append(set.left, s.Series)
			}
		}
		return set
	}}}
}

type seriesSet struct {
	now  storage.Series
	left []storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.now, s.left = s.left[0], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.now }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
