package ledgerflags

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func parse(t *testing.T, args ...string) *Flags {
	t.Helper()
	var s Flags
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.Register(f, "")
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &s
}

// So many servers are to agree as are named, at most, and Horizon is none that gives ledgers.
func TestWhoMayBeAQuorum(t *testing.T) {
	const two, three = "--ledger-quorum=2", "--ledger-quorum=3"
	named := map[string]string{
		"a":       "--stellar-rpc-url=https://a.example/key",
		"b":       "--stellar-rpc-url=https://b.example",
		"horizon": "--horizon-url=https://h.example",
		"lake":    "--ledger-lake=" + t.TempDir(),
	}
	for _, c := range []struct {
		quorum string
		who    string
		fault  string // empty: none
	}{
		{two, "a b", ""},
		{two, "a lake", ""},
		{two, "a horizon", ""},
		{three, "a b horizon lake", ""},
		{"--ledger-quorum=1", "a", ""},
		{two, "a", "1 servers are named"},
		{three, "a horizon", "2 servers are named"},
		{two, "a a", "named twice"},
		{"--ledger-quorum=0", "a", "must be 1 or more"},
		{"--ledger-quorum=-2", "a b", "must be 1 or more"},
	} {
		args := []string{"--network=pubnet", c.quorum}
		for who := range strings.FieldsSeq(c.who) {
			args = append(args, named[who])
		}
		s := parse(t, args...)
		err := s.Check()
		if err == nil {
			_, _, err = s.OpenBoth(slog.New(slog.DiscardHandler))
		}
		switch {
		case c.fault == "" && err != nil:
			t.Errorf("%s of %s: %v", c.quorum, c.who, err)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s of %s: got %v, want %q", c.quorum, c.who, err, c.fault)
		}
	}
	if got := rpcName("https://a.example/secret-key"); got != "rpc a.example" {
		t.Errorf("the name %q is not the host alone", got)
	}
}
