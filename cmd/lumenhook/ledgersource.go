package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/stellar/go-stellar-sdk/network"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/internal/embedded/devnet"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/ledger"
	"github.com/lumenhook/lumenhook/streams/ledger/handover"
	"github.com/lumenhook/lumenhook/streams/ledger/horizon"
	"github.com/lumenhook/lumenhook/streams/ledger/lake"
	"github.com/lumenhook/lumenhook/streams/ledger/rpc"
)

// Sources of ledgers, as --ledger-source names them.
const (
	sourceRPC     = "rpc"
	sourceHorizon = "horizon"
	sourceLake    = "lake"
)

// Servers of the networks that have public ones. The public network's RPC is run by
// many, so that an operator chooses.
const (
	testnetRPC     = "https://soroban-testnet.stellar.org"
	testnetHorizon = "https://horizon-testnet.stellar.org"
	pubnetLake     = "s3://aws-public-blockchain/v1.1/stellar/ledgers/pubnet?region=us-east-2&anonymous=true"
)

// sourceSettings are the flags that say which network is followed, and from
// where its ledgers come.
type sourceSettings struct {
	network       string
	kind          string
	rpcURLs       []string
	horizonURL    string
	lakeAddress   string
	lakeFile      uint32
	lakePartition uint32
	start         string
	pollInterval  time.Duration
	passphrase    string
	startAt       follower.Start
}

func (s *sourceSettings) register(f *pflag.FlagSet, ownNetwork string) {
	f.StringVar(&s.network, "network", ownNetwork, "Stellar network: pubnet, testnet, or the passphrase of another; `run` without it follows a development network of its own")
	f.StringVar(&s.kind, "ledger-source", sourceRPC, "where ledgers come from: rpc, horizon or lake")
	f.StringSliceVar(&s.rpcURLs, "stellar-rpc-url", nil, "URL of a Stellar RPC server; more than one: the next is used when one is not well (testnet: "+testnetRPC+")")
	f.StringVar(&s.horizonURL, "horizon-url", "", "URL of a Horizon server (testnet: "+testnetHorizon+")")
	f.StringVar(&s.lakeAddress, "ledger-lake", "", "lake of exported ledgers: a folder, s3://bucket/prefix?region=… or gs://bucket/prefix; with rpc, for what the server no longer keeps (pubnet, as the source: that of AWS)")
	f.Uint32Var(&s.lakeFile, "lake-ledgers-per-file", 0, "layout of a lake without a manifest")
	f.Uint32Var(&s.lakePartition, "lake-files-per-partition", 0, "layout of a lake without a manifest")
	f.DurationVar(&s.pollInterval, "ledger-poll-interval", time.Second, "time between looks for the next ledger")
	s.registerStart(f)
}

func (s *sourceSettings) registerStart(f *pflag.FlagSet) {
	f.StringVar(&s.start, "start", "latest", "where to begin when nothing was followed yet: latest, or a ledger's sequence")
}

// check reads what is text and names every fault at once.
func (s *sourceSettings) check() error {
	var faults []error
	fault := func(flag, value, problem string) {
		faults = append(faults, fmt.Errorf("--%s %q: %s", flag, value, problem))
	}
	switch s.network {
	case "pubnet":
		s.passphrase = network.PublicNetworkPassphrase
	case "testnet":
		s.passphrase = network.TestNetworkPassphrase
	default:
		s.passphrase = s.network
	}
	s.preset()
	if strings.TrimSpace(s.passphrase) == "" {
		fault("network", s.network, "name the network: pubnet, testnet, or a passphrase")
	}
	switch {
	case s.kind == sourceRPC && len(s.rpcURLs) == 0:
		fault("stellar-rpc-url", "", "name at least one Stellar RPC server, or choose another --ledger-source")
	case s.kind == sourceHorizon && s.horizonURL == "":
		fault("horizon-url", "", "name a Horizon server, or choose another --ledger-source")
	case s.kind == sourceLake && s.lakeAddress == "":
		fault("ledger-lake", "", "name a lake, or choose another --ledger-source")
	case s.kind != sourceRPC && s.kind != sourceHorizon && s.kind != sourceLake:
		fault("ledger-source", s.kind, "must be rpc, horizon or lake")
	}
	for _, address := range append([]string{s.horizonURL}, s.rpcURLs...) {
		if u, err := url.Parse(address); address != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			faults = append(faults, errors.New("--stellar-rpc-url and --horizon-url: must be like https://host:port/path"))
			break
		}
	}
	if s.pollInterval < time.Millisecond || s.pollInterval > time.Minute {
		fault("ledger-poll-interval", s.pollInterval.String(), "must be from 1ms to 1m")
	}
	faults = append(faults, s.checkStart())
	return errors.Join(faults...)
}

// preset names the public server of a network where none is named.
func (s *sourceSettings) preset() {
	switch {
	case s.network == "testnet" && s.kind == sourceRPC && len(s.rpcURLs) == 0:
		s.rpcURLs = []string{testnetRPC}
	case s.network == "testnet" && s.kind == sourceHorizon && s.horizonURL == "":
		s.horizonURL = testnetHorizon
	case s.network == "pubnet" && s.kind == sourceLake && s.lakeAddress == "":
		s.lakeAddress = pubnetLake
	}
}

func (s *sourceSettings) checkStart() (err error) {
	if s.startAt, err = follower.ParseStart(s.start); err != nil {
		return fmt.Errorf("--start: %w", err)
	}
	return nil
}

// ofDevnet has the run's own network followed, and its lake if it exports one.
func (s *sourceSettings) ofDevnet(n *devnet.Network, run *runSettings) {
	s.kind, s.rpcURLs, s.passphrase = sourceRPC, []string{n.RPCURL()}, n.Passphrase()
	s.lakeAddress, s.pollInterval = run.stellarLake, min(run.ledgerInterval/20, time.Second)
}

// open makes the source. It asks nothing yet.
func (s *sourceSettings) open(log *slog.Logger) (ledger.Source, error) {
	switch s.kind {
	case sourceHorizon:
		return horizon.New(s.horizonConfig(log))
	case sourceLake:
		return s.openLake(log)
	}
	near, err := rpc.New(s.rpcConfig(log))
	if err != nil || s.lakeAddress == "" {
		return near, err
	}
	far, err := s.openLake(log)
	if err != nil {
		return nil, err
	}
	return handover.New(near, far, log), nil
}

// openBoth makes the source of the live ledger, and one of the past.
func (s *sourceSettings) openBoth(log *slog.Logger) (live, past ledger.Source, err error) {
	if live, err = s.open(log); err == nil {
		past, err = s.open(log)
	}
	return live, past, err
}

func (s *sourceSettings) openLake(log *slog.Logger) (ledger.Source, error) {
	store, err := lake.Open(s.lakeAddress)
	if err != nil {
		return nil, fmt.Errorf("--ledger-lake: %w", err)
	}
	return lake.New(lake.Config{
		Store: store, Passphrase: s.passphrase, Logger: log, PollInterval: s.pollInterval,
		Layout: lake.Layout{LedgersPerFile: s.lakeFile, FilesPerPartition: s.lakePartition},
	})
}

func (s *sourceSettings) rpcConfig(log *slog.Logger) rpc.Config {
	return rpc.Config{URL: s.rpcURLs[0], FallbackURLs: s.rpcURLs[1:], Passphrase: s.passphrase, Logger: log, PollInterval: s.pollInterval}
}

func (s *sourceSettings) horizonConfig(log *slog.Logger) horizon.Config {
	return horizon.Config{URL: s.horizonURL, Passphrase: s.passphrase, Logger: log, PollInterval: s.pollInterval}
}

// lookup makes what warns of wallets that cannot receive: by RPC if a server is
// named, else by Horizon. A lake knows no accounts: then there is no warning.
func (s *sourceSettings) lookup(log *slog.Logger) (api.Wallets, error) {
	switch {
	case len(s.rpcURLs) > 0:
		return rpc.NewLookup(s.rpcConfig(log))
	case s.horizonURL != "":
		return horizon.NewLookup(s.horizonConfig(log))
	}
	return noLookup{}, nil
}
