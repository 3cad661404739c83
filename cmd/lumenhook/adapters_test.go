package main

import (
	"testing"

	"github.com/lumenhook/lumenhook/internal/egress"
)

func TestInternationalHostsAreWrittenAsDNSKnowsThem(t *testing.T) {
	client, err := egress.New(egress.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	policy := urlPolicy{client}
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
