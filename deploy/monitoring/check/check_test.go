package check

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// documented returns the type of each metric in docs/metrics.md.
func documented(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{"up": "gauge"} // of Prometheus itself
	row := regexp.MustCompile("(?m)^\\| `(lumenhook_\\w+)` \\| (\\w+) \\|")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		names[m[1]] = m[2]
	}
	if len(names) < 20 {
		t.Fatalf("the page has %d metrics", len(names))
	}
	return names
}

// series returns a metric's name without a histogram's suffix.
func series(name string, documented map[string]string) (base, kind string) {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if cut, found := strings.CutSuffix(name, suffix); found && documented[cut] == "histogram" {
			return cut, "histogram"
		}
	}
	return name, documented[name]
}

// checkExpression checks that an expression parses, uses documented metrics, and applies rate or
// increase only to counters.
func checkExpression(t *testing.T, where, text string, names map[string]string) {
	t.Helper()
	text = strings.ReplaceAll(text, "$__rate_interval", "5m")
	expr, err := parser.ParseExpr(text)
	if err != nil {
		t.Errorf("%s: %v in %s", where, err, text)
		return
	}
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		selector, is := node.(*parser.VectorSelector)
		if !is {
			return nil
		}
		base, kind := series(selector.Name, names)
		if kind == "" {
			t.Errorf("%s: docs/metrics.md has no %s", where, base)
		}
		grows := slices.ContainsFunc(path, func(n parser.Node) bool {
			call, is := n.(*parser.Call)
			return is && (call.Func.Name == "rate" || call.Func.Name == "increase")
		})
		if grows != (kind == "counter" || kind == "histogram") {
			t.Errorf("%s: %s is a %s, and the expression asks for its growth: %v", where, base, kind, grows)
		}
		return nil
	})
}

// sections returns the sections of docs/operate/troubleshoot.md by URL.
func sections(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operate", "troubleshoot.md"))
	if err != nil {
		t.Fatal(err)
	}
	const address = "https://github.com/lumenhook/lumenhook/blob/main/docs/operate/troubleshoot.md#"
	by := make(map[string]string)
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		by[address+strings.ReplaceAll(strings.ToLower(title), " ", "-")] = text
	}
	return by
}

// TestAlertRules checks each rule, and that the section that it links to says what to do.
func TestAlertRules(t *testing.T) {
	runbook := sections(t)
	text, err := os.ReadFile(filepath.Join("..", "lumenhook.rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	names, rules := documented(t), 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			rules++
			checkExpression(t, rule.Alert, rule.Expr, names)
			if severity := rule.Labels["severity"]; severity != "page" && severity != "ticket" {
				t.Errorf("%s has the severity %q", rule.Alert, severity)
			}
			if page := rule.Annotations["runbook_url"]; !strings.Contains(runbook[page], "`"+rule.Alert+"`") {
				t.Errorf("%q does not mention %s", page, rule.Alert)
			}
			if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("%s has no summary, or does not say what to do", rule.Alert)
			}
		}
	}
	if rules == 0 {
		t.Error("there are no rules")
	}
}

func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "lumenhook.dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	if len(board.Panels) == 0 {
		t.Error("there are no panels")
	}
	names := documented(t)
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			checkExpression(t, panel.Title, target.Expr, names)
		}
	}
}
