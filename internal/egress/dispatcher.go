package egress

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"

	"github.com/lumenhook/lumenhook/domain"
)

// poster posts one request, once, within its own time limit: a Client.
type poster interface {
	Post(ctx context.Context, r Request) (Result, error)
	// DropIdle closes unused connections to a URL's host.
	DropIdle(url string)
}

// Dispatcher makes attempts until its context ends: it signs a request at the moment of
// sending and posts it. It hides the form of a delivery request (specification, "Delivery
// request"). The caller limits how many attempts
// are in flight.
type Dispatcher struct {
	ctx    context.Context
	client poster
	now    func() time.Time
}

// NewDispatcher returns a dispatcher. When ctx ends, attempts in flight are cancelled; wait
// for them first if their outcome matters.
func NewDispatcher(ctx context.Context, client poster, now func() time.Time) *Dispatcher {
	return &Dispatcher{ctx: ctx, client: client, now: now}
}

// Dispatch makes one attempt and calls done with its result, unless the dispatcher's
// context ended first: a cancelled attempt has no outcome.
func (d *Dispatcher) Dispatch(a domain.Attempt, done func(domain.AttemptResult)) {
	go func() {
		request, signature := d.request(a)
		result, err := d.client.Post(d.ctx, request)
		switch {
		case err == nil:
			made := outcome(result)
			made.BodySHA256, made.SignatureSHA256 = hashOf(request.Body), hashOf(signature)
			done(made)
		case d.ctx.Err() == nil:
			// Only an invalid header leads here, and ours are valid.
			panic(fmt.Sprintf("dispatcher: attempt %d of %s could not be made: %v",
				a.Number, a.EventID, err))
		}
	}()
}

// Disconnect closes the idle connections to a URL's host.
func (d *Dispatcher) Disconnect(url string) { d.client.DropIdle(url) }

// request returns the request of an attempt, and its signature.
func (d *Dispatcher) request(a domain.Attempt) (r Request, signature string) {
	timestamp := d.now().Unix()
	signature = a.SignatureHeader(timestamp)
	header := []Field{
		{Name: "Content-Type", Value: "application/json"},
		{Name: "Webhook-Id", Value: a.EventID},
		{Name: "Webhook-Timestamp", Value: strconv.FormatInt(timestamp, 10)},
		{Name: "Webhook-Signature", Value: signature},
		{Name: "Webhook-Sequence", Value: strconv.FormatUint(a.Sequence, 10)},
	}
	for _, own := range a.Headers {
		header = append(header, Field{Name: own.Name, Value: string(own.Value)})
	}
	return Request{URL: a.URL, Body: a.Body, Header: header}, signature
}

func hashOf[T []byte | string](sent T) []byte {
	sum := sha256.Sum256([]byte(sent))
	return sum[:]
}

// outcome converts a result to the domain's terms.
func outcome(r Result) domain.AttemptResult {
	return domain.AttemptResult{
		SentAtMillis:     r.SentAt.UnixMilli(),
		DurationMillis:   r.Duration.Milliseconds(),
		StatusCode:       r.StatusCode,
		Error:            domain.AttemptError(r.Error),
		ErrorDetail:      r.Detail,
		ResponseBody:     r.Body,
		RetryAfterMillis: r.RetryAfter.Milliseconds(),
	}
}
