package domain

import (
	"cmp"
	"strconv"
)

// AttemptError is an error code (specification, "Delivery attempt errors"), or empty.
type AttemptError string

// Attempt error codes.
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
	AttemptTimeout:      "no complete response arrived in time",
	AttemptDNS:          "the host name did not resolve",
	AttemptConnRefused:  "the connection failed or was dropped",
	AttemptTLS:          "the certificate is invalid, or the TLS handshake failed",
	AttemptRedirect:     "redirects are not followed",
	AttemptSSRFBlocked:  "the host name resolves to a private or internal address",
	AttemptBodyTooLarge: "the response body was over 64 KB",
}

// Meaning explains an error. If it is unknown, Meaning returns the code.
func (e AttemptError) Meaning() string { return cmp.Or(attemptErrorMeanings[e], string(e)) }

// Attempt is a delivery attempt to make. The timestamp and signature are added when it is sent.
type Attempt struct {
	EventID    string
	EndpointID string
	Number     int
	Sequence   uint64 // the delivery's sequence number
	URL        string
	Headers    []SentHeader // custom headers of the endpoint
	Secrets    []Secret     // newest first
	Body       []byte
	Signatures Signatures // in addition to the specification's
	// SigningKeys are the endpoint's current private Ed25519 keys, newest first, if needed.
	SigningKeys []Secret
}

// SentHeader is a [Header] with its decrypted value.
type SentHeader struct {
	Name  string
	Value Secret
}

// AttemptResult is the result of one attempt.
type AttemptResult struct {
	SentAtMillis   int64
	DurationMillis int64
	StatusCode     int // 0 if no status arrived
	Error          AttemptError
	ErrorDetail    string // stage and cause of Error, at most 200 bytes, without internal addresses
	ResponseBody   []byte // the first 1 KiB, without header values of the endpoint
	// The wait that the receiver requested, or 0. It is not stored in facts.
	RetryAfterMillis int64
	// SHA-256 hashes of the request's body and of its Webhook-Signature, computed even if nothing was
	// sent. Facts store them in [LogEntry].
	BodySHA256, SignatureSHA256 []byte
}

// answered reports whether a complete response arrived. A response whose body was too large counts,
// because its status is valid (specification, "Delivery attempt errors").
func (r AttemptResult) answered() bool {
	return r.StatusCode != 0 && (r.Error == "" || r.Error == AttemptBodyTooLarge)
}

// Succeeded reports whether the receiver accepted the event, with a complete 2xx response in time.
func (r AttemptResult) Succeeded() bool { return r.answered() && r.StatusCode/100 == 2 }

// Gone reports whether the receiver responded 410 to request that no more events are sent.
func (r AttemptResult) Gone() bool { return r.answered() && r.StatusCode == 410 }

// Answer describes the response: its status, and the error with its detail or meaning.
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

// DecideAttempt decides the result of an attempt and everything that follows from it, including
// disabling the endpoint. It returns no facts for a result that the delivery doesn't await: it was
// recorded before, or the delivery has settled, was handed over, or doesn't exist. A result that
// arrives while the endpoint is disabled counts like any other, and a result that arrives after the
// delivery was cancelled is still recorded (G7).
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
	// This is the first fact, so its version is the next one.
	made.Entry = endpoint.Log.next(endpoint.Version+1, delivery.EndpointID, made)
	made.State, made.NextAttemptAtMillis = afterAttempt(endpoint, delivery, attemptNumber, r, policy,
		nowMillis)
	reason, disables := policy.disables(endpoint, made)
	made.Trouble = endpoint.Trouble.after(endpoint, made, nowMillis)
	if !disables {
		if policy.fails(endpoint, made, nowMillis) {
			made.Trouble.Told = true
			made.Telling = endpoint.notify(EndpointFailingEvent, FormatMillis(made.Trouble.SinceMillis))
		}
		return []FactBody{made}
	}
	return []FactBody{made, EndpointDisabled{
		Reason:         reason,
		EventID:        delivery.EventID,
		LastStatusCode: r.StatusCode,
		LastError:      r.Error,
		Telling: endpoint.notify(EndpointDisabledEvent,
			strconv.FormatUint(uint64(endpoint.Epoch), 10)),
		FailingSinceMillis: cmp.Or(made.Trouble.SinceMillis, endpoint.Trouble.SinceMillis),
	}}
}

// Awaits reports whether the attempt is the delivery's next one, so its result would be recorded.
func (d Delivery) Awaits(a Attempt) bool {
	return d.EndpointID == a.EndpointID && d.awaitsNumber(a.Number)
}

func (d Delivery) awaitsNumber(attemptNumber int) bool {
	open := d.MovedTo == "" && (d.State.Pending() || d.State == StateCancelled)
	return d.Exists() && open && attemptNumber == d.Attempts+1
}
