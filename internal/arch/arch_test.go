// Package arch holds the rules of who may import whom.
package arch

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/lumenhook/lumenhook/"

// ban forbids a package, and those below it, to reach some packages.
type ban struct {
	from   string   // package below the module
	to     []string // import paths, or prefixes that end in a slash
	but    string   // the one package that may be reached all the same
	direct bool     // only direct imports count
	why    string
}

var bans = []ban{
	{
		from: "domain",
		to: []string{
			"net", "net/", "os", "os/", "sync", "math/rand", "crypto/rand", "math/rand/v2",
			"github.com/", "golang.org/", "google.golang.org/",
		},
		direct: true,
		why:    "the core has no I/O, no clock, no chance and no goroutines, so that a simulation repeats",
	},
	{
		from: "schemas",
		to: []string{
			module + "streams", module + "streams/", module + "api", module + "projections",
			module + "internal/",
		},
		direct: true,
		why:    "what is written down for ever depends on the core alone",
	},
	{
		from:   "streams",
		to:     []string{module + "domain", module + "schemas", module + "schemas/"},
		direct: true,
		why:    "the runtime knows nothing of webhooks",
	},
	{
		from: "api",
		to: []string{
			"github.com/twmb/", "github.com/cockroachdb/", "github.com/ClickHouse/",
			module + "streams", module + "streams/", module + "projections",
		},
		why: "the API declares the small interfaces it needs, and internal/node fits them",
	},
	{
		from:   "api/decode",
		to:     []string{module + "domain", module + "schemas", module + "api"},
		direct: true,
		why:    "what fields there are is each resource's to say: api calls it, and never the reverse",
	},
	{
		from:   "streams/engine",
		to:     siblings("streams/engine"),
		direct: true,
		why:    "siblings do not know each other; internal/node assembles them",
	},
	{
		from:   "streams/follower",
		to:     siblings("streams/follower"),
		direct: true,
		why:    "siblings do not know each other; internal/node assembles them",
	},
	{
		from:   "streams/directory",
		to:     siblings("streams/directory"),
		direct: true,
		why:    "siblings do not know each other; internal/node assembles them",
	},
	{
		from:   "streams/commands",
		to:     siblings("streams/commands"),
		direct: true,
		why:    "siblings do not know each other; internal/node assembles them",
	},
	{
		from:   "internal/egress",
		to:     siblings("internal/egress"),
		direct: true,
		why:    "siblings do not know each other; internal/node assembles them",
	},
	{
		from:   "streams/mailer",
		to:     siblings("streams/mailer"),
		direct: true,
		why:    "siblings do not know each other; internal/node assembles them",
	},
	{
		from: "internal/node",
		to: []string{
			module + "internal/embedded/", module + devnet, module + devnet + "/",
			module + "internal/cli", "github.com/spf13/",
		},
		direct: true,
		why:    "a node is of roles; what is embedded, and how it is configured, is the command's",
	},
	{
		from: "cmd/lumenhook",
		to: []string{
			module + "streams/engine", module + "streams/directory",
			module + "internal/embedded/broker",
		},
		direct: true,
		why:    "commands assemble no role by hand: internal/node does; nor what is embedded: internal/standalone does",
	},
	{
		from: "internal/standalone",
		to: []string{
			module + "streams/engine", module + "streams/directory",
			module + "streams/commands",
			"github.com/spf13/cobra",
		},
		direct: true,
		why:    "run is a node and embedded parts: roles are internal/node's to assemble",
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
	{from: "internal/terminal", to: []string{module},
		why: "how a line is shown does not depend on what it says"},
	{from: "internal/retry", to: []string{module},
		why: "how to try again does not depend on what is tried"},
	{from: "internal/sealing", to: []string{module},
		why: "secrets are kept by what knows nothing of whose they are"},
	{
		from: "internal/trial",
		to:   []string{module},
		but:  module + "internal/orphans",
		why:  "what the trial expects must not come from what it tries",
	},
	{
		from:   "projections",
		to:     siblings("projections"),
		direct: true,
		why:    "siblings do not know each other; internal/node assembles them",
	},
}

// Packages below cmd that take what a command says apart: their flags are registered on
// a pflag.FlagSet, so that who uses them needs no cobra.
var flagPackages = []string{
	"internal/apicli", "internal/clickhouseflags", "internal/connect", "internal/devnetcli",
	"internal/kafkaflags", "internal/keyflags", "internal/ledgerflags", "internal/ledgerread",
	"internal/nodeflags", "internal/rewrap", "internal/secretflags", "internal/server",
	"internal/sqlshell", "internal/standalone", "internal/topicview",
}

func TestFlagsAreNoCommands(t *testing.T) {
	for _, from := range flagPackages {
		b := ban{
			from:   from,
			to:     []string{"github.com/spf13/cobra", module + "cmd/"},
			direct: true,
			why:    "commands are cmd's: one file each",
		}
		for _, path := range importsOf(t, b) {
			if b.forbids(path) {
				t.Errorf("%s imports %s: %s", b.from, path, b.why)
			}
		}
	}
}

const (
	stellar = "internal/stellar/"
	devnet  = stellar + "devnet"
)

// core is what works on payments, wherever they come from.
var core = []string{
	"domain", "schemas", "schemas/kafka", "streams", "streams/engine", "streams/directory",
	"streams/commands", "streams/follower", "streams/intake", "streams/mailer",
	"streams/topology", "projections", "api", "internal/egress", "internal/node",
	"internal/sim", "internal/telemetry",
}

func TestTheCoreSeesNothingOfStellar(t *testing.T) {
	for _, from := range core {
		b := ban{
			from: from,
			to:   []string{module + stellar},
			why:  "the forms of ledgers are one wing's: the core knows payments of the domain",
		}
		for _, path := range importsOf(t, b) {
			if b.forbids(path) {
				t.Errorf("%s reaches %s: %s", b.from, path, b.why)
			}
		}
	}
}

func siblings(of string) []string {
	var others []string
	for _, p := range []string{
		"streams/engine", "streams/follower", "streams/directory", "streams/commands",
		"streams/mailer", "projections", "api",
	} {
		if p != of {
			others = append(others, module+p)
		}
	}
	return others
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

func TestABanForbids(t *testing.T) {
	b := ban{to: []string{"net", "net/"}, but: "net/netip"}
	for path, want := range map[string]bool{
		"net":       true,
		"net/http":  true,
		"net/netip": false,
		"netip":     false,
		"strings":   false,
	} {
		if b.forbids(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

func (b ban) forbids(path string) bool {
	if path == b.but {
		return false
	}
	for _, to := range b.to {
		if path == to || strings.HasSuffix(to, "/") && strings.HasPrefix(path, to) {
			return true
		}
	}
	return false
}

func importsOf(t *testing.T, b ban) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=Imports,Deps", module+b.from).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var listed struct{ Imports, Deps []string }
	if err := json.Unmarshal(out, &listed); err != nil {
		t.Fatal(err)
	}
	if b.direct {
		return listed.Imports
	}
	return listed.Deps
}
