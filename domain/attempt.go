package domain

import (
	"cmp"
	"strconv"
)

// AttemptError is the error code of an attempt (specification, "Delivery attempt errors"); empty
// without an error.
type AttemptError string

// Codes of attempt errors.
const (
	AttemptTimeout      AttemptError = "TIMEOUT"
	AttemptDNS          AttemptError = "DNS"
	AttemptConnRefused  AttemptError = "CONN_REFUSED"
	AttemptTLS          AttemptError = "TLS"
	AttemptRedirect     AttemptError = "REDIRECT"
	AttemptSSRFBlocked  AttemptError = "SSRF_BLOCKED"
	AttemptBodyTooLarge AttemptError = "BODY_TOO_LARGE"
)

var attemptErrorMeanings = map[AttemptError]string{
	AttemptTimeout:      "there was no complete answer in time",
	AttemptDNS:          "the host name did not resolve",
	AttemptConnRefused:  "the connection could not be made, or was dropped",
	AttemptTLS:          "the certificate is invalid, or the TLS handshake failed",
	AttemptRedirect:     "redirects are not followed",
	AttemptSSRFBlocked:  "the host name resolves to a private or internal address",
	AttemptBodyTooLarge: "the answer's body was over 64 KB",
}

// Attempt is one attempt to make: the request without its timestamp and signature, which
// are added when it is sent.
type Attempt struct {
	EventID    string
	EndpointID string
	Number     int
	Sequence   uint64 // of the delivery
	URL        string
	Headers    []SentHeader // the endpoint's own
	Secrets    []Secret     // newest first
	Body       []byte
	Signatures Signatures // besides the specification's
	// SigningKeys are the endpoint's private Ed25519 keys that sign now, newest first, where
	// Signatures ask for one.
	SigningKeys []Secret
}

// SentHeader is a [Header] with its opened value.
type SentHeader struct {
	Name  string
	Value Secret
}

// AttemptResult is the result of one attempt.
type AttemptResult struct {
	SentAtMillis   int64
	DurationMillis int64
	StatusCode     int // 0: no status arrived
	Error          AttemptError
	ErrorDetail    string // the stage and cause of Error, at most 200 bytes; no internal address
	ResponseBody   []byte // the first 1 KiB, as sent
	// how long the receiver asks to wait; 0: it does not. Not stored in facts
	RetryAfterMillis int64
	// SHA-256 of the body and of the value of Webhook-Signature that were sent, or would have
	// been. Facts have them in [LogEntry]
	BodySHA256, SignatureSHA256 []byte
}

// answered reports whether a complete answer arrived. One whose body was too large counts:
// its status is valid (specification, "Delivery attempt errors").
func (r AttemptResult) answered() bool {
	return r.StatusCode != 0 && (r.Error == "" || r.Error == AttemptBodyTooLarge)
}

// Succeeded reports whether the receiver accepted the event: any 2xx, answered completely
// in time.
func (r AttemptResult) Succeeded() bool { return r.answered() && r.StatusCode/100 == 2 }

// Gone reports whether the receiver asks to be sent nothing more: 410, answered completely
// in time.
func (r AttemptResult) Gone() bool { return r.answered() && r.StatusCode == 410 }

// Answer describes the receiver's answer: its status, or that it did not answer, and the error with
// its detail, or else its meaning.
func (r AttemptResult) Answer() string {
	answer := "no answer"
	if r.StatusCode != 0 {
		answer = "HTTP " + strconv.Itoa(r.StatusCode)
	}
	if r.Error != "" {
		answer += ", " + string(r.Error)
		if why := cmp.Or(r.ErrorDetail, attemptErrorMeanings[r.Error]); why != "" {
			answer += " (" + why + ")"
		}
	}
	return answer
}

// DecideAttempt decides the result of attempt number attemptNumber, with everything that
// follows from it, the disabling of the endpoint included. A result that the delivery does
// not await decides nothing: it was recorded before, or the delivery is settled, was handed
// over, or does not exist. One that arrives while the endpoint is disabled counts like any
// other, and one that arrives after the delivery was cancelled is still recorded (G7).
func DecideAttempt(
	endpoint Endpoint, delivery Delivery, attemptNumber int, r AttemptResult,
	policy Policy, nowMillis int64,
) []FactBody {
	if !delivery.awaitsNumber(attemptNumber) {
		return nil
	}
	made := AttemptMade{
		EventID:   delivery.EventID,
		EventType: delivery.EventType,
		Number:    attemptNumber,
		Run:       delivery.Run,
		Result:    r,
	}
	made.Result.RetryAfterMillis = 0
	made.Entry.BodySHA256, made.Result.BodySHA256 = r.BodySHA256, nil
	made.Entry.SignatureSHA256, made.Result.SignatureSHA256 = r.SignatureSHA256, nil
	// The fact is the first of those that follow from the result.
	made.Entry = endpoint.Log.next(endpoint.Version+1, delivery.EndpointID, made)
	made.State, made.NextAttemptAtMillis = afterAttempt(endpoint, delivery, attemptNumber, r, policy,
		nowMillis)
	reason, disables := policy.disables(endpoint, made)
	made.Trouble = endpoint.Trouble.after(endpoint, made, nowMillis)
	if !disables {
		if policy.fails(endpoint, made, nowMillis) {
			made.Trouble.Told = true
			made.Telling = endpoint.tells(EndpointFailingEvent, FormatMillis(made.Trouble.SinceMillis))
		}
		return []FactBody{made}
	}
	return []FactBody{made, EndpointDisabled{
		Reason:         reason,
		EventID:        delivery.EventID,
		LastStatusCode: r.StatusCode,
		LastError:      r.Error,
		Telling: endpoint.tells(EndpointDisabledEvent,
			strconv.FormatUint(uint64(endpoint.Epoch), 10)),
		FailingSinceMillis: cmp.Or(made.Trouble.SinceMillis, endpoint.Trouble.SinceMillis),
	}}
}

// Awaits reports whether the outcome of an attempt would be recorded: it is the delivery's
// next one.
func (d Delivery) Awaits(a Attempt) bool {
	return d.EndpointID == a.EndpointID && d.awaitsNumber(a.Number)
}

func (d Delivery) awaitsNumber(attemptNumber int) bool {
	open := d.MovedTo == "" && (d.State.Pending() || d.State == StateCancelled)
	return d.Exists() && open && attemptNumber == d.Attempts+1
}
