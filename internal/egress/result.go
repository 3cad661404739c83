package egress

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"
)

// Code is the error of an attempt as the specification names it; empty when no
// error occurred (a status that is not 2xx is no error in this sense).
type Code string

// What can go wrong with an attempt (specification, "Delivery attempt errors").
const (
	Timeout      Code = "TIMEOUT"
	DNS          Code = "DNS"
	ConnRefused  Code = "CONN_REFUSED"
	TLS          Code = "TLS"
	Redirect     Code = "REDIRECT"
	SSRFBlocked  Code = "SSRF_BLOCKED"
	BodyTooLarge Code = "BODY_TOO_LARGE"
)

// Result is what came of one attempt.
type Result struct {
	SentAt   time.Time     // when the attempt began, by Config.Now
	Duration time.Duration // until the answer was complete or given up
	// StatusCode is 0 when no status arrived. A status that arrived is kept
	// whatever happened to the body after it.
	StatusCode int
	Error      Code
	// Detail says for an operator's log what lies behind Error. It may name
	// addresses inside the network: keep it from the account holder.
	Detail string
	// Body is the beginning of the response as sent, at most
	// Config.StoredBodyBytes, possibly not UTF-8.
	Body []byte
	// RetryAfter is the wait the receiver asked for, at most 24 h, 0 when it did not.
	RetryAfter time.Duration
}

// Delivered reports whether the attempt succeeded: a 2xx whose body arrived in
// time, or was too large to be read whole.
func (r Result) Delivered() bool {
	return r.StatusCode >= 200 && r.StatusCode <= 299 && (r.Error == "" || r.Error == BodyTooLarge)
}

// reply is what an exchange found out; the caller of exchange makes the Result.
type reply struct {
	status       int
	body         []byte
	retryAfter   string
	tooLarge     bool
	err          error
	neverWritten bool // err, and no byte of the request was accepted
}

// errHeadersTooLarge ends a response whose headers, interim responses counted,
// pass maxHeaderBytes.
var errHeadersTooLarge = errors.New("response headers are over 32 KiB")

// errForbidden is the policy's verdict on an address.
var errForbidden = errors.New("the address is private or internal and not permitted by " +
	"--egress-allow")

// stageError says in which part of an attempt an error arose.
type stageError struct {
	code Code
	err  error
}

func (e *stageError) Error() string { return e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

func inStage(code Code, err error) error { return &stageError{code, err} }

// classify names an error by the specification. A passed deadline and the
// policy's verdict win over the stage in which they showed; what has no stage
// is a connection that failed.
func classify(err error) Code {
	var stage *stageError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errForbidden):
		return SSRFBlocked
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Timeout
	case errors.As(err, &stage):
		return stage.code
	default:
		return ConnRefused
	}
}

// code is the error of an answered or failed exchange. A redirect is one
// whatever its body does.
func (r *reply) code() Code {
	switch {
	case r.status >= 300 && r.status <= 399:
		return Redirect
	case r.err != nil:
		return classify(r.err)
	case r.tooLarge:
		return BodyTooLarge
	default:
		return ""
	}
}

func (r *reply) detail() string {
	if r.err == nil {
		return ""
	}
	return r.err.Error()
}

// maxRetryAfter bounds what a receiver can ask for to the longest wait between
// two attempts.
const maxRetryAfter = 24 * time.Hour

// parseRetryAfter reads both forms of the header (RFC 9110, 10.2.3); what it
// cannot read, and what lies in the past, asks for no wait.
func parseRetryAfter(value string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), maxRetryAfter)
}
