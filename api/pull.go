package api

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// A receiver may pull its endpoint's events in sequence order, and wait for the next one.
const (
	waitMax    = 30 * time.Second
	waitMargin = 7 * time.Second // for reading; with waitMax and turnMax less than writeTimeout
	// maxWaiters and maxAccountWaiters bound the requests that wait for events at one node, and
	// separately the statements that wait for a ledger to count.
	maxWaiters        = 256
	maxAccountWaiters = 16
	// waiterRetrySeconds is when a place may be free again.
	waiterRetrySeconds = 5
	// maxSequence is the largest number that JSON carries exactly everywhere (RFC 8259, section 6).
	maxSequence = 1<<53 - 1
)

type pullRequest struct {
	after uint64
	since int64 // Unix milliseconds, replaces after; 0: not set
	limit int
	wait  time.Duration
}

func readPull(r *request) (pullRequest, error) {
	q := decode.NewQuery(r.http.URL, "after", "since", "limit", "waitSeconds")
	p := pullRequest{
		after: q.Number("after", maxSequence),
		since: q.Time("since"),
		limit: q.Count("limit", defaultPage, maxPage),
	}
	seconds := q.Number("waitSeconds", uint64(waitMax/time.Second))
	p.wait = time.Duration(seconds) * time.Second // #nosec G115 -- at most 30
	if q.Get("after") != "" && q.Get("since") != "" {
		q.Fault("since", problem.FaultNotAllowed, "say either after which number or since when")
	}
	return p, q.Err()
}

// pullEvents returns an endpoint's events after a number, and waits for the first one if requested.
// It returns events regardless of the state of their delivery.
func (a *API) pullEvents(ctx context.Context, r *request) (reply, error) {
	p, err := readPull(r)
	if err != nil {
		return reply{}, err
	}
	if err := a.awaitOwnWrites(ctx, r); err != nil {
		return reply{}, err
	}
	if p.since > 0 {
		p.after, err = a.History.NumberBefore(ctx, r.caller.accountID, r.subjectID, p.since)
		if err != nil {
			return reply{}, historyError(err)
		}
	}
	page, err := a.pull(ctx, r, p)
	if err != nil {
		return reply{}, err
	}
	view, err := a.viewPulled(r.endpoint, page)
	view.NextAfter = signed(p.after)
	if n := len(view.Data); n > 0 {
		view.NextAfter = view.Data[n-1].Sequence
	}
	return reply{view: view}, err
}

// pull reads a page, and reads again as long as it may wait for an event.
func (a *API) pull(ctx context.Context, r *request, p pullRequest) (readmodel.NumberedPage, error) {
	read := func() (readmodel.NumberedPage, error) {
		page, err := a.History.Numbered(ctx, r.caller.accountID, r.subjectID, p.after, p.limit)
		return page, historyError(err)
	}
	page, err := read()
	if err != nil || len(page.Events) > 0 || p.wait == 0 {
		return page, err
	}
	leave, err := a.waiters.Take(r.caller.holder(), maxAccountWaiters)
	if err != nil {
		return page, problem.New(problem.CodeTooManyWaiting, fmt.Sprintf("%d requests of your account "+
			"wait for events at this node, or %d of all accounts, which is the most. Repeat the request "+
			"after the time in Retry-After, or without waitSeconds.", maxAccountWaiters, maxWaiters)).
			RetryAfter(waiterRetrySeconds).Because(err)
	}
	defer leave()
	waiting, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	defer context.AfterFunc(a.ending, cancel)()
	for len(page.Events) == 0 {
		err := r.turn.pauseTurn(ctx, func() error {
			return a.History.AwaitMore(waiting, r.subjectID, page.AsOf)
		})
		switch {
		case waiting.Err() != nil:
			return page, a.afterWait(ctx, r)
		case err != nil:
			return page, historyError(err)
		}
		if page, err = read(); err != nil {
			return page, err
		}
	}
	return page, a.afterWait(ctx, r)
}

// EndWaits has requests that wait for events answer with what there is, and no other wait: for
// http.Server.RegisterOnShutdown.
func (a *API) EndWaits() { a.endWaits() }

// afterWait holds a request that has waited against what is true now: its key, and the endpoint
// with its secrets.
func (a *API) afterWait(ctx context.Context, r *request) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err // nobody reads the response
	}
	if err := a.stillValid(r); err != nil {
		return err
	}
	return a.findEndpoint(ctx, r)
}

// viewPulled signs each event for the time when it was created, with the currently valid keys. A
// signature is as old as its event, so nobody can pull an old event and post it as new.
func (a *API) viewPulled(
	e domain.Endpoint, page readmodel.NumberedPage,
) (client.PulledEvents, error) {
	secrets, keys, err := a.signersOf(e, a.Now().UnixMilli())
	view := client.PulledEvents{
		Data:    make([]client.PulledEvent, len(page.Events)),
		Missing: make([]client.Numbers, len(page.Missing)),
	}
	for i, one := range page.Events {
		seconds := one.CreatedAtMillis / 1000
		attempt := domain.Attempt{
			EventID:     one.ID,
			Secrets:     secrets,
			Body:        one.Body,
			Signatures:  e.Signatures,
			SigningKeys: keys,
		}
		view.Data[i] = client.PulledEvent{
			Sequence: signed(one.Sequence),
			Headers: client.DeliveryHeaders{
				ID:        one.ID,
				Timestamp: strconv.FormatInt(seconds, 10),
				Signature: attempt.SignatureHeader(seconds),
				Sequence:  strconv.FormatUint(one.Sequence, 10),
			},
			Body: string(one.Body),
		}
	}
	for i, m := range page.Missing {
		view.Missing[i] = client.Numbers{From: signed(m.From), To: signed(m.To)}
	}
	return view, err
}

// signersOf returns the secrets that sign for an endpoint now. It returns its Ed25519 keys only if
// the endpoint uses that signature.
func (a *API) signersOf(
	e domain.Endpoint, nowMillis int64,
) (secrets, keys []domain.Secret, err error) {
	for _, valid := range e.ValidSecrets(nowMillis) {
		plain, err := a.Sealer.Open(valid.Sealed, e.ID)
		if err != nil {
			return nil, nil, fmt.Errorf("opening the secret of %s (is this the master key it was sealed "+
				"with?): %w", e.ID, err)
		}
		secrets = append(secrets, domain.Secret(plain))
	}
	if !e.Signatures.Has(domain.StandardWebhooksEd25519) {
		return secrets, nil, nil
	}
	for _, name := range e.SigningKeyNames(nowMillis) {
		if a.SigningKeys == nil || err != nil {
			break
		}
		var given []domain.Secret
		given, err = a.SigningKeys.EndpointSigners(name, nowMillis)
		keys = append(keys, given...)
	}
	if err == nil && len(keys) == 0 {
		err = errors.New("no key signs now: `lumenhook secrets signing create` makes one")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("signing with Ed25519 for %s: %w", e.ID, err)
	}
	return secrets, keys, nil
}
