package config

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/stellar/source/quorum"
)

func parse(t *testing.T, args ...string) *Ledgers {
	t.Helper()
	var s Ledgers
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.Register(f, "")
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &s
}

// A quorum needs at least as many servers as must agree. With several servers, every reason to
// leave each of them must be counted from the start, because an alert notices only the increase of
// an existing count.
func TestWhoMayBeAQuorum(t *testing.T) {
	const two, three = "--ledger-quorum=2", "--ledger-quorum=3"
	named := map[string]string{
		"a":    "--stellar-rpc-url=https://a.example/key",
		"b":    "--stellar-rpc-url=https://b.example",
		"lake": "--ledger-lake=" + t.TempDir(),
	}
	for _, c := range []struct {
		quorum string
		who    string
		fault  string // empty if there is none
	}{
		{two, "a b", ""},
		{two, "a lake", ""},
		{three, "a b lake", ""},
		{"--ledger-quorum=1", "a", ""},
		{two, "a", "1 servers are named"},
		{three, "a lake", "2 servers are named"},
		{two, "a a", "named twice"},
		{"--ledger-quorum=0", "a", "must be 1 or more"},
		{"--ledger-quorum=-2", "a b", "must be 1 or more"},
	} {
		args := []string{"--network=pubnet", c.quorum}
		for who := range strings.FieldsSeq(c.who) {
			args = append(args, named[who])
		}
		s := parse(t, args...)
		counts := make(map[string]bool)
		s.OnSource = func(name, reason string) { counts[name+" "+reason] = true }
		err := s.Check()
		if err == nil {
			_, err = s.OpenBoth(slog.New(slog.DiscardHandler))
		}
		switch {
		case c.fault == "" && err != nil:
			t.Errorf("%s of %s: %v", c.quorum, c.who, err)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s of %s: got %v, want %q", c.quorum, c.who, err, c.fault)
		}
		want := len(strings.Fields(c.who)) * len(quorum.Reasons())
		if c.fault != "" || want == len(quorum.Reasons()) {
			want = 0
		}
		if len(counts) != want {
			t.Errorf("%s of %s: %d counts are there before any is needed, not %d", c.quorum, c.who,
				len(counts), want)
		}
	}
	if got := rpcName("https://a.example/secret-key"); got != "rpc a.example" {
		t.Errorf("the name %q is not the host alone", got)
	}
}
