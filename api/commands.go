package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
)

const (
	maxIdempotencyKeyBytes = 255
	// awaitTimeout bounds how long an acknowledged write is held back until this
	// node has read it.
	awaitTimeout = 2 * time.Second
	// writeRetrySeconds is after how long a write that was not answered, or not
	// taken, may be repeated.
	writeRetrySeconds = 2
)

// idempotencyKey reads the header of the same name; empty when there is none.
func idempotencyKey(r *http.Request) (string, *Problem) {
	values := r.Header.Values(headerIdempotent)
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	valid := len(values) == 1 && len(key) >= 1 && len(key) <= maxIdempotencyKeyBytes
	for i := range len(key) {
		valid = valid && key[i] >= ' ' && key[i] <= '~'
	}
	if !valid {
		return "", newProblem(codeInvalidHeader,
			fmt.Sprintf("Idempotency-Key must be given once, as 1 to %d printable ASCII characters.",
				maxIdempotencyKeyBytes))
	}
	return key, nil
}

// newCommand makes the command of a request, without its body. Its id is a
// function of the request if that names itself by an Idempotency-Key, so that a
// repeat is the same command wherever it arrives.
func (a *API) newCommand(x *exchange) (domain.Command, *Problem) {
	c := domain.Command{
		AccountID:      x.caller.accountID,
		BodyHash:       x.bodyHash,
		IssuedAtMillis: a.Now().UnixMilli(),
	}
	if x.idempotencyKey != "" {
		c.ID = domain.DeriveID(domain.CommandPrefix, c.AccountID, x.request.Method, x.request.URL.Path,
			x.idempotencyKey)
		return c, nil
	}
	var entropy [16]byte
	if _, err := io.ReadFull(a.Entropy, entropy[:]); err != nil {
		return c, internal(fmt.Errorf("drawing a command id: %w", err))
	}
	c.ID = domain.NewID(domain.CommandPrefix, entropy)
	return c, nil
}

// submit hands a command on and returns its answer if it is no rejection.
func (a *API) submit(ctx context.Context, x *exchange, c domain.Command) (domain.Result, *Problem) {
	if ctx.Err() != nil { // the checks took all the time: what is not handed on has no effect
		return domain.Result{}, writesRefused(ctx.Err())
	}
	wait := commandWait
	if _, test := c.Body.(domain.TestEndpoint); test {
		wait = a.TestWait
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	result, err := a.Commands.Submit(waiting, c)
	switch {
	case errors.Is(err, ErrWritesRefused):
		return result, writesRefused(err)
	case errors.Is(err, ErrCommandUnanswered), errors.Is(err, context.DeadlineExceeded), errors.Is(err,
		context.Canceled):
		return result, unanswered(x, c.ID).because(err)
	case err != nil:
		p := internal(fmt.Errorf("submitting %s: %w", c.Body.CommandType(), err))
		p.CommandID = c.ID
		return result, p
	case unreadable(result):
		return result, newProblem(domain.CodeCommandUnreadable, sentence(result.Answer.Rejection.Detail)).retryAfter(
			writeRetrySeconds,
		)
	case !bytes.Equal(result.BodyHash, c.BodyHash):
		// of two that come at once, neither need be a repeat
		return result, newProblem(codeIdempotencyReused,
			"The Idempotency-Key was used for a request with another body. Use a new key for a new "+
				"request, or the same body for a repeat.")
	case result.Answer.Rejection != nil:
		p := newProblem(result.Answer.Rejection.Code, sentence(result.Answer.Rejection.Detail))
		p.replayed = result.Replayed
		return result, p
	}
	if concernsDeliveries(c.Body) {
		a.unread.note(c.AccountID, a.Now())
	}
	return result, nil
}

// unreadable reports whether the engine set the command aside. Then its result may
// lack the hash of the body.
func unreadable(r domain.Result) bool {
	return r.Answer.Rejection != nil && r.Answer.Rejection.Code == domain.CodeCommandUnreadable
}

func writesRefused(err error) *Problem {
	return newProblem(codeWritesRefused,
		"The request was not taken and has no effect. Repeat it after the time in Retry-After.").retryAfter(
		writeRetrySeconds,
	).because(err)
}

// unanswered answers for a command whose result did not come in time. It still
// takes effect exactly once, so the client must learn how to repeat safely.
func unanswered(x *exchange, commandID string) *Problem {
	detail := "The command still takes effect, exactly once. Repeat the request with the same " +
		"Idempotency-Key and body after the time in Retry-After: it then gets the answer to this one."
	if x.idempotencyKey == "" {
		detail = "The command still takes effect, exactly once. A repeat would take effect besides, " +
			"because the request carried no Idempotency-Key: look first whether the object is there, and " +
			"send the header with every POST."
	}
	p := newProblem(codeCommandUnanswered, detail).retryAfter(writeRetrySeconds)
	p.CommandID = commandID
	return p
}

// answerOf takes what a command of its kind is answered with out of the answer.
func answerOf[T any](
	result domain.Result, problem *Problem, c domain.Command, part *T,
) (*T, *Problem) {
	if problem != nil {
		return nil, problem
	}
	if part == nil {
		return nil, internal(fmt.Errorf("the answer to %s, %s, holds none of what it asks for",
			c.Body.CommandType(), result.CommandID))
	}
	return part, nil
}

// sentence makes a sentence of a detail.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// await holds an acknowledged write back until this node has read it, so that
// the next request through the node sees it. The write stands if that takes too
// long.
func (a *API) await(
	ctx context.Context, x *exchange, id string, version uint64,
	read func(context.Context, string, uint64) error,
) {
	ctx, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	if err := read(ctx, id, version); err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "the directory does not show a write yet",
			slog.String("id", id), slog.String("requestId", x.requestID),
			slog.String("error", redact(err.Error())))
	}
}

// awaitAnswer holds an answer back until this node has read what it tells of.
// What a repeat's answer tells of may be gone by now, and is not waited for by
// its version.
func (a *API) awaitAnswer(
	ctx context.Context, x *exchange, r domain.Result, id string, version uint64,
	read func(context.Context, string, uint64) error,
) {
	if r.Replayed {
		read = func(ctx context.Context, _ string, _ uint64) error { return a.Directory.CatchUp(ctx) }
	}
	a.await(ctx, x, id, version, read)
}

// created makes the answer to a creation.
func created(location string, replayed bool, v any) (reply, *Problem) {
	answer, problem := jsonReply(http.StatusCreated, v)
	answer.location, answer.replayed = location, replayed
	return answer, problem
}
