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

// Metrics are the numbers at /metrics. Labels have few values each: never an
// identifier, an address or a URL.
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
			Help: "Delivery attempts, by class of status (none: no status arrived), error code (empty: " +
				"none) and the state that they led to.",
		}, []string{"status", "error", "state"}),
		attemptSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "lumenhook_attempt_duration_seconds",
			Help:    "Time from the start of an attempt to its end.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12),
		}),
		ledger: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lumenhook_ledger_sequence",
			Help: "The ledger that this follower read last.",
		}),
		ledgerAt: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lumenhook_ledger_closed_timestamp_seconds",
			Help: "When the ledger that this follower read last was closed, Unix time.",
		}),
		payments: counter("lumenhook_payments_total",
			"Payments in the ledgers that this follower read, to any wallet."),
		observed: counter("lumenhook_payments_observed_total",
			"Payments to watched wallets in the ledgers that this follower read."),
		matches: counter("lumenhook_matches_total",
			"Payments that a watch reports, in the ledgers that this follower read."),
		quarantined: counter("lumenhook_transactions_quarantined_total",
			"Transactions that could not be read: payments in them, if any, are not reported. Any is a "+
				"reason to look."),
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
			Help:    "Time from a ledger's close, which has whole seconds, until its matches were appended.",
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

// addSetAside adds the counters of mails, and of ledgers and records that do not count.
func (m *Metrics) addSetAside() {
	m.refused = counter("lumenhook_ledgers_refused_total",
		"Ledgers from a source that were not what their hashes say, each time that it gave one. Any is "+
			"a reason to look.")
	m.sourcesLeft = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lumenhook_ledger_sources_left_total",
		Help: "Times that one of several sources of ledgers was left alone for a while, by source and " +
			"reason. Any that is refused, forked or disagrees is a reason to look.",
	}, []string{"source", "reason"})
	m.restarts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lumenhook_part_restarts_total",
		Help: "Restarts of parts of this process that failed, by part. Any is a reason to look.",
	}, []string{"part"})
	m.mails = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lumenhook_mails_total",
		Help: "Mails about disabled endpoints, by the outcome that this process committed to the " +
			"journal. A retried one has another outcome later; refused and given_up are reasons to look.",
	}, []string{"outcome"})
	m.deadLetters = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lumenhook_dead_letters_total",
		Help: "Records that could not be read and were set aside or passed over, by topic and reader. " +
			"Any is a reason to look: lumenhook topics cat dead-letters.",
	}, []string{"topic", "reader"})
	for _, topic := range engine.Inputs() {
		m.deadLetters.WithLabelValues(topic, readerEngine)
	}
	for _, outcome := range domain.MailOutcomes() {
		m.mails.WithLabelValues(string(outcome))
	}
}

// addTurns adds the histograms of the engine's turns.
func (m *Metrics) addTurns() {
	m.turnSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "lumenhook_turn_duration_seconds",
		Help: "Time of a turn of the engine that wrote something, by phase: decide, commit (the " +
			"Kafka transaction), settle (the state).",
		Buckets: prometheus.ExponentialBuckets(0.0002, 2.5, 12),
	}, []string{"phase"})
	m.turnRecords = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "lumenhook_turn_records",
		Help:    "Records that a turn of the engine wrote in one transaction.",
		Buckets: prometheus.ExponentialBuckets(1, 4, 8),
	})
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// gauge adds a number that is asked for at each scrape.
func (m *Metrics) gauge(name, help string, value func() float64) {
	opts := prometheus.GaugeOpts{Name: name, Help: help}
	m.registry.MustRegister(prometheus.NewGaugeFunc(opts, value))
}

// projector adds the numbers of a projector.
func (m *Metrics) projector(p *writer.Projector) {
	m.gauge("lumenhook_projector_facts",
		"Facts that this projector has written since its start, repeats included.",
		func() float64 { return float64(p.Status().Facts) })
	m.registry.MustRegister(newProjectionLag(p))
}

// damage adds the number of tables that lost rows.
func (m *Metrics) damage(db *writer.DB) {
	m.gauge("lumenhook_history_damaged_tables",
		"Tables of the history that lost rows on disk, or -1 while ClickHouse does not tell. Any is a "+
			"reason to look.", func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), lagWaitMax)
			defer cancel()
			damaged, err := db.Damage(ctx)
			if err != nil {
				return -1
			}
			return float64(len(damaged))
		})
}

// handler answers /metrics.
func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// fact counts a committed fact.
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

// Readers of topics that set records aside or pass over them.
const (
	readerEngine    = "engine"
	readerDirectory = "directory"
	readerProjector = "projector"
	readerMailer    = "mailer"
)

// deadLetterOf counts the records that a reader set aside.
func (m *Metrics) deadLetterOf(reader string) func(topic string) {
	return func(topic string) { m.deadLetters.WithLabelValues(topic, reader).Inc() }
}

// restarted counts the restart of a part that failed.
func (m *Metrics) restarted(part string) { m.restarts.WithLabelValues(part).Inc() }

// turn records a turn's times.
func (m *Metrics) turn(t task.TurnStats) {
	m.turnSeconds.WithLabelValues("decide").Observe(t.Decide.Seconds())
	m.turnSeconds.WithLabelValues("commit").Observe(t.Commit.Seconds())
	m.turnSeconds.WithLabelValues("settle").Observe(t.Settle.Seconds())
	m.turnRecords.Observe(float64(t.Records))
}

// LedgerRefused counts an answer of a source that was not what its hashes say.
func (m *Metrics) LedgerRefused() { m.refused.Inc() }

// KnowSource shows that one of several sources of ledgers was not left so far: alerts see an
// increase only from a count that was there before.
func (m *Metrics) KnowSource(name, reason string) { m.sourcesLeft.WithLabelValues(name, reason) }

// SourceLeft counts that one of several sources of ledgers was left alone, and why.
func (m *Metrics) SourceLeft(name, reason string) {
	m.sourcesLeft.WithLabelValues(name, reason).Inc()
}

// ledgerRead counts the content of a ledger.
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

// request counts an answered request.
func (m *Metrics) request(route, method string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.requestSeconds.WithLabelValues(route).Observe(took.Seconds())
}
