package node

import (
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/egress"
)

func newURLPolicy(t *testing.T) urlPolicy {
	t.Helper()
	client, err := egress.New(egress.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return urlPolicy{client}
}

func TestInternationalHostsAreWrittenAsDNSKnowsThem(t *testing.T) {
	policy := newURLPolicy(t)
	for raw, want := range map[string]string{
		"https://bücher.invalid/x?y=z":     "https://xn--bcher-kva.invalid/x?y=z",
		"https://BÜCHER.invalid:8443":      "https://xn--bcher-kva.invalid:8443/",
		"https://bücher。invalid./":         "https://xn--bcher-kva.invalid/",
		"https://xn--bcher-kva.invalid/":   "https://xn--bcher-kva.invalid/",
		"https://shop.invalid./":           "https://shop.invalid/",
		"https://１２７.0.0.1/":               "SSRF_BLOCKED",
		"https://①２７.0.0.1:443/":           "SSRF_BLOCKED",
		"https://ü:secret@bücher.invalid/": "URL_INVALID",
		"https://a\u0301\u202e.invalid/":   "URL_INVALID",
		"http://bücher.invalid/":           "URL_NOT_HTTPS",
	} {
		got, _, faults := policy.Check(t.Context(), raw)
		if len(faults) > 0 {
			got = faults[0].Code
		}
		if got != want {
			t.Errorf("%s became %s, want %s", raw, got, want)
		}
	}
}

// Every fault of a URL must be reported, and every spelling of a forbidden address recognized.
func TestURLFaultsAreReportedAtOnce(t *testing.T) {
	policy := newURLPolicy(t)
	for raw, want := range map[string]string{
		"http://u:p@10.0.0.1:80/#f":      "URL_NOT_HTTPS URL_HAS_CREDENTIALS URL_HAS_FRAGMENT SSRF_BLOCKED URL_PORT_NOT_ALLOWED",
		"https://0x0a000001/":            "SSRF_BLOCKED",
		"https://012.1/":                 "SSRF_BLOCKED",
		"https://167772161:8443/":        "SSRF_BLOCKED",
		"https://0x08080808/":            "URL_HOST_INVALID",
		"https://[::ffff:10.0.0.1]:444/": "SSRF_BLOCKED URL_PORT_NOT_ALLOWED",
	} {
		_, _, faults := policy.Check(t.Context(), raw)
		var got []string
		for _, f := range faults {
			got = append(got, f.Code)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", raw, got, want)
		}
	}
}
