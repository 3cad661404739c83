package console

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/lumenhook/lumenhook/api/client"
)

// maxAnswerBytes limits the size of a response that the console reads. The API's own limits are
// lower.
const maxAnswerBytes = 32 << 20

// backend sends the client's requests to the API's own handler, as if the browser had sent them
// with the session's key. So authentication, permissions, limits and request logs are the API's.
type backend struct {
	api  http.Handler
	from *http.Request // the browser's request

	last         []byte // body of the last response
	retrySeconds string // Retry-After of the last response, or empty
}

// clientOf returns an API client that uses apiKey on behalf of a browser's request.
func (x *Console) clientOf(from *http.Request, apiKey string) (*client.Client, *backend, error) {
	b := &backend{api: x.API, from: from}
	c, err := client.New("http://console", apiKey, &http.Client{Transport: b})
	return c, b, err
}

// RoundTrip handles a request of the client. It removes Retry-After from the response, so that the
// client doesn't wait: the user gets a page immediately, and decides whether to retry.
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
	whole := b.serve(out, inner)
	if out.overflown {
		return nil, fmt.Errorf("console: the API's response is larger than %d bytes", maxAnswerBytes)
	}
	if !whole {
		return nil, errCut
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

// errCut is for an answer whose rest the API could not make. The API has logged why.
var errCut = errors.New("console: the API cut its answer off")

// serve reports whether the API answered to the end.
func (b *backend) serve(out *recorded, r *http.Request) (whole bool) {
	defer func() {
		//nolint:errorlint // a panic's value is not wrapped
		if cause := recover(); cause != nil && cause != http.ErrAbortHandler {
			panic(cause)
		}
	}()
	b.api.ServeHTTP(out, r)
	return true
}

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
