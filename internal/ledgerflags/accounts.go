package ledgerflags

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"github.com/stellar/go-stellar-sdk/network"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/horizon"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
)

// RegisterAccounts adds the flags of who asks for accounts of a service's network, instead of those
// of who reads ledgers.
func (s *Flags) RegisterAccounts(f *pflag.FlagSet) {
	cli.Group(f, "Source", func(f *pflag.FlagSet) {
		f.StringVar(&s.Network, "network", "", "Stellar network of the source: pubnet, testnet, or the "+
			"passphrase of another (default that of the service)")
		f.StringVar(&s.kind, "ledger-source", sourceRPC, "who is asked for the account: rpc or horizon")
		s.registerServers(f)
	})
}

// CheckAccounts reads the flags of RegisterAccounts and names every fault at once.
func (s *Flags) CheckAccounts() error {
	var faults []error
	if s.kind != sourceRPC && s.kind != sourceHorizon {
		faults = append(faults, fmt.Errorf("--ledger-source %q: must be rpc or horizon: a lake does not "+
			"tell what accounts hold", s.kind))
	}
	for _, address := range append([]string{s.horizonURL}, s.rpcURLs...) {
		if address != "" && !isHTTP(address) {
			faults = append(faults, errors.New("--stellar-rpc-url and --horizon-url: "+
				"must be like https://host:port/path"))
			break
		}
	}
	return errors.Join(faults...)
}

// OpenAccounts makes what asks for accounts of the network that a service follows, and its name. It
// asks nothing yet.
func (s *Flags) OpenAccounts(passphrase string) (accounts source.Accounts, name string, err error) {
	named := s.Network
	switch {
	case named == "pubnet":
		s.Passphrase = network.PublicNetworkPassphrase
	case named == "testnet", named == "" && passphrase == network.TestNetworkPassphrase:
		s.Network, s.Passphrase = "testnet", network.TestNetworkPassphrase
	case named == "":
		s.Passphrase = passphrase
	default:
		s.Passphrase = named
	}
	if s.Passphrase != passphrase {
		return nil, "", cli.Usage(fmt.Errorf("--network %q: the service follows another network: %q",
			named, passphrase))
	}
	s.preset()
	switch {
	case s.kind == sourceHorizon && s.horizonURL == "":
		return nil, "", cli.Usage(errors.New(`--horizon-url "": name a Horizon server of the network, ` +
			"or choose rpc as --ledger-source"))
	case s.kind == sourceHorizon:
		accounts, err = horizon.NewAccounts(s.horizonConfig(nil))
		return accounts, "horizon " + hostOf(s.horizonURL), err
	case len(s.rpcURLs) == 0:
		return nil, "", cli.Usage(errors.New(`--stellar-rpc-url "": name a Stellar RPC server of the ` +
			"network, or choose horizon as --ledger-source"))
	}
	accounts, err = rpc.NewAccounts(s.rpcConfig(nil))
	return accounts, rpcName(s.rpcURLs...), err
}
