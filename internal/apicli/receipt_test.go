package apicli

import (
	"net/http"
	"net/url"
	"testing"
)

func TestKeysAreNotReadFromStandardInput(t *testing.T) {
	if _, err := ReadReceiptKeys(t.Context(), "-"); err == nil {
		t.Error("there is no error")
	}
}

// A redirect must not move the download of the keys that prove a receipt to plain HTTP.
func TestKeysStayOnHTTPS(t *testing.T) {
	for _, c := range []struct {
		from, to string
		follows  bool
	}{
		{"https", "https", true},
		{"https", "http", false},
		{"http", "http", true},
		{"http", "https", true},
	} {
		request := func(scheme string) *http.Request {
			return &http.Request{URL: &url.URL{Scheme: scheme, Host: "hooks.example"}}
		}
		err := keepHTTPS(request(c.to), []*http.Request{request(c.from)})
		if (err == nil) != c.follows {
			t.Errorf("from %s to %s: %v", c.from, c.to, err)
		}
	}
}
