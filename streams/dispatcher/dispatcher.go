// Package dispatcher makes attempts: it signs a request at the moment of sending
// and posts it through the guarded client. It alone touches receivers, so the
// rules of egress lie in one place (G5).
//
// It hides the form of a delivery request (specification, "Delivery request made
// by the service to the endpoint URL") and how results of the client are named.
// It bounds nothing itself: whoever dispatches keeps count.
package dispatcher

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/egress"
)

// Client posts one request, once, within its own time limit.
type Client interface {
	Post(ctx context.Context, r egress.Request) (egress.Result, error)
	// DropIdle closes connections to a URL's host that nothing uses.
	DropIdle(url string)
}

// Dispatcher makes attempts until its context ends.
type Dispatcher struct {
	ctx    context.Context
	client Client
	now    func() time.Time
}

// New makes a dispatcher. When ctx ends, attempts under way are broken off; let
// them end first where their outcome matters.
func New(ctx context.Context, client Client, now func() time.Time) *Dispatcher {
	return &Dispatcher{ctx: ctx, client: client, now: now}
}

// Dispatch makes one attempt and tells done what it brought back, unless the
// dispatcher's context ended first: what was broken off is no outcome.
func (d *Dispatcher) Dispatch(a domain.Attempt, done func(domain.AttemptResult)) {
	go func() {
		result, err := d.client.Post(d.ctx, d.request(a))
		switch {
		case err == nil:
			done(outcome(result))
		case d.ctx.Err() == nil:
			// Only a header that cannot be written leads here, and ours can.
			panic(fmt.Sprintf("dispatcher: attempt %d of %s could not be made: %v", a.Number, a.EventID, err))
		}
	}()
}

// Forget drops connections that are kept for a URL.
func (d *Dispatcher) Forget(url string) { d.client.DropIdle(url) }

func (d *Dispatcher) request(a domain.Attempt) egress.Request {
	timestamp := d.now().Unix()
	header := []egress.Field{
		{Name: "Content-Type", Value: "application/json"},
		{Name: "Webhook-Id", Value: a.EventID},
		{Name: "Webhook-Timestamp", Value: strconv.FormatInt(timestamp, 10)},
		{Name: "Webhook-Signature", Value: domain.SignatureHeader(a.Secrets, timestamp, a.Body)},
	}
	for _, own := range a.Headers {
		header = append(header, egress.Field{Name: own.Name, Value: string(own.Value)})
	}
	return egress.Request{URL: a.URL, Body: a.Body, Header: header}
}

// outcome names a result as the domain does. The client's detail stays here: it
// may name addresses of the inside.
func outcome(r egress.Result) domain.AttemptResult {
	return domain.AttemptResult{
		SentAtMillis:     r.SentAt.UnixMilli(),
		DurationMillis:   r.Duration.Milliseconds(),
		StatusCode:       r.StatusCode,
		Error:            domain.AttemptError(r.Error),
		ResponseBody:     r.Body,
		RetryAfterMillis: r.RetryAfter.Milliseconds(),
	}
}
