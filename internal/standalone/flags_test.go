package standalone

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/devnet"
)

// TestOneMistakeIsOneError: a consequence of a fault is not reported as another fault.
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
		{"--network=AcmePay --no-demo --stellar-rpc-url=http://127.0.0.1:1", ""}, // a private network's
		{"--network=testnet --no-demo", ""},
		{"--network=testnet", "add --no-demo"},
		{"--network=pubnet --no-demo", "--stellar-rpc-url \"\": name at least one"},
		{"--network=pubnet --no-demo --ledger-quorum=3", "--stellar-rpc-url \"\": name at least one"},
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
