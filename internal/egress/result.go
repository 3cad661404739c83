package egress

import (
	"errors"
	"time"
)

// Code is the error of an attempt as named in the specification; empty without an error (a status
// that is not 2xx is not an error in this sense).
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

// Result is the result of one attempt.
type Result struct {
	SentAt   time.Time     // when the attempt began, by Config.Now
	Duration time.Duration // until the answer was complete or given up
	// StatusCode is 0 when no status arrived. A status that arrived is kept even if reading
	// the body failed.
	StatusCode int
	Error      Code
	// Detail explains Error to the account holder: what was being done, and what failed, in
	// at most 200 bytes of printable text. It names no internal address.
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

// reply is the result of an exchange; the caller of exchange makes the Result.
type reply struct {
	status     int
	body       []byte
	retryAfter string
	tooLarge   bool
	err        error
	sendAgain  bool // err, and the request may be sent again at once (E2)
}

// errHeadersTooLarge ends a response whose headers, interim responses included, exceed
// maxHeaderBytes.
var errHeadersTooLarge = errors.New("response headers are over 32 KiB")

// errForbidden means that the policy forbids an address.
var errForbidden = errors.New("the address is private or internal and not permitted by " +
	"--egress-allow")

// code returns the error of an answered or failed exchange. A redirect is an error whatever
// its body is.
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

// maxRetryAfter bounds what a receiver can ask for to the longest wait between
// two attempts.
const maxRetryAfter = 24 * time.Hour
