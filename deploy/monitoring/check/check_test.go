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

// documented are the names of docs/metrics.md, by type.
func documented(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]string)
	row := regexp.MustCompile("(?m)^\\| `(lumenhook_\\w+)` \\| (\\w+) \\|")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		names[m[1]] = m[2]
	}
	if len(names) < 20 {
		t.Fatalf("the page has %d metrics", len(names))
	}
	return names
}

// series is the name of a selector without what a histogram adds.
func series(name string, documented map[string]string) (base, kind string) {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if cut, found := strings.CutSuffix(name, suffix); found && documented[cut] == "histogram" {
			return cut, "histogram"
		}
	}
	return name, documented[name]
}

// checkExpression: it parses, its metrics are documented, and growth is asked of
// what only grows.
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

// TestAlertRules checks each rule, and that docs/operate/troubleshoot.md says what to do.
func TestAlertRules(t *testing.T) {
	runbook, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operate", "troubleshoot.md"))
	if err != nil {
		t.Fatal(err)
	}
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
			if !strings.Contains(string(runbook), "`"+rule.Alert+"`") {
				t.Errorf("docs/operate/troubleshoot.md does not mention %s", rule.Alert)
			}
			if rule.Annotations["summary"] == "" {
				t.Errorf("%s has no summary", rule.Alert)
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
