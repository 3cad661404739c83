package node

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/task"
)

// Metrics are the metrics at /metrics. Labels have few values, and are never an identifier, an
// address or a URL.
type Metrics struct {
	registry *prometheus.Registry

	facts          *prometheus.CounterVec
	attempts       *prometheus.CounterVec
	attemptSeconds prometheus.Histogram
	ledger         prometheus.Gauge
	ledgerAt       prometheus.Gauge
	payments       prometheus.Counter
	observed       prometheus.Counter
	matches        prometheus.Counter
	quarantined    prometheus.Counter
	refused        prometheus.Counter
	sourcesLeft    *prometheus.CounterVec
	requests       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
	closeToMatch   prometheus.Histogram
	mails          *prometheus.CounterVec
	deadLetters    *prometheus.CounterVec
	restarts       *prometheus.CounterVec
	turnSeconds    *prometheus.HistogramVec
	turnRecords    prometheus.Histogram
	kafka          *KafkaMetrics
}

// NewMetrics returns the metrics of a process.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		facts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lumenhook_facts_total",
			Help: "Facts that this process committed to the journal, by type.",
		}, []string{"type"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lumenhook_attempts_total",
			Help: "Delivery attempts, by status class (none: no response), error code (empty: " +
				"none) and resulting state.",
		}, []string{"status", "error", "state"}),
		attemptSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "lumenhook_attempt_duration_seconds",
			Help:    "Time from the start of an attempt to its end.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12),
		}),
		ledger: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lumenhook_ledger_sequence",
			Help: "Sequence of the last ledger that this follower read.",
		}),
		ledgerAt: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lumenhook_ledger_closed_timestamp_seconds",
			Help: "Close time of the last ledger that this follower read, in Unix time.",
		}),
		payments: counter("lumenhook_payments_total",
			"Payments in the ledgers that this follower read, to any wallet."),
		observed: counter("lumenhook_payments_observed_total",
			"Payments to watched wallets in the ledgers that this follower read."),
		matches: counter("lumenhook_matches_total",
			"Payments that match a watch, in the ledgers that this follower read."),
		quarantined: counter("lumenhook_transactions_quarantined_total",
			"Transactions that could not be decoded. Payments in them are not reported. Investigate any "+
				"increase."),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lumenhook_api_requests_total",
			Help: "Requests that the API answered, by route, method and status.",
		}, []string{"route", "method", "status"}),
		requestSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "lumenhook_api_request_duration_seconds",
			Help:    "Time to answer a request, by route.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2.5, 12),
		}, []string{"route"}),
		closeToMatch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "lumenhook_ledger_close_to_match_seconds",
			Help:    "Time from a ledger's close (in whole seconds) until its matches were appended.",
			Buckets: prometheus.ExponentialBuckets(0.125, 2, 10),
		}),
	}
	m.addTurns()
	m.addSetAside()
	m.kafka = NewKafkaMetrics(m.registry)
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.facts, m.attempts, m.attemptSeconds, m.ledger, m.ledgerAt, m.payments, m.observed, m.matches,
		m.quarantined, m.refused, m.sourcesLeft,
		m.requests, m.requestSeconds, m.closeToMatch, m.mails, m.deadLetters, m.turnSeconds,
		m.turnRecords, m.restarts,
	)
	return m
}

func (m *Metrics) addSetAside() {
	m.refused = counter("lumenhook_ledgers_refused_total",
		"Ledgers from a source that don't match their hashes, counted each time. Investigate any "+
			"increase.")
	m.sourcesLeft = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lumenhook_ledger_sources_left_total",
		Help: "Times that one of several ledger sources was left out for a while, by source and " +
			"reason. Investigate refused, forked and disagrees.",
	}, []string{"source", "reason"})
	m.restarts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lumenhook_part_restarts_total",
		Help: "Restarts after a failure in this process, by part, including the engine's partitions, " +
			"the follower's reader and the projector's writer. Investigate frequent restarts.",
	}, []string{"part"})
	m.mails = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lumenhook_mails_total",
		Help: "Emails about disabled endpoints, by the outcome that this process committed to the " +
			"journal. A retried email has another outcome later. Investigate refused and given_up.",
	}, []string{"outcome"})
	m.deadLetters = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lumenhook_dead_letters_total",
		Help: "Unreadable records that were set aside or skipped, by topic and reader. " +
			"Investigate any increase with lumenhook topics cat dead-letters.",
	}, []string{"topic", "reader"})
	for _, topic := range engine.Inputs() {
		m.deadLetters.WithLabelValues(topic, readerEngine)
	}
	for _, outcome := range domain.MailOutcomes() {
		m.mails.WithLabelValues(string(outcome))
	}
}

func (m *Metrics) addTurns() {
	m.turnSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "lumenhook_turn_duration_seconds",
		Help: "Duration of an engine's turns that wrote something, by phase: decide, commit (the " +
			"Kafka transaction), settle (the state).",
		Buckets: prometheus.ExponentialBuckets(0.0002, 2.5, 12),
	}, []string{"phase"})
	m.turnRecords = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "lumenhook_turn_records",
		Help:    "Records written by a turn of the engine in one transaction.",
		Buckets: prometheus.ExponentialBuckets(1, 4, 8),
	})
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func (m *Metrics) gauge(name, help string, value func() float64) {
	opts := prometheus.GaugeOpts{Name: name, Help: help}
	m.registry.MustRegister(prometheus.NewGaugeFunc(opts, value))
}

// Build exports the program's version, so that a rolling upgrade shows which processes are old.
func (m *Metrics) Build(version, commit string) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "lumenhook_build_info",
		Help:        "Always 1. The labels have the version of this process.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit},
	}, func() float64 { return 1 }))
}

func (m *Metrics) projector(p *writer.Projector) {
	m.gauge("lumenhook_projector_facts",
		"Facts that this projector has written since its start, including repeats.",
		func() float64 { return float64(p.Status().Facts) })
	m.registry.MustRegister(newProjectionLag(p))
}

func (m *Metrics) sources(now func() LedgerSources) {
	m.gauge("lumenhook_ledger_sources_excluded",
		"Ledger sources that this follower excludes now; 0 on a standby. Investigate any that last.",
		func() (excluded float64) {
			view := now()
			for _, one := range view.Sources {
				if view.Following && one.State == domain.SourceLeftOut {
					excluded++
				}
			}
			return excluded
		})
}

func (m *Metrics) damage(db *writer.DB) {
	m.gauge("lumenhook_history_damaged_tables",
		"Tables of the history that lost rows on disk, or -1 if ClickHouse doesn't report it. "+
			"Investigate any.", func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), lagWaitMax)
			defer cancel()
			damaged, err := db.Damage(ctx)
			if err != nil {
				return -1
			}
			return float64(len(damaged))
		})
}

func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

func (m *Metrics) fact(f domain.Fact) {
	m.facts.WithLabelValues(f.Body.FactType()).Inc()
	if mail, ok := f.Body.(domain.MailAttempted); ok {
		m.mails.WithLabelValues(string(mail.Outcome)).Inc()
	}
	a, ok := f.Body.(domain.AttemptMade)
	if !ok {
		return
	}
	status := "none"
	if a.Result.StatusCode != 0 {
		status = strconv.Itoa(a.Result.StatusCode/100) + "xx"
	}
	m.attempts.WithLabelValues(status, string(a.Result.Error), string(a.State)).Inc()
	m.attemptSeconds.Observe(float64(a.Result.DurationMillis) / 1000)
}

// Readers that set records of topics aside or skip them.
const (
	readerEngine    = "engine"
	readerDirectory = "directory"
	readerProjector = "projector"
	readerMailer    = "mailer"
)

func (m *Metrics) deadLetterOf(reader string) func(topic string) {
	return func(topic string) { m.deadLetters.WithLabelValues(topic, reader).Inc() }
}

func (m *Metrics) restarted(part string) { m.restarts.WithLabelValues(part).Inc() }

// restartedIn returns a callback for parts that restart their work without ending their loop.
func (m *Metrics) restartedIn(part Role) func() {
	return func() { m.restarted(string(part)) }
}

func (m *Metrics) turn(t task.TurnStats) {
	m.turnSeconds.WithLabelValues("decide").Observe(t.Decide.Seconds())
	m.turnSeconds.WithLabelValues("commit").Observe(t.Commit.Seconds())
	m.turnSeconds.WithLabelValues("settle").Observe(t.Settle.Seconds())
	m.turnRecords.Observe(float64(t.Records))
}

// LedgerRefused counts a ledger that does not match its hashes.
func (m *Metrics) LedgerRefused() { m.refused.Inc() }

// KnowSource starts the count of a ledger source and reason at 0. Alerts only see an increase of a
// series that already exists.
func (m *Metrics) KnowSource(name, reason string) { m.sourcesLeft.WithLabelValues(name, reason) }

// SourceLeft counts that a ledger source was left out for a reason.
func (m *Metrics) SourceLeft(name, reason string) {
	m.sourcesLeft.WithLabelValues(name, reason).Inc()
}

func (m *Metrics) ledgerRead(l follower.LedgerSummary, now time.Time) {
	m.ledger.Set(float64(l.Ledger.Sequence))
	m.ledgerAt.Set(float64(l.Ledger.ClosedAtMillis) / 1000)
	m.payments.Add(float64(len(l.Ledger.Payments)))
	m.observed.Add(float64(len(l.Observed)))
	m.matches.Add(float64(len(l.Matches)))
	m.quarantined.Add(float64(len(l.Ledger.Quarantined)))
	if len(l.Matches) > 0 {
		m.closeToMatch.Observe(float64(now.UnixMilli()-l.Ledger.ClosedAtMillis) / 1000)
	}
}

func (m *Metrics) request(route, method string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.requestSeconds.WithLabelValues(route).Observe(took.Seconds())
}
