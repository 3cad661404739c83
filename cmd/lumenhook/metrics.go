package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/apiserver"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/mailer"
)

// metrics are the numbers at /metrics. Labels have few values each: never an
// identifier, an address or a URL.
type metrics struct {
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
	requests       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
	closeToMatch   prometheus.Histogram
	mails          *prometheus.CounterVec
	deadLetters    *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		facts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lumenhook_facts_total", Help: "Facts that this process committed to the journal, by type.",
		}, []string{"type"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lumenhook_attempts_total", Help: "Delivery attempts, by class of status (none: no status arrived), error code (empty: none) and the state that they led to.",
		}, []string{"status", "error", "state"}),
		attemptSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "lumenhook_attempt_duration_seconds", Help: "Time from the start of an attempt to its end.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12),
		}),
		ledger: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lumenhook_ledger_sequence", Help: "The ledger that this follower read last.",
		}),
		ledgerAt: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lumenhook_ledger_closed_timestamp_seconds", Help: "When the ledger that this follower read last was closed, Unix time.",
		}),
		payments:    counter("lumenhook_payments_total", "Payments in the ledgers that this follower read, to any wallet."),
		observed:    counter("lumenhook_payments_observed_total", "Payments to watched wallets in the ledgers that this follower read."),
		matches:     counter("lumenhook_matches_total", "Payments that a watch reports, in the ledgers that this follower read."),
		quarantined: counter("lumenhook_transactions_quarantined_total", "Transactions that could not be read: payments in them, if any, are not reported. Any is a reason to look."),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lumenhook_api_requests_total", Help: "Requests that the API answered, by route, method and status.",
		}, []string{"route", "method", "status"}),
		requestSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lumenhook_api_request_duration_seconds", Help: "Time to answer a request, by route.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2.5, 12),
		}, []string{"route"}),
		closeToMatch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "lumenhook_ledger_close_to_match_seconds", Help: "Time from a ledger's close, which has whole seconds, until its matches were appended.",
			Buckets: prometheus.ExponentialBuckets(0.125, 2, 10),
		}),
	}
	m.mails = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lumenhook_mails_total", Help: "Mails about disabled endpoints, by outcome. A retried one has another outcome later; refused and given_up are reasons to look.",
	}, []string{"outcome"})
	m.deadLetters = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lumenhook_dead_letters_total", Help: "Records of input topics that could not be read and were set aside, by topic. Any is a reason to look: lumenhook topics cat dead-letters.",
	}, []string{"topic"})
	for _, topic := range engine.Inputs() {
		m.deadLetters.WithLabelValues(topic)
	}
	for _, outcome := range mailer.Outcomes() {
		m.mails.WithLabelValues(string(outcome))
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.facts, m.attempts, m.attemptSeconds, m.ledger, m.ledgerAt, m.payments, m.observed, m.matches, m.quarantined,
		m.requests, m.requestSeconds, m.closeToMatch, m.mails, m.deadLetters,
	)
	return m
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// gauge adds a number that is asked for at each scrape.
func (m *metrics) gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// handler answers /metrics, and leads there from the door.
func (m *metrics) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry}))
	mux.Handle("GET /{$}", http.RedirectHandler("/metrics", http.StatusTemporaryRedirect))
	return mux
}

// startMetrics serves the metrics on a listener of their own: they tell of the
// whole service, and the API's address is open to its customers.
func (v *service) startMetrics(context.Context) error {
	if v.s.metricsListen == "" {
		return nil
	}
	listener, err := net.Listen("tcp", v.address("metrics-listen", v.s.metricsListen))
	if err != nil {
		return fmt.Errorf("--metrics-listen: %w", err)
	}
	server, err := apiserver.New(apiserver.Config{
		Server: api.NewServer(v.s.edge.guard(v.s.metricsListen).Wrap(v.metrics.handler()), v.logger), MaxConns: maxScrapers, Log: v.logger,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	v.file.MetricsURL = "http://" + listener.Addr().String() + "/metrics"
	v.goRun("the metrics", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() {
			ending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if err := server.Shutdown(ending); err != nil {
				v.logger.Warn("stopping the metrics", "error", err)
			}
		})()
		return server.Serve(listener)
	})
	return nil
}

// maxScrapers bounds the connections of those who read metrics.
const maxScrapers = 64

// fact counts a committed fact.
func (m *metrics) fact(f domain.Fact) {
	m.facts.WithLabelValues(f.Body.FactType()).Inc()
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

// deadLetter counts a record that was set aside.
func (m *metrics) deadLetter(topic string) { m.deadLetters.WithLabelValues(topic).Inc() }

// mail counts what became of a mail.
func (m *metrics) mail(o mailer.Outcome) { m.mails.WithLabelValues(string(o)).Inc() }

// ledgerRead counts what a ledger brought.
func (m *metrics) ledgerRead(l follower.LedgerSummary, now time.Time) {
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
func (m *metrics) request(route, method string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.requestSeconds.WithLabelValues(route).Observe(took.Seconds())
}
