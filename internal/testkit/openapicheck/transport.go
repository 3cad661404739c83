package openapicheck

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// Transport compares every exchange of a client with the API.
type Transport struct {
	Base http.RoundTripper
	// Departs gets each exchange that openapi.yaml does not describe.
	Departs func(error)
}

// RoundTrip implements http.RoundTripper.
func (c Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil && r.Body != http.NoBody {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	response, err := c.Base.RoundTrip(r)
	if err != nil || response.Header.Get("X-Request-Id") == "" { // not the API's
		return response, err
	}
	got, err := io.ReadAll(response.Body)
	response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(got))
	if err != nil {
		return nil, err
	}
	if err := Compare(r, string(sent), response, got); err != nil {
		c.Departs(fmt.Errorf("%s %s answered %d: %w\nsent %s\ngot  %s", r.Method, r.URL.Path,
			response.StatusCode, err, sent, got))
	}
	return response, nil
}

// CheckDefaultTransport compares every exchange over http that goes through
// http.DefaultTransport, for tests that do not make their clients themselves.
func CheckDefaultTransport(departs func(error)) {
	base := http.DefaultTransport.(*http.Transport)
	base.RegisterProtocol("http", Transport{Base: base.Clone(), Departs: departs})
}
