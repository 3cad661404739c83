package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	get    = http.MethodGet
	post   = http.MethodPost
	patch  = http.MethodPatch
	remove = http.MethodDelete

	maxAnswerBytes = 32 << 20 // a page of 250 watches with long lists of senders is the largest
	maxRepeats     = 3
	maxWait        = 10 * time.Second
	defaultTimeout = 45 * time.Second // of one request: a test waits for its attempt
)

// Client calls one service with one key. It is safe for concurrent use.
type Client struct {
	base string
	key  string
	http *http.Client
}

// New makes a client of the service at a base address, such as http://127.0.0.1:8080, which may
// end with a slash or with /v1. If httpClient is nil, it creates one.
func New(baseURL, apiKey string, httpClient *http.Client) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		strings.ContainsAny(baseURL, "?#") {
		return nil, errors.New("client: the address of the API must be a URL such as " +
			"http://127.0.0.1:8080")
	}
	if httpClient == nil {
		httpClient = &http.Client{Timeout: defaultTimeout}
	}
	base := strings.TrimRight(strings.TrimSuffix(strings.TrimRight(baseURL, "/"), "/v1"), "/")
	return &Client{base: base, key: apiKey, http: httpClient}, nil
}

// Option modifies one call.
type Option func(*call)

// IdempotencyKey names a write, so that a repeat of it by another process is recognised.
// Without it the client generates one.
func IdempotencyKey(key string) Option { return func(c *call) { c.idempotencyKey = key } }

// IfMatch makes a change fail if the object has another ETag.
func IfMatch(etag string) Option { return func(c *call) { c.ifMatch = etag } }

// call is one request and how to handle its answer.
type call struct {
	method, path   string
	query          url.Values
	body           any // nil: none
	idempotencyKey string
	ifMatch        string

	into   any  // where a JSON answer is decoded into; nil: nowhere
	raw    bool // the answer is no JSON, and into is a *[]byte
	accept int  // a status that counts as success besides 2xx
}

// tagged is an object whose answer has an ETag.
type tagged interface{ tag(etag string) }

func (e *Endpoint) tag(etag string) { e.ETag = etag }
func (w *Watch) tag(etag string)    { w.ETag = etag }

// ask makes a call whose answer is JSON.
func ask[T any](
	ctx context.Context, c *Client, method, path string, body any, o []Option,
) (answer T, err error) {
	err = c.do(ctx, call{method: method, path: path, body: body, into: &answer}, o...)
	return answer, err
}

// id returns the path of an object, or of an operation on it.
func id(prefix, id string, rest ...string) string {
	path := prefix + "/" + url.PathEscape(id)
	for _, r := range rest {
		path += "/" + r
	}
	return path
}

// Patch is a JSON merge patch: values by field name, nil to restore a field's default.
type Patch map[string]any

// do makes a call, and repeats it if it may and should be repeated.
func (c *Client) do(ctx context.Context, one call, options ...Option) error {
	for _, o := range options {
		o(&one)
	}
	if one.idempotencyKey == "" && one.method != http.MethodGet {
		one.idempotencyKey = rand.Text()
	}
	var body []byte
	if one.body != nil {
		var err error
		if body, err = json.Marshal(one.body); err != nil {
			return fmt.Errorf("client: encoding the body of %s %s: %w", one.method, one.path, err)
		}
	}
	for repeat := 0; ; repeat++ {
		wait, err := c.exchange(ctx, one, body)
		if err == nil || wait < 0 || repeat == maxRepeats {
			return err
		}
		if !sleep(ctx, wait) {
			return err
		}
	}
}

// exchange makes one request. If wait is 0 or more, the request may be repeated after that
// time.
func (c *Client) exchange(
	ctx context.Context, one call, body []byte,
) (wait time.Duration, err error) {
	address := c.base + one.path
	if len(one.query) > 0 {
		address += "?" + one.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, one.method, address, bytes.NewReader(body))
	if err != nil {
		return -1, fmt.Errorf("client: %w", err)
	}
	c.setHeaders(request.Header, one, body)
	response, err := c.http.Do(request)
	if err != nil {
		return 100 * time.Millisecond, fmt.Errorf("client: asking the API: %w", err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	switch {
	case err != nil:
		return 100 * time.Millisecond, fmt.Errorf("client: reading the answer to %s %s: %w", one.method,
			one.path, err)
	case len(got) > maxAnswerBytes:
		return -1, fmt.Errorf("client: the answer to %s %s has more than %d bytes", one.method, one.path,
			maxAnswerBytes)
	case response.StatusCode >= 300 && response.StatusCode != one.accept:
		return retryAfter(response), problemOf(response, got)
	}
	return -1, one.take(response, got)
}

func (c *Client) setHeaders(h http.Header, one call, body []byte) {
	if c.key != "" {
		h.Set("Authorization", "Bearer "+c.key)
	}
	if body != nil {
		h.Set("Content-Type", "application/json")
	}
	if one.idempotencyKey != "" {
		h.Set("Idempotency-Key", one.idempotencyKey)
	}
	if one.ifMatch != "" {
		h.Set("If-Match", one.ifMatch)
	}
}

func (one call) take(response *http.Response, got []byte) error {
	if one.raw {
		*one.into.(*[]byte) = got
		return nil
	}
	if one.into == nil {
		return nil
	}
	if err := json.Unmarshal(got, one.into); err != nil {
		return fmt.Errorf("client: decoding the answer to %s %s: %w", one.method, one.path, err)
	}
	if object, has := one.into.(tagged); has {
		object.tag(response.Header.Get("ETag"))
	}
	return nil
}

// retryAfter returns the time of a Retry-After header.
func retryAfter(r *http.Response) time.Duration {
	if r.StatusCode != http.StatusServiceUnavailable && r.StatusCode != http.StatusTooManyRequests {
		return -1
	}
	seconds, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return -1
	}
	return min(time.Duration(seconds)*time.Second, maxWait)
}

func problemOf(r *http.Response, body []byte) error {
	p := &Problem{}
	if err := json.Unmarshal(body, p); err != nil || p.Code == "" {
		return fmt.Errorf("client: the API answered %s, and not as the API of Lumenhook does: is the "+
			"address right?", r.Status)
	}
	return p
}

// Problem is a refusal (RFC 9457).
type Problem struct {
	Type      string  `json:"type"`
	Title     string  `json:"title"`
	Status    int     `json:"status"`
	Detail    string  `json:"detail"`
	Code      string  `json:"code"`
	RequestID string  `json:"requestId"`
	CommandID string  `json:"commandId,omitempty"` // of a write that is not answered yet
	Errors    []Fault `json:"errors,omitempty"`
}

// Fault is one thing wrong with a body or a query.
type Fault struct {
	Pointer   string `json:"pointer"`
	Parameter string `json:"parameter,omitempty"`
	Code      string `json:"code"`
	Detail    string `json:"detail"`
}

// Error names every fault; Detail has the text of the only one.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s, request %s)", p.Detail, p.Code, p.RequestID)
	if len(p.Errors) == 1 {
		return b.String()
	}
	for _, f := range p.Errors {
		where := f.Pointer
		if f.Parameter != "" {
			where = f.Parameter
		}
		fmt.Fprintf(&b, "\n  %s: %s (%s)", where, f.Detail, f.Code)
	}
	return b.String()
}
