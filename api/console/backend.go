package console

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/lumenhook/lumenhook/api/client"
)

// maxAnswerBytes bounds what is kept of an answer of the API, whose own bounds are lower.
const maxAnswerBytes = 32 << 20

// backend runs requests through the API's own handler, as if the browser had sent them with the
// session's key: authentication, permissions, limits and the log line are the API's.
type backend struct {
	api  http.Handler
	from *http.Request // of the browser

	last         []byte // the body of the last answer
	retrySeconds string // of the last answer; empty: none
}

// clientOf makes a client of the API for a key, which asks on behalf of a browser.
func (x *Console) clientOf(from *http.Request, apiKey string) (*client.Client, *backend, error) {
	b := &backend{api: x.API, from: from}
	c, err := client.New("http://console", apiKey, &http.Client{Transport: b})
	return c, b, err
}

// RoundTrip answers a request of the client. Retry-After is kept from it: a person is shown a
// page at once, and decides.
func (b *backend) RoundTrip(r *http.Request) (*http.Response, error) {
	inner := r.Clone(r.Context())
	inner.RequestURI = r.URL.RequestURI()
	inner.RemoteAddr, inner.Host, inner.TLS = b.from.RemoteAddr, b.from.Host, b.from.TLS
	for _, name := range []string{"X-Forwarded-For", "X-Request-Id", "Traceparent"} {
		if values := b.from.Header.Values(name); len(values) > 0 {
			inner.Header[name] = values
		}
	}
	if inner.Body == nil {
		inner.Body = http.NoBody
	}
	out := &recorded{header: make(http.Header)}
	b.api.ServeHTTP(out, inner)
	if out.overflown {
		return nil, fmt.Errorf("console: an answer of the API has more than %d bytes", maxAnswerBytes)
	}
	b.last, b.retrySeconds = out.body.Bytes(), out.header.Get("Retry-After")
	out.header.Del("Retry-After")
	if out.status == 0 {
		out.status = http.StatusOK
	}
	return &http.Response{
		Status:        strconv.Itoa(out.status) + " " + http.StatusText(out.status),
		StatusCode:    out.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        out.header,
		Body:          io.NopCloser(bytes.NewReader(b.last)),
		ContentLength: int64(len(b.last)),
		Request:       r,
	}, nil
}

// recorded keeps an answer.
type recorded struct {
	header    http.Header
	status    int
	body      bytes.Buffer
	overflown bool
}

func (w *recorded) Header() http.Header { return w.header }

func (w *recorded) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

func (w *recorded) Write(p []byte) (int, error) {
	if w.overflown = w.overflown || w.body.Len()+len(p) > maxAnswerBytes; w.overflown {
		return 0, io.ErrShortWrite
	}
	return w.body.Write(p)
}
