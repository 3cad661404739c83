package projections_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
)

// paid returns the event of a payment, with the envelope that receivers get.
func (s *story) paid(n int, stroops int64, createdMillis int64) domain.Fact {
	m := domain.Match{
		EventID: s.eventID(n),
		Type:    domain.PaymentReceived,
		Watch: domain.Watch{
			ID:            domain.DeriveID(domain.WatchPrefix, "1"),
			Label:         `till "ledgerClosedAt":"x"`,
			WalletAddress: "GWALLET",
		},
		Payment: domain.Payment{
			ID:             s.eventID(n)[4:12],
			TxHash:         strings.Repeat("ab", 32),
			Ledger:         7,
			ClosedAtMillis: startMillis,
			From:           "GSENDER",
			To:             "GWALLET",
			Asset:          domain.Asset{Code: "USDC", Issuer: "GISSUER"},
			AmountStroops:  stroops,
		},
		Verification: domain.Verification{Outcome: domain.OutcomeVerified},
	}
	return s.fact(domain.DeliveryCreated{
		AccountID:     testAccount,
		EndpointID:    s.endpointID,
		WatchID:       m.Watch.ID,
		WalletAddress: "GWALLET",
		Event:         domain.NewPaymentEvent(m, createdMillis),
	})
}

func failed(atMillis int64, status int) domain.AttemptResult {
	return domain.AttemptResult{
		SentAtMillis:   atMillis,
		DurationMillis: 40,
		StatusCode:     status,
		ResponseBody:   []byte("no"),
	}
}

// analytics fills the tables with a known story and writes each fact twice.
func analytics(t *testing.T) *rig {
	r := newRigAlone(t)
	r.world(3)
	good, bad := newStory(1), newStory(2)
	at := int64(startMillis + 2000)
	for n := range 10 {
		r.append(good.paid(n, 10_000_001, at),
			good.attempted(n, 1, domain.StateDelivered,
				domain.AttemptResult{
					SentAtMillis:   at + 100,
					DurationMillis: int64(10 * (n + 1)),
					StatusCode:     200,
				}))
	}
	r.append(bad.fact(domain.EndpointCreated{EndpointID: bad.endpointID, AccountID: testAccount}),
		bad.paid(0, 5, at), bad.attempted(0, 1, domain.StateWaiting, failed(at, 500)),
		bad.attempted(0, 2, domain.StateDelivered,
			domain.AttemptResult{SentAtMillis: at + 60_000, DurationMillis: 500, StatusCode: 204}))
	for n := 1; n <= 3; n++ { // three runs that fail permanently, with two attempts each
		r.append(bad.paid(n, 5, at), bad.attempted(n, 1, domain.StateWaiting, failed(at+int64(n), 503)),
			bad.attempted(n, 2, domain.StateFailed,
				domain.AttemptResult{
					SentAtMillis:   at + 60_000 + int64(n),
					DurationMillis: 10_000,
					Error:          domain.AttemptTimeout,
				}))
	}
	r.append(good.fact(domain.EndpointDisabled{Reason: domain.DisabledManual}))
	r.appendRecord(schemas.TopicEndpoints, good.endpointID,
		schemas.EncodeEndpoint(domain.Endpoint{
			ID:               good.endpointID,
			AccountID:        testAccount,
			EndpointSettings: domain.EndpointSettings{URL: "https://example.com/1"},
			Status:           domain.StatusDisabled,
			DisabledReason:   domain.DisabledManual,
			DisabledAtMillis: at,
			CreatedAtMillis:  startMillis,
		}))
	must(t, writer.Migrate(t.Context(), r.db))
	for _, table := range writer.Tables() {
		r.exec("SYSTEM STOP MERGES " + table)
	}
	r.project(nil).finish2(r)
	r.exec("TRUNCATE TABLE projection_progress") // a crash before progress was recorded
	r.project(nil).finish2(r)
	if copies := r.count("SELECT count() FROM attempts"); copies != 2*18 {
		t.Fatalf("there are %d rows in attempts, not each twice", copies)
	}
	return r
}

func (run *running) finish2(r *rig) {
	r.t.Helper()
	r.awaitProjected()
	run.finish(r.t)
}

func TestViewsCountEachFactOnce(t *testing.T) {
	t.Parallel()
	r := analytics(t)
	good, bad := newStory(1).endpointID, newStory(2).endpointID
	for query, want := range map[string]int{
		"SELECT sum(attempts) FROM attempts_per_minute":                                                                      18,
		"SELECT sum(attempts) FROM attempts_per_minute WHERE outcome = 'delivered'":                                          11,
		"SELECT sum(attempts) FROM error_mix WHERE outcome = 'HTTP 503' AND endpoint_id = '" + bad + "'":                     3,
		"SELECT sum(attempts) FROM error_mix WHERE outcome = 'TIMEOUT'":                                                      3,
		"SELECT sum(attempts) FROM error_mix WHERE endpoint_id = '" + good + "'":                                             0,
		"SELECT toUInt64(success_rate * 100) FROM endpoint_health WHERE endpoint_id = '" + good + "'":                        100,
		"SELECT toUInt64(p50_ms) FROM endpoint_health WHERE endpoint_id = '" + good + "'":                                    55,
		"SELECT attempts FROM endpoint_health WHERE endpoint_id = '" + bad + "'":                                             8,
		"SELECT toUInt64(delivered) FROM retry_ladder WHERE attempt = 1":                                                     10,
		"SELECT toUInt64(delivered) FROM retry_ladder WHERE attempt = 2":                                                     1,
		"SELECT toUInt64(failed_for_good) FROM retry_ladder WHERE attempt = 2":                                               3,
		"SELECT count() FROM first_delivery_times":                                                                           11,
		"SELECT toUInt64(max(close_to_delivery_ms)) FROM first_delivery_times":                                               62_500,
		"SELECT toUInt64(min(close_to_delivery_ms)) FROM first_delivery_times":                                               2110,
		"SELECT toUInt64(min(created_to_first_attempt_ms)) FROM first_delivery_times WHERE endpoint_id = '" + good + "'":     100,
		"SELECT count() FROM delivery_lateness":                                                                              14,
		"SELECT count() FROM delivery_lateness WHERE delivered_at IS NULL AND state = 'FAILED'":                              3,
		"SELECT toUInt64(max(late_ms)) FROM delivery_lateness WHERE delivered_at IS NOT NULL":                                62_500,
		"SELECT count() FROM delivery_lateness WHERE delivered_at IS NULL AND late_ms < 70000":                               0,
		"SELECT consecutive_failures FROM endpoints_near_disabling WHERE endpoint_id = '" + bad + "'":                        3,
		"SELECT count() FROM endpoints_near_disabling":                                                                       1,
		"SELECT payments FROM payments_per_watch WHERE label = 'till 1' AND asset_code = 'USDC'":                             14,
		"SELECT toUInt64(amount * 10000000) FROM payments_per_watch":                                                         100_000_030,
		"SELECT count() FROM current_deliveries WHERE state = 'FAILED' AND run = 1 AND attempts = 2":                         3,
		"SELECT count() FROM events FINAL WHERE ledger_closed_at = toDateTime(1790000000) AND asset_issuer = 'GISSUER'":      14,
		"SELECT count() FROM events FINAL WHERE payment_id = substring(event_id, 5, 8)":                                      14,
		"SELECT count() FROM endpoint_changes FINAL WHERE change = 'disabled' AND reason = 'manual'":                         1,
		"SELECT count() FROM payments FINAL WHERE payment_id NOT IN (SELECT payment_id FROM events)":                         3,
		"SELECT count() FROM watches FINAL WHERE has(assets, 'USDC:GISSUER') AND has(assets, 'XLM') AND amount_kind = 'any'": 3,
	} {
		if got := r.count(query); got != want {
			t.Errorf("%s gives %d, not %d", query, got, want)
		}
	}
	// A successful test.ping does not reset the count, but a successful event does.
	story := newStory(2)
	story.version = 1000
	ping := story.attempted(50, 1, domain.StateDelivered,
		domain.AttemptResult{SentAtMillis: startMillis + 900_000, StatusCode: 200})
	body := ping.Body.(domain.AttemptMade)
	body.EventType = domain.TestPing
	ping.Body = body
	r.append(ping)
	r.project(nil)
	r.awaitProjected()
	if got := r.count("SELECT consecutive_failures FROM endpoints_near_disabling"); got != 3 {
		t.Errorf("after a test.ping the failures are %d, not 3", got)
	}
	r.append(story.fact(domain.EndpointEnabled{}))
	r.awaitProjected()
	if got := r.count("SELECT count() FROM endpoints_near_disabling"); got != 0 {
		t.Errorf("after enabling %d endpoints are near disabling", got)
	}
}

// TestEveryQuestionHasAnAnswer runs the queries of docs/analytics.md.
func TestEveryQuestionHasAnAnswer(t *testing.T) {
	t.Parallel()
	r := analytics(t)
	doc, err := os.ReadFile("../docs/analytics.md")
	must(t, err)
	questions := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(questions) != 21 {
		t.Errorf("there are %d questions, not 21", len(questions))
	}
	console, err := history.OpenConsole(t.Context(),
		history.ConsoleConfig{DSN: r.engine.ReaderDSN(), RowsMax: 1000, TimeMax: 20 * time.Second})
	must(t, err)
	defer console.Close()
	for i, q := range questions {
		answer, err := console.Query(t.Context(), q[1])
		if err != nil {
			t.Errorf("question %d: %v", i+1, err)
		}
		// The story is about a past day, and all of its deliveries are settled.
		if past := map[int]bool{3: true, 6: true, 14: true}; len(answer.Rows) == 0 && !past[i+1] {
			t.Errorf("question %d has no answer:\n%s", i+1, q[1])
		}
	}
}

type dashboard struct {
	Templating struct{ List []struct{ Query string } }
	Panels     []struct {
		Title      string
		Datasource struct{ UID string }
		Targets    []struct {
			RawSQL string
			Expr   string
		}
	}
}

// macros expands Grafana's macros as its ClickHouse plugin does.
var macros = []struct {
	macro *regexp.Regexp
	text  string
}{
	{
		regexp.MustCompile(`\$__timeFilter\((\w+)\)`),
		"$1 >= toDateTime(1789990000) AND $1 <= toDateTime(1790100000)",
	},
	{
		regexp.MustCompile(`\$__timeInterval\((\w+)\)`),
		"toStartOfInterval(toDateTime($1), INTERVAL 60 second)",
	},
	{regexp.MustCompile(`\$\{endpoint\}`), newStory(2).endpointID},
}

var metricName = regexp.MustCompile(`lumenhook_\w+`)

func TestEveryQueryOfTheDashboardsRuns(t *testing.T) {
	t.Parallel()
	r := analytics(t)
	console, err := history.OpenConsole(t.Context(),
		history.ConsoleConfig{DSN: r.engine.ReaderDSN(), RowsMax: 1000, TimeMax: 20 * time.Second})
	must(t, err)
	defer console.Close()
	run := func(name, query string) {
		for _, m := range macros {
			query = m.macro.ReplaceAllString(query, m.text)
		}
		answer, err := console.Query(t.Context(), query)
		if err == nil && len(answer.Rows) == 0 && !strings.Contains(name, "Waiting") {
			err = errors.New("it has no answer")
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, query)
		}
	}
	registered := registeredMetrics(t)
	files, err := filepath.Glob("../deploy/grafana/dashboards/*.json")
	must(t, err)
	queries := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		var d dashboard
		must(t, json.Unmarshal(data, &d))
		for _, v := range d.Templating.List {
			run(filepath.Base(file)+", a variable", v.Query)
		}
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				queries++
				if target.RawSQL != "" {
					run(filepath.Base(file)+", "+panel.Title, target.RawSQL)
				}
				if (target.RawSQL == "") == (target.Expr == "") {
					t.Errorf("%s, %s: a target has either SQL or an expression", file, panel.Title)
				}
				for _, name := range metricName.FindAllString(target.Expr, -1) {
					if !registered[strings.TrimSuffix(name, "_bucket")] {
						t.Errorf("%s, %s: nobody counts %s", file, panel.Title, name)
					}
				}
			}
		}
	}
	if len(files) != 3 || queries < 20 {
		t.Errorf("there are %d files with %d queries", len(files), queries)
	}
}

func registeredMetrics(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../internal/node/*.go")
	must(t, err)
	names := make(map[string]bool)
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		for _, name := range regexp.MustCompile(`"(lumenhook_\w+)"`).FindAllStringSubmatch(string(data),
			-1) {
			names[name[1]] = true
		}
	}
	return names
}
