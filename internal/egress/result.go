package egress

import (
	"errors"
	"time"
)

// Code is an error code of the specification, or empty. A status such as 500 has no code.
type Code string

// Error codes of attempts (specification, "Delivery attempt errors").
const (
	Timeout      Code = "TIMEOUT"
	DNS          Code = "DNS"
	ConnRefused  Code = "CONN_REFUSED"
	TLS          Code = "TLS"
	Redirect     Code = "REDIRECT"
	SSRFBlocked  Code = "SSRF_BLOCKED"
	BodyTooLarge Code = "BODY_TOO_LARGE"
)

// Result is the result of an attempt.
type Result struct {
	SentAt   time.Time     // start of the attempt, from Config.Now
	Duration time.Duration // until the response was complete or the attempt failed
	// StatusCode is 0 if no status arrived. It is set even if reading the body failed.
	StatusCode int
	Error      Code
	// Detail explains Error to the account holder: the stage and the cause, in at most 200 bytes of
	// printable text and without internal addresses.
	Detail string
	// Body is the start of the response body, at most Config.StoredBodyBytes, possibly not UTF-8.
	Body []byte
	// RetryAfter is the wait that the receiver requested, at most 24 h, or 0.
	RetryAfter time.Duration
}

// Delivered reports whether the attempt succeeded: a 2xx status, and a complete or too large body.
func (r Result) Delivered() bool {
	return r.StatusCode >= 200 && r.StatusCode <= 299 && (r.Error == "" || r.Error == BodyTooLarge)
}

type reply struct {
	status     int
	body       []byte
	retryAfter string
	tooLarge   bool
	err        error
	sendAgain  bool // after an error: the request may be sent again immediately (E2)
}

// errHeadersTooLarge ends a response whose headers, including interim ones, are too large.
var errHeadersTooLarge = errors.New("response headers are over 32 KiB")

var errForbidden = errors.New("the address is private or internal and not permitted by " +
	"--egress-allow")

// code returns the reply's error code. A redirect is an error regardless of its body.
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

// maxRetryAfter limits a Retry-After to the longest wait between two attempts.
const maxRetryAfter = 24 * time.Hour
