package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

const writeRetrySeconds = 2

// newCommandID returns the id of a request's command. With an Idempotency-Key the id is derived
// from the request, so that a retry is the same command at every node.
func (a *API) newCommandID(r *request) (string, error) {
	if r.idempotencyKey != "" {
		return domain.DeriveID(domain.CommandPrefix, r.caller.accountID, r.http.Method,
			r.http.URL.Path, r.idempotencyKey), nil
	}
	var entropy [16]byte
	if _, err := io.ReadFull(a.Entropy, entropy[:]); err != nil {
		return "", fmt.Errorf("drawing a command id: %w", err)
	}
	return domain.NewID(domain.CommandPrefix, entropy), nil
}

// submit submits a request's command and returns its result, or the problem of a rejection.
func (a *API) submit(
	ctx context.Context, r *request, body domain.CommandBody,
) (domain.Result, error) {
	return a.submitAs(ctx, r, r.commandID, body)
}

// submitAs submits a command with another id than the request's.
func (a *API) submitAs(
	ctx context.Context, r *request, id string, body domain.CommandBody,
) (domain.Result, error) {
	if ctx.Err() != nil { // timed out before the command was submitted, so it has no effect
		return domain.Result{}, writesRefused(ctx.Err())
	}
	wait := commandWait
	if _, test := body.(domain.TestEndpoint); test {
		wait = a.TestWait
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	r.turn.end() // for good: a write that took effect must not fail because it cannot get another turn
	result, err := a.Commands.Submit(waiting, domain.Command{
		ID:             id,
		AccountID:      r.caller.accountID,
		KeyID:          r.caller.keyID,
		BodyHash:       r.bodyHash,
		IssuedAtMillis: a.Now().UnixMilli(),
		Body:           body,
	})
	if err != nil {
		return result, notAnswered(r, id, body, err)
	}
	if p := refusalIn(result, r.bodyHash); p != nil {
		return result, p
	}
	a.noteWrite(r.caller.accountID, body)
	return result, nil
}

func notAnswered(r *request, id string, body domain.CommandBody, err error) *problem.Problem {
	switch {
	case errors.Is(err, ErrWritesRefused):
		return writesRefused(err)
	case errors.Is(err, ErrCommandUnanswered), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, context.Canceled):
		return notConfirmed(r, id).Because(err)
	}
	p := problem.Internal(fmt.Errorf("submitting %s: %w", body.CommandType(), err))
	p.CommandID = id
	return p
}

func refusalIn(result domain.Result, bodyHash []byte) *problem.Problem {
	rejection := result.Answer.Rejection
	switch {
	case rejection != nil && rejection.Code == domain.CodeCommandUnreadable:
		// The engine set the command aside, and may not know its body's hash.
		return problem.New(rejection.Code, sentence(rejection.Detail)).RetryAfter(writeRetrySeconds)
	case rejection.Temporary():
		return problem.New(rejection.Code, sentence(rejection.Detail)).RetryAfter(historyRetrySeconds)
	case !bytes.Equal(result.BodyHash, bodyHash):
		// Of two concurrent requests, neither is necessarily the retry.
		return problem.New(problem.CodeIdempotencyReused,
			"The Idempotency-Key was used for a request with another body. Use a new key for a new "+
				"request, or the same body for a repeat.")
	case rejection != nil:
		p := problem.New(rejection.Code, sentence(rejection.Detail))
		p.Replayed = result.Replayed
		return p
	}
	return nil
}

func writesRefused(err error) *problem.Problem {
	why := ""
	if errors.Is(err, ErrDiskFull) {
		why = "The server's disk is almost full. "
	}
	return problem.New(problem.CodeWritesRefused, why+
		"The request was not accepted and has no effect. Repeat it after the time in Retry-After.").
		RetryAfter(writeRetrySeconds).Because(err)
}

// notConfirmed returns the problem of a command whose result did not arrive in time. The command
// still takes effect exactly once, so the problem explains how to retry safely.
func notConfirmed(r *request, commandID string) *problem.Problem {
	detail := "The command still takes effect, exactly once. Repeat the request with the same " +
		"Idempotency-Key and body after the time in Retry-After: it then gets the answer to this one."
	if r.idempotencyKey == "" {
		detail = "The command still takes effect, exactly once. A repeat would take effect besides, " +
			"because the request carried no Idempotency-Key: look first whether the object is there, and " +
			"send the header with every POST."
	}
	p := problem.New(problem.CodeCommandUnanswered, detail).RetryAfter(writeRetrySeconds)
	p.CommandID = commandID
	return p
}

// partOf returns the expected part of a result, or an error.
func partOf[T any](result domain.Result, err error, part *T) (*T, error) {
	if err == nil && part == nil {
		err = fmt.Errorf("the answer to %s lacks the part that its command asks for",
			result.CommandID)
	}
	return part, err
}

// submitForWatch submits a command that returns a watch, looks up the wallet in the meantime, and
// waits until this node has read the change. It does not set the reply's view.
func (a *API) submitForWatch(
	ctx context.Context, r *request, body domain.CommandBody, warn func() []string,
) (reply, *domain.Watch, []string, error) {
	found := make(chan []string, 1)
	go func() { found <- warn() }()
	result, err := a.submit(ctx, r, body)
	watch, err := a.answeredWatch(ctx, r, result, err)
	if err != nil {
		return reply{}, nil, nil, err
	}
	a.awaitAnswer(ctx, r, result, watch.ID, watch.Revision, a.Directory.AwaitWatch)
	answer := reply{etag: decode.ETag(watch.Revision), replayed: result.Replayed}
	return answer, watch, a.warnings.settle(r, result.Replayed, <-found), nil
}

// answeredWatch returns the watch in an answer. If the answer omits the senders, they are those of
// the watch before or after the command. If they were changed since, which can happen before a
// retry, they are in the history.
func (a *API) answeredWatch(
	ctx context.Context, r *request, result domain.Result, err error,
) (*domain.Watch, error) {
	part, err := partOf(result, err, result.Answer.Watch)
	if err != nil {
		return nil, err
	}
	if whole, ok := result.Answer.Complete(r.watch); ok {
		return &whole, nil
	}
	now, _, err := a.Directory.Watch(part.ID)
	if err != nil {
		return nil, fmt.Errorf("looking up the senders of a watch: %w", err)
	}
	if whole, ok := result.Answer.Complete(now); ok {
		return &whole, nil
	}
	page, err := a.History.WatchSteps(ctx, readmodel.StepFilter{
		AccountID: r.caller.accountID, ID: part.ID, Before: part.Version + 1, BeforeAt: part.ID, Limit: 1,
	})
	if err == nil && len(page.Steps) == 1 {
		if whole, ok := result.Answer.Complete(page.Steps[0].After); ok {
			return &whole, nil
		}
	}
	return nil, problem.New(domain.CodeHistoryBehind, "The request was answered before, and the "+
		"history cannot show its answer now, because the senders of the watch were changed since. "+
		"GET the watch, or repeat the request after the time in Retry-After.").
		RetryAfter(historyRetrySeconds).Because(err)
}

func isProblem(err error, code string) bool {
	var p *problem.Problem
	return errors.As(err, &p) && p.Code == code
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

const maxRemembered = 16_384

// warnings remembers the warnings in this node's responses to writes that may be retried. A retry
// through this node gets the same warnings, and is not checked against state that has changed
// since.
type warnings struct {
	byCommand *lru.Cache[string, []string]
}

func newWarnings() *warnings { return &warnings{newCache[string, []string](maxRemembered)} }

// settle returns the warnings for a response. For a retry, they are those of the first response, if
// this node sent it.
func (w *warnings) settle(r *request, replayed bool, found []string) []string {
	if found == nil {
		found = []string{} // encodes as an empty list, not null
	}
	if r.idempotencyKey == "" {
		return found
	}
	if first, known := w.byCommand.Get(r.commandID); known && replayed {
		return first
	}
	w.byCommand.Add(r.commandID, found)
	return found
}

// answered reports whether this node remembers answering the request before.
func (w *warnings) answered(r *request) bool {
	return r.idempotencyKey != "" && w.byCommand.Contains(r.commandID)
}

// repeatsCreation reports whether this node knows that a creation was answered before. State that
// has changed since is then no fault of the request. The engine decides, and creates nothing twice.
func (a *API) repeatsCreation(r *request, made func() (bool, error)) bool {
	if r.idempotencyKey == "" {
		return false
	}
	if a.warnings.answered(r) {
		return true
	}
	found, err := made()
	return err == nil && found
}

// mayRepeatChange reports whether a change may have been answered before: either this node
// remembers it, or its object is gone and only the engine knows.
func (a *API) mayRepeatChange(r *request) bool {
	return r.missing != "" || a.warnings.answered(r)
}
