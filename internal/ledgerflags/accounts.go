package ledgerflags

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"github.com/stellar/go-stellar-sdk/network"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
)

// RegisterAccounts adds the flags of who asks for accounts of a service's network, instead of those
// of who reads ledgers.
func (s *Flags) RegisterAccounts(f *pflag.FlagSet) {
	s.kind = sourceRPC
	cli.Group(f, "Source", func(f *pflag.FlagSet) {
		f.StringVar(&s.Network, "network", "", "Stellar network of the source: pubnet, testnet, or the "+
			"passphrase of another (default that of the service)")
		s.registerServers(f)
	})
}

// CheckAccounts checks the flags of RegisterAccounts.
func (s *Flags) CheckAccounts() error {
	if s.Network != "" {
		if err := s.CheckNetwork(); err != nil {
			return err
		}
	}
	return s.checkURLs()
}

// OpenAccounts makes what asks for accounts of the network that a service follows, and its name. It
// asks nothing yet.
func (s *Flags) OpenAccounts(passphrase string) (accounts source.Accounts, name string, err error) {
	named := s.Network
	if named == "" && passphrase == network.TestNetworkPassphrase {
		s.Network = "testnet"
	}
	if s.Passphrase = cmp.Or(s.Passphrase, passphrase); s.Passphrase != passphrase {
		return nil, "", cli.Usage(fmt.Errorf("--network %q: the service follows another network: %q",
			named, passphrase))
	}
	s.preset()
	if len(s.rpcURLs) == 0 {
		return nil, "", cli.Usage(errors.New(`--stellar-rpc-url "": name a Stellar RPC server of the ` +
			"network"))
	}
	accounts, err = rpc.NewAccounts(s.rpcConfig(nil))
	return accounts, rpcName(s.rpcURLs...), err
}
