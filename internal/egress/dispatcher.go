package egress

import (
	"bytes"
	"context"
	"crypto/sha256"
	"strconv"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
)

type poster interface {
	Post(ctx context.Context, r Request) (Result, error)
	DropIdle(url string)
}

// Dispatcher signs and sends the requests of attempts (specification, "Delivery request") until its
// context ends. The caller limits the number of attempts in flight.
type Dispatcher struct {
	ctx    context.Context
	client poster
	now    func() time.Time
}

// NewDispatcher returns a dispatcher. When ctx ends, it cancels attempts in flight. If their
// results matter, wait for them first.
func NewDispatcher(ctx context.Context, client poster, now func() time.Time) *Dispatcher {
	return &Dispatcher{ctx: ctx, client: client, now: now}
}

// Dispatch makes an attempt and calls done with the result. If the dispatcher's context ends first,
// the attempt has no result and done is not called.
func (d *Dispatcher) Dispatch(a domain.Attempt, done func(domain.AttemptResult)) {
	go func() {
		request, signature := d.request(a)
		result, err := d.client.Post(d.ctx, request)
		switch {
		case err == nil:
			made := outcome(result)
			made.ResponseBody = withoutValues(made.ResponseBody, a.Headers)
			made.BodySHA256, made.SignatureSHA256 = hashOf(request.Body), hashOf(signature)
			done(made)
		case d.ctx.Err() == nil:
			// A header that the API would have rejected. The endpoint's deliveries fail; other endpoints
			// are not affected.
			done(domain.AttemptResult{
				SentAtMillis: d.now().UnixMilli(),
				Error:        domain.AttemptConnRefused,
				ErrorDetail:  err.Error(),
			})
		}
	}()
}

// Disconnect closes the idle connections to a URL's host.
func (d *Dispatcher) Disconnect(url string) { d.client.DropIdle(url) }

func (d *Dispatcher) request(a domain.Attempt) (r Request, signature string) {
	timestamp := d.now().Unix()
	signature = a.SignatureHeader(timestamp)
	header := []Field{
		{Name: "Content-Type", Value: "application/json"},
		{Name: "Webhook-Id", Value: a.EventID},
		{Name: "Webhook-Timestamp", Value: strconv.FormatInt(timestamp, 10)},
		{Name: "Webhook-Signature", Value: signature},
		{Name: "Webhook-Sequence", Value: strconv.FormatUint(a.Sequence, 10)},
	}
	for _, own := range a.Headers {
		header = append(header, Field{Name: own.Name, Value: string(own.Value)})
	}
	return Request{URL: a.URL, Body: a.Body, Header: header}, signature
}

func hashOf[T []byte | string](sent T) []byte {
	sum := sha256.Sum256([]byte(sent))
	return sum[:]
}

// withoutValues masks the words of header values in a response. Header values are write-only, but a
// receiver that echoes its request would show them to everyone who can read the history. It finds
// all words in the response as it was received, because they may overlap: if it masked one first,
// the rest of another would stay readable.
func withoutValues(body []byte, headers []domain.SentHeader) []byte {
	const secretBytesMin = 8 // shorter words are no secrets, and appear by chance
	masked := bytes.Clone(body)
	for _, h := range headers {
		for word := range strings.FieldsSeq(string(h.Value)) {
			if len(word) >= secretBytesMin {
				maskWord(masked, body, []byte(word))
				maskCut(masked, body, []byte(word), secretBytesMin)
			}
		}
	}
	return masked
}

// maskWord masks a word wherever it is in body.
func maskWord(masked, body, word []byte) {
	done := 0 // occurrences may overlap
	for from := 0; ; {
		at := bytes.Index(body[from:], word)
		if at < 0 {
			return
		}
		at += from
		mask(masked[max(at, done) : at+len(word)])
		done, from = at+len(word), at+1
	}
}

// maskCut masks the beginning of a word at the end of body, which may be the stored part of a
// longer response.
func maskCut(masked, body, word []byte, bytesMin int) {
	for n := min(len(word)-1, len(body)); n >= bytesMin; n-- {
		if bytes.HasSuffix(body, word[:n]) {
			mask(masked[len(body)-n:])
			return // shorter beginnings are in it
		}
	}
}

func mask(secret []byte) {
	for i := range secret {
		secret[i] = '*'
	}
}

func outcome(r Result) domain.AttemptResult {
	return domain.AttemptResult{
		SentAtMillis:     r.SentAt.UnixMilli(),
		DurationMillis:   r.Duration.Milliseconds(),
		StatusCode:       r.StatusCode,
		Error:            domain.AttemptError(r.Error),
		ErrorDetail:      r.Detail,
		ResponseBody:     r.Body,
		RetryAfterMillis: r.RetryAfter.Milliseconds(),
	}
}
