package client_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
)

func TestTheAddressMayEndAsPeopleWriteIt(t *testing.T) {
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)
	for end, want := range map[string]string{
		"": "", "/": "", "//": "", "/v1": "", "/v1/": "", "//v1//": "",
		"/hooks": "/hooks", "/hooks/v1/": "/hooks", "/v12": "/v12",
	} {
		c, err := client.New(server.URL+end, "k", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.GetEndpoint(t.Context(), "ep_1"); err != nil {
			t.Fatal(err)
		}
		if got := <-asked; got != want+"/v1/endpoints/ep_1" {
			t.Errorf("%q: asked for %s", end, got)
		}
	}
	for _, wrong := range []string{
		"", "host:8080", "ftp://host", "http://", "http://host?x", "http://host/#x",
	} {
		if _, err := client.New(wrong, "k", nil); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
