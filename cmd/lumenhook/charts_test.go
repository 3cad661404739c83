package main

import (
	"crypto/tls"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/pages"
)

var writeCharts = flag.Bool("write-charts", false, "draw the pictures of docs/analytics.md anew")

// charts are the pictures of docs/analytics.md. Each is drawn from a run's answer to the question
// above it.
var charts = []struct {
	file, question, title string
	label, value, text    string // columns of the answer
}{
	{"retry-ladder.svg", "8.", "Deliveries by the attempt at which they succeed",
		"attempt", "delivered", "success_rate"},
	{"failures.svg", "7.", "Failed attempts by what they failed of",
		"outcome", "all_attempts", ""},
	{"payments-per-watch.svg", "13.", "Payments to each watch", "label", "payments", ""},
	{"endpoint-health.svg", "5.", "The slower twentieth of attempts takes longer than, in ms",
		"url", "worst_hourly_p95_ms", "success_rate"},
}

// TestTheChartsAreOfARun pays three shops, one of which is slow and one of which fails more than
// half of the time. It then runs the queries of the page and draws the answers. With -write-charts,
// it redraws the page's pictures from a run with more payments.
func TestTheChartsAreOfARun(t *testing.T) {
	t.Parallel()
	payers, times, dir := 2, 2, t.TempDir()
	if *writeCharts {
		payers, times, dir = 10, 12, "../../docs/charts"
	}
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "300ms",
		"--retry-schedule", "300ms,600ms,1200ms,2400ms")
	defer s.interrupt()
	for i, shop := range []paidShop{
		{name: "Slow", wait: 700},
		{name: "Flaky", wait: 60, fails: []int{503, 500, 0, 503, 200, 503, 200, 200}},
		{name: "Shop", wait: 30},
	} {
		s.payTimes(s.openPaidShop(shop), payers, times*(i+2)/2)
	}
	s.eventually("no delivery is under way", func() bool {
		return strings.TrimSpace(s.must("sql", "--format", "csv", "SELECT count() > 0 AND "+
			"countIf(state IN ('QUEUED', 'WAITING')) = 0 AS a FROM current_deliveries")) == "a\n1"
	})
	page, err := pages.Read("../..", "docs/analytics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range charts {
		var answer []map[string]any
		lines := json.NewDecoder(strings.NewReader(
			s.must("sql", "--format", "json", questionOf(t, page, c.question))))
		for {
			var row map[string]any
			if err := lines.Decode(&row); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			answer = append(answer, row)
		}
		if len(answer) == 0 {
			t.Fatalf("question %s has no answer", c.question)
		}
		drawn := bars(c.title, answer, c.label, c.value, c.text)
		if err := os.WriteFile(filepath.Join(dir, c.file), []byte(drawn), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal([]byte(drawn), new(struct{})); err != nil ||
			strings.Count(drawn, `class="bar"`) != len(answer) {
			t.Errorf("%v:\n%s", err, drawn)
		}
		if !strings.Contains(string(page.Source), "](charts/"+c.file+")") {
			t.Errorf("docs/analytics.md does not show %s", c.file)
		}
	}
}

func questionOf(t *testing.T, page pages.Page, begins string) string {
	t.Helper()
	for _, b := range page.Blocks {
		if b.Language == "sql" && strings.HasPrefix(b.Section, begins+" ") {
			return b.Code
		}
	}
	t.Fatalf("the page has no question %s", begins)
	return ""
}

type paidShop struct {
	name  string
	wait  int   // random delay of an answer in ms, from a tenth of it to 1.1 times
	fails []int // status codes, in turn; 0 aborts the connection
}

// openPaidShop starts a shop's receiver and returns the wallet of a watch that reports to it.
func (s *testService) openPaidShop(shop paidShop) (wallet string) {
	s.t.Helper()
	ca, err := keys.LoadOrCreateCA(filepath.Join(s.dir, "secrets"), filepath.Join(s.dir, "ca.pem"),
		time.Now)
	if err != nil {
		s.t.Fatal(err)
	}
	cert, err := ca.Issue()
	if err != nil {
		s.t.Fatal(err)
	}
	var mu sync.Mutex
	posts, random := 0, rand.New(rand.NewPCG(1, uint64(shop.wait)))
	server := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			status, wait := http.StatusOK, shop.wait/10+random.IntN(shop.wait)
			if len(shop.fails) > 0 {
				status = shop.fails[posts%len(shop.fails)]
			}
			posts++
			mu.Unlock()
			<-time.After(time.Duration(wait) * time.Millisecond)
			if status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(status)
		}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	s.t.Cleanup(server.Close)
	var made struct{ ID string }
	if status := s.call("POST", "/v1/endpoints", map[string]any{
		"url": server.URL + "/" + strings.ToLower(shop.name), "description": shop.name,
	}, &made); status != http.StatusCreated {
		s.t.Fatalf("the endpoint was answered %d", status)
	}
	var account struct{ Address string }
	s.devnet(&account, "account", "--json")
	if status := s.call("POST", "/v1/watches", map[string]any{
		"walletAddress": account.Address, "endpointId": made.ID, "label": shop.name,
		"assets": []map[string]any{{"code": "XLM", "issuer": nil}},
	}, nil); status != http.StatusCreated {
		s.t.Fatalf("the watch was answered %d", status)
	}
	return account.Address
}

// bars draws an answer as an SVG bar chart that adapts to light and dark mode.
func bars(title string, answer []map[string]any, label, value, text string) string {
	const width, top, row, left, most = 720, 52, 34, 190, 300
	largest := 1.0
	for _, r := range answer {
		largest = max(largest, r[value].(float64))
	}
	var b strings.Builder
	height := top + row*len(answer) + 12
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">
<style>
text{font:14px system-ui,sans-serif;fill:#1a202c}.title{font-weight:600;font-size:16px}
.soft{fill:#56606f}.bar{fill:#4338ca}.ground{fill:#fff}
@media(prefers-color-scheme:dark){
text{fill:#e7ebf1}.soft{fill:#a3adbc}.bar{fill:#a5a1ff}.ground{fill:#171d26}
}
</style>
<rect class="ground" width="%[1]d" height="%[2]d"/>
<text class="title" x="20" y="32">%[3]s</text>
`, width, height, html.EscapeString(title))
	for i, r := range answer {
		y, v := top+row*i, r[value].(float64)
		says := fmt.Sprintf("%.0f", v)
		if rate, isRate := r[text].(float64); isRate && text == "success_rate" {
			says += fmt.Sprintf("  (%.0f%% succeed)", 100*rate)
		}
		name := fmt.Sprint(r[label])
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>
<rect class="bar" x="%d" y="%d" width="%.0f" height="20" rx="3"/><text class="soft" x="%.0f" y="%d">%s</text>
`, left-12, y+20, html.EscapeString(name[strings.LastIndex(name, "/")+1:]), left, y+5,
			max(2, v/largest*most), left+max(2, v/largest*most)+10, y+20, html.EscapeString(says))
	}
	b.WriteString("</svg>\n")
	return b.String()
}
