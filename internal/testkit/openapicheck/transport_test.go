package openapicheck_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/testkit/openapicheck"
)

// TestTheTransportFindsDepartures: without it, the other tests would prove nothing.
func TestTheTransportFindsDepartures(t *testing.T) {
	const headers = "X-Request-Id: r\nRateLimit: \"account\";r=1;t=1\nRateLimit-Policy: \"account\";q=1;w=1\n"
	for _, c := range []struct {
		path, headers, body string
		departs             string // empty if it does not
	}{
		{"/v1/endpoints", headers, `{"data":[],"nextCursor":null}`, ""},
		{"/v1/endpoints", headers, `{"data":[],"nextCursor":null,"more":1}`, "more"},
		{"/v1/endpoints", headers, `{"data":null,"nextCursor":null}`, "data"},
		{"/v1/endpoints", headers + "X-Odd: 1\n", `{"data":[],"nextCursor":null}`, "X-Odd"},
		{"/v1/endpoints", "X-Request-Id: r\n", `{"data":[],"nextCursor":null}`, "RateLimit"},
		{"/v1/nowhere", headers, `{}`, "no such operation"},
		{"/metrics", "", `not the API`, ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for line := range strings.Lines(c.headers) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				w.Header().Set(name, value)
			}
			_, _ = w.Write([]byte(c.body))
		}))
		var found error
		asker := http.Client{Transport: openapicheck.Transport{
			Base:    http.DefaultTransport,
			Departs: func(err error) { found = err },
		}}
		response, err := asker.Get(server.URL + c.path)
		server.Close()
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if (found != nil) != (c.departs != "") ||
			found != nil && !strings.Contains(found.Error(), c.departs) {
			t.Errorf("%s with %s: %v, want %q", c.path, c.body, found, c.departs)
		}
	}
}
