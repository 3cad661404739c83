package config

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stellar/go-stellar-sdk/network"
)

// The server must belong to the network that the service follows, and its name must contain only
// the host.
func TestWhoIsAskedForAccounts(t *testing.T) {
	const pubnet, testnet = network.PublicNetworkPassphrase, network.TestNetworkPassphrase
	for _, c := range []struct {
		args, follows string
		name          string // of the server
		fault         string // empty if there is none
	}{
		{"--stellar-rpc-url=https://a.example/key", pubnet, "rpc a.example", ""},
		{"--stellar-rpc-url=https://a.example/key --network=pubnet", pubnet, "rpc a.example", ""},
		{
			"--stellar-rpc-url=https://a.example,https://b.example", "own;2026",
			"rpc a.example,b.example", "",
		},
		{"--stellar-rpc-url=https://a.example --network=own;2026", "own;2026", "rpc a.example", ""},
		{"", testnet, "rpc soroban-testnet.stellar.org", ""},
		{"", pubnet, "", `--stellar-rpc-url "": set the URL of a Stellar RPC server`},
		{"--network=testnet", pubnet, "", `--network "testnet": the service follows another network`},
		{"--network=own;2026", "other", "", `--network "own;2026": the service follows another network: "other"`},
		{"--network=mainnet", pubnet, "", `unknown network "mainnet" (known: pubnet, testnet, devnet;`},
		{"--network=mainnet", pubnet, "", "did you mean pubnet?"},
		{"--stellar-rpc-url=x", pubnet, "", "must be like https://host:port/path"},
	} {
		var s Ledgers
		f := pflag.NewFlagSet("test", pflag.ContinueOnError)
		s.RegisterAccounts(f)
		if err := f.Parse(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		name, err := "", s.CheckAccounts()
		if err == nil {
			_, name, err = s.OpenAccounts(c.follows)
		}
		switch {
		case c.fault == "" && (err != nil || name != c.name):
			t.Errorf("%q: %q is asked, not %q: %v", c.args, name, c.name, err)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%q: got %v, want %q", c.args, err, c.fault)
		}
	}
}
