package standalone

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/devnet"
)

// A consequence of a mistake must not be reported as another mistake.
func TestOneMistakeIsOneError(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--network=mainnet", `unknown network "mainnet" (known: pubnet, testnet, devnet; or give the ` +
			"passphrase of another); did you mean pubnet?"},
		{"--network=public", "did you mean pubnet?"},
		{"--network=Pubnet", "did you mean pubnet?"},
		{"--network=mainet --stellar-rpc-url=x --ledger-quorum=3", "did you mean pubnet?"},
		{"--network=devnt", "did you mean devnet?"},
		{"--network=futurenet", `unknown network "futurenet" (known: `},
		{"--network=devnet", ""},
		{"--network=AcmePay --no-demo --stellar-rpc-url=http://127.0.0.1:1", ""}, // a private network
		{"--network=testnet --no-demo", ""},
		{"--network=testnet", "add --no-demo"},
		{"--network=pubnet --no-demo", "--stellar-rpc-url \"\": set at least one"},
		{"--network=pubnet --no-demo --ledger-quorum=3", "--stellar-rpc-url \"\": set at least one"},
		{"--network=pubnet --no-demo --ledger-source=satellite", `must be rpc or lake`},
		{"--trusted-ledger=x", "--trusted-ledger needs --network"},
		{"--network=devnet --ledger-quorum=0", "--ledger-quorum needs --network"},
		{"--network=testnet --no-demo --stellar-faults=x", "--stellar-faults is of the development"},
		{"--network=testnet --no-demo --ledger-interval=0", "--ledger-interval is of the development"},
	} {
		f := pflag.NewFlagSet("run", pflag.ContinueOnError)
		var s Flags
		s.Register(f)
		if err := f.Parse(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		err := errors.Join(s.Check()...)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.args, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: got %v, want one error: %s", c.args, err, c.want)
		}
	}
}

func TestDevnetIsTheNetworkThatRunStarts(t *testing.T) {
	var s Flags
	s.source.Network = config.Devnet
	if err := s.source.CheckNetwork(); err != nil || s.source.Passphrase != devnet.DefaultPassphrase {
		t.Errorf("%q, %v", s.source.Passphrase, err)
	}
}

// If an error names the bounds of a flag, the flag's help must name them as well.
func TestHelpNamesTheBounds(t *testing.T) {
	bounds := regexp.MustCompile(`must be (?:from (\S+) to (\S+)|(\d+) or more|at least (\S+),)|` +
		`(at most 100) waits|must be (above 0 and at most 1)|a wait must be from (\S+) to (\S+)`)
	tried := map[string][]string{
		"history-retention": {"1d"},
		"retry-schedule":    {"1ns", "1000h", strings.Repeat("1s,", 101) + "1s"},
	}
	all := pflag.NewFlagSet("run", pflag.ContinueOnError)
	new(Flags).Register(all)
	all.VisitAll(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "duration":
			tried[f.Name] = []string{"-1s", "999999h"}
		case "int", "int32", "int64", "float64":
			tried[f.Name] = []string{"-1", "2000000000"}
		}
	})
	tried["ledger-quorum"] = []string{"-1"} // the upper bound is the number of servers
	if len(tried) < 12 {
		t.Fatalf("only %d flags have bounds", len(tried))
	}
	for name, values := range tried {
		for _, value := range values {
			f := pflag.NewFlagSet("run", pflag.ContinueOnError)
			var s Flags
			s.Register(f)
			args := []string{"--" + name + "=" + value}
			if strings.HasPrefix(name, "ledger-") && name != "ledger-interval" {
				args = append(args, "--network=testnet", "--no-demo")
			}
			err := f.Parse(args)
			err = errors.Join(append(s.Check(), err)...)
			if err == nil {
				t.Logf("--%s=%s is accepted", name, value)
				continue
			}
			named := bounds.FindStringSubmatch(err.Error())
			if named == nil {
				t.Errorf("--%s=%s: the error names no bound: %v", name, value, err)
				continue
			}
			for _, bound := range named[1:] {
				if !strings.Contains(f.Lookup(name).Usage, bound) {
					t.Errorf("the help of --%s lacks %s, which is in the error %v", name, bound, err)
				}
			}
		}
	}
}
