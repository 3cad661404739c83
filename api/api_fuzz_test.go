package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// secretMark stands for a secret key in the inputs below.
const secretMark = "§"

// FuzzRequest sends requests of any shape. Whatever the method, path, headers and body, the
// response must not be a 5xx, and its body must be JSON if it says so. Neither the response nor the
// log may contain a secret key from the request.
func FuzzRequest(f *testing.F) {
	w := assemble(f)
	apiKey := w.newKey(account("fuzz"), domain.Permissions()...)
	watch := `{"walletAddress":"` + seed(1).Address() + `","endpointId":"` + domain.DeriveID(
		domain.EndpointPrefix, "x",
	) + `","assets":[{"code":"XLM","issuer":null}],"amountRule":{"kind":"range","min":"1","max":"2.5"},"memoRule":{"kind":"equals","type":"hash","value":"00"},"senderAllowlist":["` + seed(
		2,
	).Address() + `"],"eventTypes":["payment.rejected"],"label":"x"}`
	for _, body := range []string{
		`{"url":"https://example.com/","description":"x"}`, watch,
		`{"walletAddress":"` + secretMark + `"}`, `{"` + secretMark + `":1}`, secretMark,
		`{"url":"https://` + secretMark + `@h/"}`, `{"a":1,"a":2}`, "{} {}", "\xff",
		strings.Repeat("[", 40), `{"url":1e999}`,
	} {
		f.Add("POST", "/v1/endpoints", true, "application/json", "", "", body)
		f.Add("POST", "/v1/watches", true, "application/json; charset=utf-8", "key-1", "req-1", body)
	}
	f.Add("GET", "/v1/events/evt_00000000000000000000000000", true, "", "", secretMark, "")
	f.Add("GET", "/v1/openapi.yaml?a=b", false, "", secretMark, "", "")
	f.Add("PATCH", "/"+secretMark+"/../v1//endpoints", true, "text/plain", "", "", "{}")
	f.Fuzz(func(
		t *testing.T, method, target string, authorized bool,
		contentType, idempotencyKey, requestID, body string,
	) {
		secret := w.secretSeed()
		fill := func(s string) string { return strings.ReplaceAll(s, secretMark, secret) }
		u, err := url.ParseRequestURI(fill(target))
		if err != nil || u.Host != "" || !strings.HasPrefix(u.Path, "/") || method == "" ||
			strings.ContainsAny(method, " \r\n\t\x00") {
			return // the server's own parser refuses these
		}
		body = fill(body)
		r := &http.Request{
			Method:        method,
			URL:           u,
			RequestURI:    fill(target),
			Proto:         "HTTP/1.1",
			ProtoMajor:    1,
			ProtoMinor:    1,
			Host:          "api",
			RemoteAddr:    "192.0.2.1:1",
			Header:        http.Header{"Content-Type": {fill(contentType)}},
			Body:          io.NopCloser(strings.NewReader(body)),
			ContentLength: int64(len(body)),
		}
		if authorized {
			r.Header.Set("Authorization", "Bearer "+apiKey)
		}
		if idempotencyKey != "" {
			r.Header.Set("Idempotency-Key", fill(idempotencyKey))
		}
		if requestID != "" {
			r.Header.Set("X-Request-Id", fill(requestID))
		}
		w.log.Reset()
		out := httptest.NewRecorder()
		w.api.ServeHTTP(out, r)
		if out.Code < 200 || out.Code >= 500 {
			t.Fatalf("%s %s was answered %d: %s\n%s", method, target, out.Code, out.Body, w.log)
		}
		if kind := out.Header().Get("Content-Type"); strings.Contains(kind, "json") &&
			!json.Valid(out.Body.Bytes()) {
			t.Fatalf("%s %s was answered with no JSON: %s", method, target, out.Body)
		}
		for name, text := range map[string]string{
			"answer": out.Body.String(),
			"log":    w.log.String(),
			"header": strings.Join(out.Header().Values("X-Request-Id"), ""),
		} {
			if name == "answer" && out.Code < 300 {
				continue // an endpoint's URL is shown as it was accepted
			}
			if strings.Contains(text, secret) {
				t.Fatalf("%s %s: the %s holds the secret key: %s", method, target, name, text)
			}
		}
	})
}
