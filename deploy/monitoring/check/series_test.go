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

// TestRulesOfEndpointsFire: on series of half an hour, a point each minute, in the notation of
// `promtool test rules`. Each rule that uses attempts or endpoints is here.
func TestRulesOfEndpointsFire(t *testing.T) {
	rules := expressions(t)
	for _, c := range []struct {
		alert, series string
		fires         bool
	}{
		// The case of the report: 63% of the attempts fail, and no event has FAILED yet.
		{"LumenhookAttemptsFailing", `lumenhook_attempts_total{status="2xx",error="",state="DELIVERED"} 0+37x30
			lumenhook_attempts_total{status="5xx",error="",state="WAITING"} 0+40x30
			lumenhook_attempts_total{status="none",error="TIMEOUT",state="WAITING"} 0+23x30`, true},
		{"LumenhookAttemptsFailing", `lumenhook_attempts_total{status="2xx",error="",state="DELIVERED"} 0+90x30
			lumenhook_attempts_total{status="5xx",error="",state="WAITING"} 0+10x30`, false},
		{"LumenhookAttemptsFailing", `lumenhook_attempts_total{status="5xx",error="",state="FAILED"} 9+0x30`, false},
		{"LumenhookEndpointsDown", `lumenhook_endpoints_down{instance="a"} 6x30
			lumenhook_endpoints_down{instance="b"} 6x30`, true},
		{"LumenhookEndpointsDown", `lumenhook_endpoints_down 0x30`, false},
	} {
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

// expressions are those of the alerts, by name.
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

// seriesOf keeps series in memory for Prometheus' engine, a point each minute.
func seriesOf(t *testing.T, lines string) storage.Queryable {
	t.Helper()
	type one struct {
		labels labels.Labels
		storage.Series
	}
	var all []one
	for line := range strings.Lines(lines) {
		named, values, err := parser.ParseSeriesDesc(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			samples = append(samples, sample{int64(i) * 60_000, v.Value})
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

// seriesSet gives series one by one.
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

// sample is a point of a series.
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
