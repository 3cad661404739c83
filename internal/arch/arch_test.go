// Package arch checks parts of the project's structure that a linter cannot check: which packages
// may reach others indirectly, that the linter's rules name existing packages, and that documents
// and comments cite existing things. The rules for direct imports are in .golangci.yml, with
// reasons (depguard).
package arch

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const module = "github.com/lumenhook/lumenhook/"

// ban forbids a package to depend on some packages, directly or indirectly.
type ban struct {
	from string   // package below the module
	to   []string // import paths, or prefixes that end in a slash
	why  string
}

var bans = []ban{
	{
		from: "api",
		to: []string{
			"github.com/twmb/", "github.com/cockroachdb/", "github.com/ClickHouse/",
			module + "streams/", module + "projections/writer", module + "projections/history",
		},
		why: "the API declares the small interfaces it needs, and internal/node fits them",
	},
	{
		from: "internal/server",
		to: []string{
			module + "internal/embedded/", module + devnet, module + devnet + "/",
			module + "internal/standalone",
		},
		why: "serve is a node and addresses: nothing of a machine alone is in it",
	},
	{
		from: "internal/runfile",
		to: []string{
			module + "internal/node", module + "internal/cli", module + "internal/embedded/",
			module + devnet, module + devnet + "/", "github.com/spf13/",
		},
		why: "a data folder is read by who knows nothing of flags and roles",
	},
	{
		from: lab + "sim",
		to: []string{
			module + "internal/node", module + "internal/cli", module + "internal/embedded/",
			module + devnet, module + devnet + "/", module + stellar + "source/rpc",
			module + stellar + "source/lake",
		},
		why: "a simulated run has no real parts: only what decides without I/O",
	},
}

const (
	stellar = "internal/stellar/"
	devnet  = "internal/devnet"
	lab     = "internal/lab/"
)

// core lists the packages that process payments, whatever their source. It doesn't include the
// simulator, which also runs the decision between several ledger sources (package quorum).
var core = []string{
	"domain", "schemas", "schemas/kafka", "streams/kafka", "streams/store", "streams/task",
	"streams/engine", "streams/directory",
	"streams/commands", "streams/follower", "streams/intake", "streams/mailer",
	"streams/topology", "streams/transfer", "projections/writer", "projections/history",
	"projections/readmodel", "api",
	"internal/egress", "internal/node",
}

func TestTheCoreSeesNothingOfStellar(t *testing.T) {
	for _, from := range core {
		b := ban{
			from: from,
			to:   []string{module + stellar, module + devnet, module + devnet + "/"},
			why:  "the forms of ledgers are one wing's: the core knows payments of the domain",
		}
		for _, path := range importsOf(t, b) {
			if b.forbids(path) {
				t.Errorf("%s reaches %s: %s", b.from, path, b.why)
			}
		}
	}
}

func TestImportsKeepTheRules(t *testing.T) {
	for _, b := range bans {
		t.Run(b.from, func(t *testing.T) {
			imports := importsOf(t, b)
			if len(imports) == 0 {
				t.Fatal("the package imports nothing: is its name right?")
			}
			for _, path := range imports {
				if b.forbids(path) {
					t.Errorf("%s imports %s: %s", b.from, path, b.why)
				}
			}
		})
	}
}

// A merchant's program that imports the client must get no other module, as if the client were a
// separate module (docs/decisions/modules.md).
func TestTheClientNeedsTheStandardLibraryOnly(t *testing.T) {
	const client = "api/client"
	for _, path := range importsOf(t, ban{from: client}) {
		first, _, _ := strings.Cut(path, "/")
		if strings.Contains(first, ".") && path != module+client {
			t.Errorf("%s imports %s", client, path)
		}
	}
}

// TestTheProductIsInstalledAsItIs checks what go install requires: a module without replace
// directives, whose dependencies are published. The laboratory and other modules of this repository
// are not. It also checks that the toolchain's version is fixed, and that the OpenTelemetry SDK and
// exporter have the same version.
func TestTheProductIsInstalledAsItIs(t *testing.T) {
	out, err := exec.Command("go", "mod", "edit", "-json", "../../go.mod").Output()
	if err != nil {
		t.Fatalf("go mod edit: %v", err)
	}
	var mod struct {
		Require   []struct{ Path, Version string }
		Replace   []any
		Exclude   []any
		Toolchain string
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	if len(mod.Replace)+len(mod.Exclude) > 0 || len(mod.Require) == 0 {
		t.Errorf("go.mod has %d requirements, replaces %v and excludes %v", len(mod.Require),
			mod.Replace, mod.Exclude)
	}
	traces := map[string]bool{}
	for _, r := range mod.Require {
		if strings.HasPrefix(r.Path+"/", "go.opentelemetry.io/otel/") {
			traces[r.Version] = true
		}
		if strings.HasPrefix(r.Path+"/", module) {
			t.Errorf("go.mod requires %s, a module of this repository", r.Path)
		}
	}
	if mod.Toolchain == "" || len(traces) != 1 {
		t.Errorf("go.mod has the toolchain %q, and OpenTelemetry of the versions %v", mod.Toolchain,
			traces)
	}
}

func TestABanForbids(t *testing.T) {
	b := ban{to: []string{"net", "net/"}}
	for path, want := range map[string]bool{
		"net":      true,
		"net/http": true,
		"netip":    false,
		"strings":  false,
	} {
		if b.forbids(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

func (b ban) forbids(path string) bool {
	for _, to := range b.to {
		if path == to || strings.HasSuffix(to, "/") && strings.HasPrefix(path, to) {
			return true
		}
	}
	return false
}

// importsOf returns all direct and indirect dependencies of a package.
func importsOf(t *testing.T, b ban) []string {
	t.Helper()
	list := exec.Command("go", "list", "-json=Deps", module+b.from)
	if strings.HasPrefix(b.from, lab) {
		list.Dir = "../lab" // a separate module
	}
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var listed struct{ Deps []string }
	if err := json.Unmarshal(out, &listed); err != nil {
		t.Fatal(err)
	}
	return listed.Deps
}

// If a package is moved, a rule with its old name has no effect, and the linter doesn't report
// that.
func TestTheLintersBansNameWhatExists(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]struct {
						Files []string
						Allow []string
						Deny  []struct{ Pkg, Desc string }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	rules := config.Linters.Settings.Depguard.Rules
	if len(rules) == 0 {
		t.Fatal("no bans")
	}
	for name, rule := range rules {
		for _, file := range rule.Files {
			below, ours := strings.CutPrefix(file, "${base-path}/")
			if found, _ := filepath.Glob(filepath.Join(root, below)); ours && len(found) == 0 {
				t.Errorf("%s is of %s, which is nowhere", name, below)
			}
		}
		packages := rule.Allow
		for _, denied := range rule.Deny {
			packages = append(packages, denied.Pkg)
			if denied.Desc == "" {
				t.Errorf("%s bans %s without a reason", name, denied.Pkg)
			}
		}
		for _, path := range packages {
			below, ours := strings.CutPrefix(strings.TrimSuffix(path, "$"), module)
			if _, err := os.Stat(filepath.Join(root, below)); ours && err != nil {
				t.Errorf("%s is about %s: %v", name, path, err)
			}
		}
	}
}
