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
	listenWait     = 30 * time.Second // of one request for the next event
	listenFirstTry = time.Second
	listenLastTry  = 30 * time.Second
)

// ErrPullAgain is for a [Listener]'s function to return: the event is pulled again, and
// signed with the secrets of that moment.
var ErrPullAgain = errors.New("client: the event is to be pulled again")

// Listener hands an endpoint's events to a function, one after another in the order of their
// numbers: for a receiver that has no public address, such as a developer's machine or a test.
type Listener struct {
	Client     *Client
	EndpointID string
	From       Pull // where to begin; its Wait is not used
	Once       bool // ends when there are no more, in place of waiting for the next

	// Handle gets each event, signed for the time when it was created. After an error the listener
	// ends with it, but for ErrPullAgain.
	Handle func(context.Context, PulledEvent) error
	// Missing, if set, is called with numbers whose events are no longer stored and never arrive.
	Missing func(Numbers)
	// Away, if set, is called when the service stops answering, with the listener's position: once
	// per outage. The listener continues on its own.
	Away func(err error, after int64)
	// Back, if set, is told when the service answers again.
	Back func(after int64)
}

// Run listens until ctx ends, which is no error, or until it is refused. Without a first answer
// it ends with what was wrong; after that it outlasts a service that is away.
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
			// The first answer says that it is back, and does not wait for an event.
			away, pull.Wait = true, 0
			// So that not all come back at once: nothing else depends on it.
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

// handle hands a page's events over, and returns the number after which to continue.
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

// MayPass reports whether a request that failed may succeed later: the service did not answer,
// or said that it cannot do so now.
func MayPass(err error) bool {
	var refused *Problem
	if !errors.As(err, &refused) {
		return true
	}
	return refused.Status >= http.StatusInternalServerError ||
		refused.Status == http.StatusTooManyRequests
}

// sleep reports whether the time passed before ctx ended.
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

// Request makes the request by which the event is delivered, but for the endpoint's own
// headers: of a test to its handler, or to a receiver that the service cannot reach.
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
