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

	maxAnswerBytes = 32 << 20 // fits a page of 250 watches with long sender lists
	maxRepeats     = 3
	maxWait        = 10 * time.Second
	defaultTimeout = 45 * time.Second // per request: a test waits for its first attempt
)

// Client calls one service with one API key. It is safe for concurrent use.
type Client struct {
	base string
	key  string
	http *http.Client
}

// New returns a client for the service at baseURL, such as http://127.0.0.1:8080. The URL may end
// with a slash or with /v1. If httpClient is nil, New creates one.
func New(baseURL, apiKey string, httpClient *http.Client) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		strings.ContainsAny(baseURL, "?#") {
		return nil, errors.New("client: the API URL must look like " +
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

// IdempotencyKey sets the key of a write, so that the service recognizes a retry by another
// process. Without this option, the client generates a key.
func IdempotencyKey(key string) Option { return func(c *call) { c.idempotencyKey = key } }

// IfMatch makes an update fail unless the object still has this ETag.
func IfMatch(etag string) Option { return func(c *call) { c.ifMatch = etag } }

// call is one request, with instructions for decoding the response.
type call struct {
	method, path   string
	query          url.Values
	body           any // nil: no body
	idempotencyKey string
	ifMatch        string

	into   any  // where to decode a JSON response; nil discards it
	raw    bool // the response is not JSON, and into is a *[]byte
	accept int  // a status outside 2xx that counts as success
}

// tagged is an object that stores its response's ETag.
type tagged interface{ tag(etag string) }

func (e *Endpoint) tag(etag string) { e.ETag = etag }
func (w *Watch) tag(etag string)    { w.ETag = etag }

func ask[T any](
	ctx context.Context, c *Client, method, path string, body any, o []Option,
) (answer T, err error) {
	err = c.do(ctx, call{method: method, path: path, body: body, into: &answer}, o...)
	return answer, err
}

// id returns the path of an object or of an operation on it.
func id(prefix, id string, rest ...string) string {
	path := prefix + "/" + url.PathEscape(id)
	for _, r := range rest {
		path += "/" + r
	}
	return path
}

// Patch is a JSON merge patch: new values by field name. A nil value restores the field's default.
type Patch map[string]any

// do sends a call and retries it where that is safe and may help.
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

// exchange sends one request. A failed request may be retried after wait, unless wait is negative.
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
		return 100 * time.Millisecond, fmt.Errorf("client: calling the API: %w", err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	switch {
	case err != nil:
		return 100 * time.Millisecond, fmt.Errorf("client: reading the response to %s %s: %w", one.method,
			one.path, err)
	case len(got) > maxAnswerBytes:
		return -1, fmt.Errorf("client: the response to %s %s has more than %d bytes", one.method,
			one.path, maxAnswerBytes)
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
		return fmt.Errorf("client: decoding the response to %s %s: %w", one.method, one.path, err)
	}
	if object, has := one.into.(tagged); has {
		object.tag(response.Header.Get("ETag"))
	}
	return nil
}

// retryAfter returns the delay of the Retry-After header, and -1 if the request should not be
// retried.
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
		return fmt.Errorf("client: unexpected response %s: is this the URL of a "+
			"Lumenhook API?", r.Status)
	}
	return p
}

// Problem is an error response of the API (RFC 9457).
type Problem struct {
	Type      string  `json:"type"`
	Title     string  `json:"title"`
	Status    int     `json:"status"`
	Detail    string  `json:"detail"`
	Code      string  `json:"code"`
	RequestID string  `json:"requestId"`
	CommandID string  `json:"commandId,omitempty"` // of a write whose result is still unknown
	Errors    []Fault `json:"errors,omitempty"`
}

// Fault is one problem with a field of the body or with a query parameter.
type Fault struct {
	Pointer   string `json:"pointer"`
	Parameter string `json:"parameter,omitempty"`
	Code      string `json:"code"`
	Detail    string `json:"detail"`
}

// Error lists all faults. A single fault is not listed, because Detail already describes it.
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
