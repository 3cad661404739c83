package node

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/follower"
)

// TracingConfig configures where spans are sent.
type TracingConfig struct {
	// Endpoint is the URL of a collector (OTLP over HTTP), such as http://localhost:4318/v1/traces.
	Endpoint string
	// SampleRatio is the share of traces to keep, above 0 and at most 1.
	SampleRatio float64
	Version     string // of the program
	Instance    string // of the process
	Logger      *slog.Logger
}

// Tracing creates spans for a process's work. A nil Tracing creates none.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

const (
	scope = "github.com/lumenhook/lumenhook"
	// queuedSpans bounds the spans that wait for the collector. Others are dropped, so that no
	// payment ever waits for a trace.
	queuedSpans = 8192
	// exportTimeout bounds each export, including the last one at shutdown.
	exportTimeout = 5 * time.Second
	// saidAgain is the minimum interval between logs about an unavailable collector.
	saidAgain = time.Minute
)

// NewTracing returns a Tracing that sends spans to a collector, which may be unavailable.
func NewTracing(ctx context.Context, cfg TracingConfig) (*Tracing, error) {
	if cfg.SampleRatio <= 0 || cfg.SampleRatio > 1 {
		return nil, fmt.Errorf("telemetry: invalid sample ratio %v: must be above 0 and at most "+
			"1", cfg.SampleRatio)
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(cfg.Endpoint),
		otlptracehttp.WithTimeout(exportTimeout))
	if err != nil {
		return nil, fmt.Errorf("telemetry: sending traces to %s: %w", cfg.Endpoint, err)
	}
	otel.SetErrorHandler(&complaints{logger: cfg.Logger, endpoint: cfg.Endpoint})
	about := resource.NewWithAttributes(semconv.SchemaURL,
		semconv.ServiceName("lumenhook"), semconv.ServiceVersion(cfg.Version),
		semconv.ServiceInstanceID(cfg.Instance))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(about),
		sdktrace.WithIDGenerator(ids{}),
		sdktrace.WithSampler(sdktrace.TraceIDRatioBased(cfg.SampleRatio)),
		sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(queuedSpans),
			sdktrace.WithExportTimeout(exportTimeout)),
	)
	return &Tracing{provider: provider, tracer: provider.Tracer(scope)}, nil
}

// complaints logs export errors. It is rate-limited, because a collector may be down for days.
type complaints struct {
	logger   *slog.Logger
	endpoint string

	mu   sync.Mutex
	said time.Time
}

func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.said.IsZero() && time.Since(c.said) < saidAgain {
		return
	}
	c.said = time.Now()
	c.logger.Warn("dropping traces: the collector does not accept them", "endpoint", c.endpoint,
		"error", err)
}

// Close sends the remaining spans, within exportTimeout.
func (t *Tracing) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), exportTimeout)
	defer cancel()
	return t.provider.Shutdown(ctx)
}

// Ledger starts the traces of a ledger's events. Their first spans last from the ledger's close to
// now, when its matches are committed.
func (t *Tracing) Ledger(l follower.LedgerSummary, now time.Time) {
	if t == nil {
		return
	}
	closed := time.UnixMilli(l.Ledger.ClosedAtMillis)
	for _, m := range l.Matches {
		_, span := t.tracer.Start(beginning(context.Background(), m.EventID), "payment matched",
			trace.WithNewRoot(), trace.WithTimestamp(closed), trace.WithSpanKind(trace.SpanKindProducer),
			trace.WithAttributes(
				attribute.String("lumenhook.event.id", m.EventID),
				attribute.String("lumenhook.watch.id", m.Watch.ID),
				attribute.String("lumenhook.endpoint.id", m.Watch.EndpointID),
				attribute.Int64("stellar.ledger.sequence", int64(l.Ledger.Sequence)),
			))
		span.End(trace.WithTimestamp(now))
	}
}

// Fact adds a delivery's fact to its event's trace.
func (t *Tracing) Fact(f domain.Fact) {
	if t == nil {
		return
	}
	at := time.UnixMilli(f.AtMillis)
	switch b := f.Body.(type) {
	case domain.DeliveryCreated:
		t.moment("delivery created", b.Event.ID, at,
			attribute.String("lumenhook.endpoint.id", b.EndpointID))
	case domain.DeliveryRequeued:
		t.moment("delivery requeued", b.EventID, at,
			attribute.String("lumenhook.reason", string(b.Reason)))
	case domain.DeliveryCancelled:
		t.moment("delivery cancelled", b.EventID, at)
	case domain.AttemptMade:
		t.attempt(b)
	default: // in no event's trace
	}
}

func (t *Tracing) moment(name, eventID string, at time.Time, attributes ...attribute.KeyValue) {
	attributes = append(attributes, attribute.String("lumenhook.event.id", eventID))
	_, span := t.tracer.Start(ofEvent(context.Background(), eventID), name,
		trace.WithTimestamp(at), trace.WithAttributes(attributes...))
	span.End(trace.WithTimestamp(at))
}

func (t *Tracing) attempt(a domain.AttemptMade) {
	sent := time.UnixMilli(a.Result.SentAtMillis)
	_, span := t.tracer.Start(ofEvent(context.Background(), a.EventID), "delivery attempt",
		trace.WithTimestamp(sent), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(
			attribute.String("lumenhook.event.id", a.EventID),
			attribute.Int("lumenhook.attempt.number", a.Number),
			attribute.String("lumenhook.delivery.state", string(a.State)),
			semconv.HTTPRequestMethodPost,
		))
	if a.Result.StatusCode != 0 {
		span.SetAttributes(semconv.HTTPResponseStatusCode(a.Result.StatusCode))
	}
	if a.Result.Error != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(string(a.Result.Error)))
	}
	if !a.Result.Succeeded() {
		span.SetStatus(codes.Error, a.Result.ErrorDetail)
	}
	span.End(trace.WithTimestamp(sent.Add(time.Duration(a.Result.DurationMillis) * time.Millisecond)))
}

// EventTrace returns the first span of an event's trace.
func EventTrace(eventID string) trace.SpanContext {
	sum := sha256.Sum256([]byte("lumenhook event trace\x00" + eventID))
	c := trace.SpanContextConfig{Remote: true}
	copy(c.TraceID[:], sum[:16])
	copy(c.SpanID[:], sum[16:24])
	return trace.NewSpanContext(c)
}

// eventKey is the context key for the event whose trace starts there.
type eventKey struct{}

// beginning returns a context in which the next root span starts an event's trace.
func beginning(ctx context.Context, eventID string) context.Context {
	return context.WithValue(ctx, eventKey{}, eventID)
}

// ofEvent returns a context whose spans belong to an event's trace.
func ofEvent(ctx context.Context, eventID string) context.Context {
	return trace.ContextWithRemoteSpanContext(ctx, EventTrace(eventID))
}

// ids generates span ids. Those of events' first spans are derived, all others are random.
type ids struct{}

var _ sdktrace.IDGenerator = ids{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if event, ok := ctx.Value(eventKey{}).(string); ok {
		first := EventTrace(event)
		return first.TraceID(), first.SpanID()
	}
	var id trace.TraceID
	_, _ = rand.Read(id[:]) // never fails: crypto/rand
	return id, ids{}.NewSpanID(ctx, id)
}

func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	_, _ = rand.Read(id[:])
	return id
}
