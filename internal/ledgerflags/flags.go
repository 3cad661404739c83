package ledgerflags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/stellar/go-stellar-sdk/network"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/standing"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/lake"
	"github.com/lumenhook/lumenhook/internal/stellar/source/quorum"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
	"github.com/lumenhook/lumenhook/streams/follower"
)

// Sources of ledgers, as --ledger-source names them.
const (
	sourceRPC  = "rpc"
	sourceLake = "lake"
)

// Servers of the networks that have public ones. The public network's RPC is run by
// many, so that an operator chooses.
const (
	testnetRPC = "https://soroban-testnet.stellar.org"
	pubnetLake = "s3://aws-public-blockchain/v1.1/stellar/ledgers/pubnet" +
		"?region=us-east-2&anonymous=true"
)

// Flags are what was given. Passphrase and StartAt are known once Check has returned.
type Flags struct {
	Network    string // as it was named; empty: none was
	Passphrase string
	StartAt    follower.Start // where to begin when nothing was followed yet

	OnRefused func()                    // called for each ledger that is refused; may be nil
	OnLeft    func(name, reason string) // called when one of several sources is left; may be nil
	// OnSource is called with each of several sources and each reason to leave it, before any is;
	// it may be nil.
	OnSource func(name, reason string)

	kind          string
	rpcURLs       []string
	lakeAddress   string
	lakeFile      uint32
	lakePartition uint32
	start         string
	trusted       string
	anchor        source.Anchor
	pollInterval  time.Duration
	quorum        int
	balanceMoves  bool
}

// Register adds the flags. The network is the one named when none is.
func (s *Flags) Register(f *pflag.FlagSet, network string) {
	cli.Group(f, "Ledgers", func(f *pflag.FlagSet) {
		f.StringVar(&s.Network, "network", network, "Stellar network: pubnet, testnet, devnet, or "+
			"the passphrase of another; devnet is what \"lumenhook run\" starts without it")
		s.registerSource(f)
	})
}

// registerServers adds the flags of servers, which know of accounts, too.
func (s *Flags) registerServers(f *pflag.FlagSet) {
	f.StringSliceVar(&s.rpcURLs, "stellar-rpc-url", nil, "URL of a Stellar RPC server; of "+
		"several, the next is used while one fails (default for testnet "+testnetRPC+")")
}

func (s *Flags) registerSource(f *pflag.FlagSet) {
	f.StringVar(&s.kind, "ledger-source", sourceRPC, "where ledgers come from: rpc or lake")
	s.registerServers(f)
	f.StringVar(&s.lakeAddress, "ledger-lake", "", "lake of exported ledgers: a folder, "+
		"s3://bucket/prefix?region=… or gs://bucket/prefix; with --ledger-source rpc, for ledgers "+
		"that the server no longer keeps (default for pubnet, as the source, that of AWS)")
	f.Uint32Var(&s.lakeFile, "lake-ledgers-per-file", 0,
		"ledgers in each file of a lake that has no manifest")
	f.Uint32Var(&s.lakePartition, "lake-files-per-partition", 0,
		"files in each folder of a lake that has no manifest")
	f.DurationVar(&s.pollInterval, "ledger-poll-interval", time.Second,
		"time between looks for the next ledger")
	f.IntVar(&s.quorum, "ledger-quorum", 1, "how many servers must name the same hash before a "+
		"ledger counts; with 2 or more, every server of --stellar-rpc-url and the lake of --ledger-lake "+
		"take part, whatever --ledger-source is")
	f.StringVar(&s.trusted, "trusted-ledger", "", "SEQUENCE:HASH of a ledger that is known from "+
		"elsewhere; without --start, following begins after it when nothing was followed yet")
	f.StringVar(&s.start, "start", "latest", "where to begin when nothing was followed yet: "+
		"latest, or a ledger's sequence")
}

// RegisterMoves adds the flag of who records balance moves.
func (s *Flags) RegisterMoves(f *pflag.FlagSet) {
	cli.Group(f, "Ledgers", func(f *pflag.FlagSet) {
		f.BoolVar(&s.balanceMoves, "balance-moves", false, "record every change of a watched wallet's "+
			"balances, for statements; turn it on once all processes are of this version")
	})
}

// networks are the networks that have a name, with their passphrases.
var networks = map[string]string{
	"pubnet":  network.PublicNetworkPassphrase,
	"testnet": network.TestNetworkPassphrase,
	Devnet:    "Lumenhook Devnet ; November 2026",
}

// Devnet names the network that `lumenhook run` starts.
const Devnet = "devnet"

// CheckNetwork reads --network alone: the name of a network, or a passphrase, which is no word.
func (s *Flags) CheckNetwork() error {
	s.Passphrase = cmp.Or(networks[s.Network], s.Network)
	if strings.ContainsAny(strings.TrimSpace(s.Passphrase), " ;") {
		return nil
	}
	meant := cli.DidYouMean(s.Network, []string{"pubnet", "testnet", Devnet, "mainnet", "public"}, "")
	return fmt.Errorf("--network: unknown network %q (known: pubnet, testnet, devnet; or give the "+
		"passphrase of another)%s", s.Network,
		strings.NewReplacer("mainnet", "pubnet", "public", "pubnet").Replace(meant))
}

// Check reads what is text and names every fault at once.
func (s *Flags) Check() error {
	var faults []error
	fault := func(flag, value, problem string) {
		faults = append(faults, fmt.Errorf("--%s %q: %s", flag, value, problem))
	}
	if err := s.CheckNetwork(); err != nil {
		return err // what else is needed depends on the network
	}
	s.preset()
	faults = append(faults, s.checkServers()...)
	if s.pollInterval < time.Millisecond || s.pollInterval > time.Minute {
		fault("ledger-poll-interval", s.pollInterval.String(), "must be from 1ms to 1m")
	}
	faults = append(faults, s.checkQuorum(), s.CheckStart())
	return errors.Join(faults...)
}

// checkQuorum checks that enough sources are named for the quorum.
func (s *Flags) checkQuorum() error {
	named := len(s.rpcURLs)
	if s.lakeAddress != "" {
		named++
	}
	switch {
	case s.quorum < 1:
		return fmt.Errorf("--ledger-quorum %d: must be 1 or more", s.quorum)
	case named == 0: // checkServers asks for one
		return nil
	case s.quorum > 1 && named < s.quorum:
		return fmt.Errorf("--ledger-quorum %d: %d servers are named: name one more than must agree, or "+
			"as many, with --stellar-rpc-url and --ledger-lake", s.quorum, named)
	}
	return nil
}

// checkServers names what the kind of source needs and does not have.
func (s *Flags) checkServers() (faults []error) {
	needs := func(flag, what string) {
		faults = append(faults,
			fmt.Errorf("--%s \"\": name %s, or choose another --ledger-source", flag, what))
	}
	switch {
	case s.kind == sourceRPC && len(s.rpcURLs) == 0:
		needs("stellar-rpc-url", "at least one Stellar RPC server")
	case s.kind == sourceLake && s.lakeAddress == "":
		needs("ledger-lake", "a lake")
	case s.kind != sourceRPC && s.kind != sourceLake:
		faults = append(faults, fmt.Errorf("--ledger-source %q: must be rpc or lake", s.kind))
	}
	return append(faults, s.checkURLs())
}

// checkURLs checks the addresses of the Stellar RPC servers.
func (s *Flags) checkURLs() error {
	for _, address := range s.rpcURLs {
		if !isHTTP(address) {
			return errors.New("--stellar-rpc-url: must be like https://host:port/path")
		}
	}
	return nil
}

func isHTTP(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// preset names the public server of a network where none is named.
func (s *Flags) preset() {
	switch {
	case s.Network == "testnet" && s.kind == sourceRPC && len(s.rpcURLs) == 0:
		s.rpcURLs = []string{testnetRPC}
	case s.Network == "pubnet" && s.kind == sourceLake && s.lakeAddress == "":
		s.lakeAddress = pubnetLake
	}
}

// CheckStart reads --start alone, for who follows a network of its own.
func (s *Flags) CheckStart() (err error) {
	if s.StartAt, err = follower.ParseStart(s.start); err != nil {
		return fmt.Errorf("--start: %w", err)
	}
	if s.trusted == "" {
		return nil
	}
	if s.anchor, err = source.ParseAnchor(s.trusted); err != nil {
		return fmt.Errorf("--trusted-ledger %q: %w", s.trusted, err)
	}
	switch after := s.anchor.Sequence + 1; {
	case s.StartAt == follower.Start{}:
		s.StartAt.Sequence = after
	case s.StartAt.Sequence > after:
		return fmt.Errorf("--trusted-ledger %q: ledger %d, where --start begins, does not follow it: "+
			"name the one before it, or a later one", s.trusted, s.StartAt.Sequence)
	}
	return nil
}

// Follow has a network followed that is not of the flags, by its RPC server and, for what
// that one no longer keeps, its lake, if there is one.
func (s *Flags) Follow(rpcURL, passphrase, lake string, pollInterval time.Duration) {
	s.kind, s.rpcURLs, s.Passphrase = sourceRPC, []string{rpcURL}, passphrase
	s.lakeAddress, s.pollInterval = lake, pollInterval
}

// NamesServer reports whether the flags name where ledgers come from.
func (s *Flags) NamesServer() bool { return s.kind != sourceRPC || len(s.rpcURLs) > 0 }

// UseServer names an RPC server and its network, where the flags name none.
func (s *Flags) UseServer(rpcURL, network string) {
	s.rpcURLs, s.Network = []string{rpcURL}, network
}

// RPCURL is the first RPC server; empty where there is none.
func (s *Flags) RPCURL() string {
	if len(s.rpcURLs) == 0 {
		return ""
	}
	return s.rpcURLs[0]
}

// Open makes a reader of the source. It asks nothing yet.
func (s *Flags) Open(log *slog.Logger) (*source.Reader, error) {
	from, err := s.open(log)
	if err != nil {
		return nil, err
	}
	return source.NewReader(from, s.Passphrase)
}

func (s *Flags) open(log *slog.Logger) (source.Watched, error) {
	if s.quorum > 1 {
		return s.openQuorum(log)
	}
	if s.kind == sourceLake {
		from, err := s.openLake(log)
		return source.NewAlone(s.lakeName(), from), err
	}
	near, err := rpc.New(s.rpcConfig(log))
	if err != nil || s.lakeAddress == "" {
		return source.NewAlone(rpcName(s.rpcURLs...), near), err
	}
	far, err := s.openLake(log)
	if err != nil {
		return nil, err
	}
	return s.openSeveral(log, 1, []quorum.Member{
		{Name: rpcName(s.rpcURLs...), Source: near},
		{Name: s.lakeName(), Source: far},
	})
}

func (s *Flags) openSeveral(
	log *slog.Logger, need int, members []quorum.Member,
) (source.Watched, error) {
	several, err := quorum.New(quorum.Config{
		Members:  members,
		Need:     need,
		Interval: s.pollInterval,
		Log:      log,
		OnLeft:   s.OnLeft,
	})
	if err != nil {
		return nil, err
	}
	if s.OnSource == nil {
		return several, nil
	}
	for _, m := range members {
		for _, reason := range quorum.Reasons() {
			s.OnSource(m.Name, reason)
		}
	}
	return several, nil
}

// openQuorum makes every server that is named one of several sources.
func (s *Flags) openQuorum(log *slog.Logger) (source.Watched, error) {
	var members []quorum.Member
	for _, address := range s.rpcURLs {
		config := s.rpcConfig(log)
		config.URL, config.FallbackURLs = address, nil
		from, err := rpc.New(config)
		if err != nil {
			return nil, err
		}
		members = append(members, quorum.Member{Name: rpcName(address), Source: from})
	}
	if s.lakeAddress != "" {
		from, err := s.openLake(log)
		if err != nil {
			return nil, err
		}
		members = append(members, quorum.Member{Name: s.lakeName(), Source: from})
	}
	several, err := s.openSeveral(log, s.quorum, members)
	if err != nil {
		return nil, fmt.Errorf("--ledger-quorum %d: %w", s.quorum, err)
	}
	return several, nil
}

// rpcName names servers by their hosts: what else is in their URLs may be a provider's key.
func rpcName(addresses ...string) string {
	var hosts []string
	for _, address := range addresses {
		hosts = append(hosts, hostOf(address))
	}
	return "rpc " + strings.Join(hosts, ",")
}

// hostOf is empty for what Check refuses.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// lakeName leaves out what follows the lake's place in its address.
func (s *Flags) lakeName() string {
	place, _, _ := strings.Cut(s.lakeAddress, "?")
	return "lake " + place
}

// Readers read the sources for a follower.
type Readers struct {
	Live, Past, Probe follower.Source
	Standings         func() standing.Standings // how the sources of Live stand
}

// OpenBoth makes a reader of the live ledger, which gives balance moves if they are wanted, one
// of the past, and one that is asked why the first gives nothing.
func (s *Flags) OpenBoth(log *slog.Logger) (both Readers, err error) {
	from, err := s.open(log)
	if err != nil {
		return both, err
	}
	live, err := source.NewReader(from, s.Passphrase)
	if err != nil {
		return both, err
	}
	if s.balanceMoves {
		live.GiveMoves()
	}
	past, err := s.Open(log)
	if err != nil {
		return both, err
	}
	probe, err := s.Open(nil)
	return Readers{Live: live, Past: past, Probe: probe, Standings: from.Standings}, err
}

func (s *Flags) openLake(log *slog.Logger) (*lake.Source, error) {
	store, err := lake.Open(s.lakeAddress)
	if err != nil {
		return nil, fmt.Errorf("--ledger-lake: %w", err)
	}
	return lake.New(lake.Config{
		Store:        store,
		Passphrase:   s.Passphrase,
		Logger:       log,
		PollInterval: s.pollInterval,
		Trust:        s.trust(),
		Layout:       lake.Layout{LedgersPerFile: s.lakeFile, FilesPerPartition: s.lakePartition},
	})
}

func (s *Flags) rpcConfig(log *slog.Logger) rpc.Config {
	return rpc.Config{
		URL:          s.rpcURLs[0],
		FallbackURLs: s.rpcURLs[1:],
		Passphrase:   s.Passphrase,
		Logger:       log,
		PollInterval: s.pollInterval,
		Trust:        s.trust(),
	}
}

func (s *Flags) trust() source.Trust {
	return source.Trust{Anchor: s.anchor, OnRefused: s.OnRefused}
}

// Trusted is the ledger of --trusted-ledger, if there is one.
func (s *Flags) Trusted() follower.Trusted {
	return follower.Trusted{Sequence: s.anchor.Sequence, Hash: s.anchor.Hash}
}

// Lookup returns what warns of wallets that cannot receive a payment. It asks Stellar RPC. A lake
// does not know accounts, so without an RPC server there is no warning.
func (s *Flags) Lookup(log *slog.Logger) (api.Wallets, error) {
	if len(s.rpcURLs) > 0 {
		return rpc.NewLookup(s.rpcConfig(log))
	}
	return noLookup{}, nil
}

// noLookup stands for a source that knows no accounts: nothing can be warned of.
type noLookup struct{}

func (noLookup) Warnings(context.Context, string, []domain.Asset) []string { return []string{} }
