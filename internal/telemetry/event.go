package telemetry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// EventTrace returns the first span of an event's trace.
func EventTrace(eventID string) trace.SpanContext {
	sum := sha256.Sum256([]byte("lumenhook event trace\x00" + eventID))
	c := trace.SpanContextConfig{Remote: true}
	copy(c.TraceID[:], sum[:16])
	copy(c.SpanID[:], sum[16:24])
	return trace.NewSpanContext(c)
}

// eventKey is the context's key of the event whose trace starts there.
type eventKey struct{}

// beginning returns a context in which the next root span is the first of an event's trace.
func beginning(ctx context.Context, eventID string) context.Context {
	return context.WithValue(ctx, eventKey{}, eventID)
}

// ofEvent returns a context in which spans belong to an event's trace.
func ofEvent(ctx context.Context, eventID string) context.Context {
	return trace.ContextWithRemoteSpanContext(ctx, EventTrace(eventID))
}

// ids generates span ids: those of an event's first span are derived, all others are
// random.
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
