package client

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	listenWait     = 30 * time.Second // per request for the next event
	listenFirstTry = time.Second
	listenLastTry  = 30 * time.Second
)

// ErrPullAgain makes a [Listener] pull the event again, signed with the secrets valid at that time.
// Its Handle function returns it.
var ErrPullAgain = errors.New("client: pull the event again")

// Listener passes an endpoint's events to a function, in sequence order. Use it for a receiver
// without a public address, such as a developer's machine or a test.
type Listener struct {
	Client     *Client
	EndpointID string
	From       Pull // where to start; Wait is ignored
	Once       bool // return after the last event instead of waiting for more

	// Handle receives each event, signed for the time when it was created. Unless the error is
	// ErrPullAgain, Run returns it.
	Handle func(context.Context, PulledEvent) error
	// Missing, if set, is called with the numbers of events that are no longer stored.
	Missing func(Numbers)
	// Away, if set, is called with the listener's position once per outage, when the service stops
	// responding. The listener keeps trying.
	Away func(err error, after int64)
	// Back, if set, is called when the service responds again.
	Back func(after int64)
}

// Run listens until ctx is done, and returns nil then. It returns an error if the service refuses a
// request, or if the first request fails. After the first response, it survives outages of the
// service.
func (l *Listener) Run(ctx context.Context) error {
	pull, wait := l.From, listenFirstTry
	pull.Wait = 0
	for answered, away := false, false; ; {
		page, err := l.Client.PullEvents(ctx, l.EndpointID, pull)
		switch {
		case !l.Once && ctx.Err() != nil:
			return nil
		case err != nil && !l.Once && answered && MayPass(err):
			if l.Away != nil && !away {
				l.Away(err, pull.After)
			}
			// Don't wait for an event: the first response shows that the service is back.
			away, pull.Wait = true, 0
			// Jitter spreads the reconnects of many listeners. Nothing depends on its value.
			jitter := rand.N(wait / 2) //nolint:forbidigo,gosec // see above
			if !sleep(ctx, wait/2+jitter) {
				return nil
			}
			wait = min(2*wait, listenLastTry)
			continue
		case err != nil:
			return err
		}
		if l.Back != nil && away {
			l.Back(pull.After)
		}
		answered, away, wait = true, false, listenFirstTry
		pull.Since = time.Time{}
		if pull.After, err = l.handle(ctx, page); err != nil {
			return err
		}
		switch {
		case !l.Once && ctx.Err() != nil, l.Once && len(page.Data) == 0:
			return nil
		case !l.Once:
			pull.Wait = listenWait
		}
	}
}

// handle passes a page's events to Handle and returns the number to continue after.
func (l *Listener) handle(ctx context.Context, page PulledEvents) (after int64, err error) {
	missing := page.Missing
	for _, e := range page.Data {
		for ; len(missing) > 0 && missing[0].To < e.Sequence; missing = missing[1:] {
			if l.Missing != nil {
				l.Missing(missing[0])
			}
		}
		switch err := l.Handle(ctx, e); {
		case errors.Is(err, ErrPullAgain):
			return e.Sequence - 1, nil
		case err != nil:
			return e.Sequence - 1, err
		}
	}
	return page.NextAfter, nil
}

// MayPass reports whether retrying a failed request may help: the service did not respond, or it
// reported a temporary condition.
func MayPass(err error) bool {
	var refused *Problem
	if !errors.As(err, &refused) {
		return true
	}
	return refused.Status >= http.StatusInternalServerError ||
		refused.Status == http.StatusTooManyRequests
}

// sleep reports whether d passed before ctx was done.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Request returns the HTTP request that would deliver the event, without the endpoint's own
// headers. Use it to test a handler or to forward events to a receiver that the service cannot
// reach.
func (e PulledEvent) Request(ctx context.Context, url string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(e.Body)))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Content-Type":      "application/json",
		"Webhook-Id":        e.Headers.ID,
		"Webhook-Timestamp": e.Headers.Timestamp,
		"Webhook-Signature": e.Headers.Signature,
		"Webhook-Sequence":  e.Headers.Sequence,
	} {
		r.Header.Set(name, value)
	}
	return r, nil
}
