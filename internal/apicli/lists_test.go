package apicli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
)

func rows(text string) (lines [][]string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return lines
}

func TestEndpointsAreListedWithTheirHealth(t *testing.T) {
	counts := func(attempts, delivered int64) client.AttemptCounts {
		if attempts == 0 {
			return client.AttemptCounts{}
		}
		rate := float64(delivered) / float64(attempts)
		return client.AttemptCounts{Attempts: attempts, Delivered: delivered, SuccessRate: &rate}
	}
	since := time.Date(2026, 11, 21, 7, 15, 30, 0, time.UTC)
	var out strings.Builder
	apicli.Endpoints.ShowList(&out, client.List[client.Endpoint]{Data: []client.Endpoint{
		{ID: "ep_1", URL: "https://down.example/", Health: &client.EndpointHealth{
			State: "down", OldestPendingAt: &since, PendingKnown: true,
			Day: counts(8, 5), Week: counts(10_000, 9_999), Sparkline: []client.AttemptCounts{
				counts(0, 0), counts(4, 4), counts(2, 1), counts(2, 0),
			},
		}},
		{ID: "ep_2", URL: "https://idle.example/", Health: &client.EndpointHealth{State: "idle"}},
		{ID: "ep_3", URL: "https://dark.example/", HealthUnavailable: "HISTORY_BEHIND"},
	}}, client.EndpointFilter{})
	want := [][]string{
		{"ID", "HEALTH", "1H", "24H", "7D", "LAST 24H", "LAST SUCCESS", "OLDEST PENDING", "URL",
			"DESCRIPTION"},
		{"ep_1", "down", "-", "62.5%", "99.9%", "·█▄▁", "-", "2026-11-21T07:15:30Z",
			"https://down.example/", "-"},
		{"ep_2", "idle", "-", "-", "-", "-", "-", "unknown", "https://idle.example/", "-"},
		{"ep_3", "unknown (HISTORY_BEHIND)", "-", "-", "-", "-", "-", "unknown",
			"https://dark.example/", "-"},
	}
	same(t, rows(out.String()), want)
}

// The list must show the amount, memo, wallet and last failure of each event, with long values
// shortened.
func TestEventsAreListedWithWhatWasPaidAndWhy(t *testing.T) {
	status, fault, sequence := 503, "TIMEOUT", int64(7)
	next := time.Date(2026, 11, 21, 11, 45, 30, 0, time.UTC)
	made := time.Date(2026, 11, 21, 10, 15, 30, 123e6, time.UTC)
	paid := func(amount, memo string) json.RawMessage {
		return json.RawMessage(`{"payment":{"amount":"` + amount + `","memo":` + memo +
			`,"asset":{"code":"XLM","issuer":null}},"watch":{"walletAddress":"GABCDEFGHIJKLMNOPQRSTUVWXYZ"}}`)
	}
	var out strings.Builder
	apicli.Events.ShowList(&out, client.List[client.Event]{Data: []client.Event{
		{ID: "evt_1", Type: "payment.received", CreatedAt: made,
			Data: paid("12.5000000", `"order-42 of a long name"`),
			Delivery: client.Delivery{State: "WAITING", Attempts: 2, LastStatusCode: &status,
				NextAttemptAt: &next, Sequence: &sequence, EndpointID: "ep_0123456789abcdef"}},
		{ID: "evt_2", Type: "payment.received", CreatedAt: made, Data: paid("700.0000000", "null"),
			Delivery: client.Delivery{
				State: "QUEUED", Held: true, Attempts: 1, LastError: &fault, EndpointID: "ep_1",
			}},
		{ID: "evt_3", Type: "test.ping", CreatedAt: made, Data: json.RawMessage(`{"endpoint":{}}`),
			Delivery: client.Delivery{State: "DELIVERED", EndpointID: "ep_1"}},
	}}, client.EventFilter{})
	want := [][]string{
		{"ID", "STATE", "ATTEMPTS", "LAST", "AMOUNT", "MEMO", "WALLET", "CREATED", "NEXT ATTEMPT",
			"SEQUENCE", "TYPE", "ENDPOINT"},
		{"evt_1", "WAITING", "2", "HTTP 503", "12.5000000 XLM", "order-42 of a l…", "GABCDEFGHIJKLMN…",
			"2026-11-21T10:15:30Z", "2026-11-21T11:45:30Z", "7", "payment.received", "ep_0123456789abcdef"},
		{"evt_2", "QUEUED (held: the endpoint is disabled)", "1", "TIMEOUT", "700.0000000 XLM", "-",
			"GABCDEFGHIJKLMN…", "2026-11-21T10:15:30Z", "-", "-", "payment.received", "ep_1"},
		{"evt_3", "DELIVERED", "0", "-", "-", "-", "-", "2026-11-21T10:15:30Z", "-", "-",
			"test.ping", "ep_1"},
	}
	same(t, rows(out.String()), want)
}

func same(t *testing.T, got, want [][]string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		var g, w string
		if i < len(got) {
			g = strings.Join(got[i], " | ")
		}
		if i < len(want) {
			w = strings.Join(want[i], " | ")
		}
		if g != w {
			t.Errorf("line %d is\n%s, not\n%s", i, g, w)
		}
	}
}
