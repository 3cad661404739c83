package api_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
)

// FuzzAPI sends arbitrary requests to every route. No response may be a 5xx, because nothing behind
// the API fails here. openapi.yaml must describe every response, and describe every accepted
// request as valid.
//
//	go test ./api -run '^$' -fuzz FuzzAPI -fuzztime 10m -parallel 1
func FuzzAPI(f *testing.F) {
	sample := assemble(f)
	routes := sample.api.Routes()
	slices.Sort(routes)
	e := domain.DeriveID(domain.EndpointPrefix, "fuzz")
	bodies := []string{
		"", "{}",
		`{"url":"https://a.example/","headers":{"X-A":"1"},"rateLimitPerSecond":5,"description":"x"}`,
		`{"url":null,"headers":{"X-A":null}}`,
		watchBody(e,
			`,"amountRule":{"kind":"range","min":"1","max":"2.5"},"memoRule":{"kind":"equals","type":"id","value":"7"},"senderAllowlist":["`+payer+`"],"eventTypes":["payment.rejected"]`),
		`{"amountRule":{"amount":"3"},"memoRule":{"kind":"present"},"label":null,"endpointId":"` + e + `"}`,
		`{"since":"2026-11-21T10:15:30Z","until":"2026-11-22T00:00:00.5Z"}`,
		`{"graceSeconds":60,"expiresAt":"2027-01-01T00:00:00Z"}`,
		`{"permissions":["read","write"],"allowedCidrs":["10.0.0.0/8","::1"],"expiresAt":"2027-01-01T00:00:00Z","name":"x"}`,
	}
	for i := range routes {
		for j, body := range bodies {
			f.Add(uint16(i), uint8(j), "limit=5&status=active", body, "", "")
			f.Add(uint16(i), uint8(j), "", body, `"1"`, "key")
		}
	}
	f.Add(uint16(0), uint8(0), "type=test.ping&since=2026-11-21T10:15:30Z&walletAddress="+wallet, "",
		`"1"`, "key")
	f.Fuzz(func(t *testing.T, route uint16, id uint8, query, body, ifMatch, idempotencyKey string) {
		w := assemble(t, func(c *api.Config) { c.SigningKeys = newSigningKeys(t) })
		k := w.newKey(account("a"), domain.Permissions()...)
		w.furnish(e, k)
		method, path, _ := strings.Cut(routes[int(route)%len(routes)], " ")
		path = strings.Replace(path, "{id}", url.PathEscape(w.someID(path, id, query, e, k)), 1)
		request, err := http.NewRequest(method, "http://x"+path, strings.NewReader(body))
		if err != nil {
			return
		}
		if lists := method == http.MethodGet &&
			!strings.Contains(routes[int(route)%len(routes)], "{id}"); lists || id&8 != 0 {
			request.URL.RawQuery = query // a route without a query refuses one before it reads anything else
		}
		if _, err := http.NewRequest(method, request.URL.RequestURI(), nil); err != nil {
			return // no client could send it
		}
		request.Header.Set("Authorization", "Bearer "+k)
		request.Header.Set("Content-Type", "application/json")
		conditions := map[string]string{"If-Match": ifMatch, "Idempotency-Key": idempotencyKey}
		for name, value := range conditions {
			if value != "" && validHeader(value) {
				request.Header.Set(name, value)
			}
		}
		out := httptest.NewRecorder()
		request.RemoteAddr = "127.0.0.1:5"
		w.api.ServeHTTP(out, request)
		response := out.Result()
		if response.StatusCode >= 500 {
			t.Fatalf("%s %s: %d %s\n%s", method, request.URL, response.StatusCode, out.Body, w.log)
		}
		checkAgainstOpenAPI(t, request, body, response, out.Body.Bytes())
	})
}

func (w *world) furnish(endpointID, apiKey string) {
	accountID := account("a")
	w.decide(domain.Command{
		ID:        "1",
		AccountID: accountID,
		Body: domain.CreateEndpoint{
			EndpointID:       endpointID,
			AccountID:        accountID,
			EndpointSettings: domain.EndpointSettings{URL: "https://a.example/"},
			SealedSecret:     w.sealed(endpointID),
		},
	})
	w.decide(domain.Command{
		ID:        "2",
		AccountID: accountID,
		Body: domain.CreateWatch{Watch: domain.Watch{
			ID:            domain.DeriveID(domain.WatchPrefix, "1"),
			AccountID:     accountID,
			WalletAddress: wallet,
			EndpointID:    endpointID,
			EventTypes:    []domain.EventType{domain.PaymentReceived},
			Rules: domain.Rules{
				Assets: []domain.Asset{domain.NativeAsset()},
				Amount: domain.AmountRule{Kind: domain.AmountMin, AmountStroops: 1},
				Memo:   domain.MemoRule{Kind: domain.MemoAny},
			},
		}},
	})
	w.delivered(accountID, endpointID, domain.StateFailed,
		domain.AttemptResult{SentAtMillis: 1, StatusCode: 500})
	if err := w.Confirm(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) sealed(endpointID string) []byte {
	sealed, err := w.api.Sealer.Seal([]byte(domain.NewSecret([32]byte{1})), endpointID)
	if err != nil {
		w.t.Fatal(err)
	}
	return sealed
}

// someID returns the id of an existing object, most of the time.
func (w *world) someID(path string, id uint8, text, endpointID, apiKey string) string {
	if id%8 == 7 {
		return text
	}
	parts := strings.Split(path+"//", "/")
	switch parts[2] {
	case "endpoints":
		return endpointID
	case "watches":
		return domain.DeriveID(domain.WatchPrefix, "1")
	case "api-keys":
		return domain.DeriveID(domain.KeyPrefix, apiKey)
	}
	for event := range w.history {
		return event
	}
	return text
}

func validHeader(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}
