package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"github.com/stellar/go-stellar-sdk/network"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/lake"
	"github.com/lumenhook/lumenhook/internal/stellar/source/quorum"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
	"github.com/lumenhook/lumenhook/streams/follower"
)

// Values of --ledger-source.
const (
	sourceRPC  = "rpc"
	sourceLake = "lake"
)

// Public servers. Several providers run public RPC servers for pubnet, so the operator has to
// choose one.
const (
	testnetRPC = "https://soroban-testnet.stellar.org"
	pubnetLake = "s3://aws-public-blockchain/v1.1/stellar/ledgers/pubnet" +
		"?region=us-east-2&anonymous=true"
)

// Ledgers holds the flags that select the Stellar network and its ledger sources. Check sets
// Passphrase and StartAt.
type Ledgers struct {
	Network    string // as given; empty: not given
	Passphrase string
	StartAt    follower.Start // where a new deployment starts
	Quorum     int            // number of sources that must agree

	OnRefused func()                    // called for each rejected ledger; may be nil
	OnLeft    func(name, reason string) // called when one of several sources is abandoned; may be nil
	// OnSource is called at the start for each of several sources and each possible reason to
	// abandon it; may be nil.
	OnSource func(name, reason string)

	flags        Flags
	kind         string
	rpcURLs      []string
	lakeAddress  string
	start        string
	trusted      string
	anchor       source.Anchor
	pollInterval time.Duration
	balanceMoves bool
}

// Register adds the flags. network is the default for --network.
func (s *Ledgers) Register(f *pflag.FlagSet, network string) {
	s.flags.Group(f, "Ledgers", "api, follower",
		Value("network", &s.Network, network, "Stellar network: pubnet, testnet, devnet, or another "+
			"network's passphrase; \"lumenhook run\" starts a devnet by default").
			Of("pubnet", "testnet"),
		s.serversFlag(),
		Value("ledger-source", &s.kind, sourceRPC, "where to read ledgers from: rpc or lake").
			Of(sourceRPC, sourceLake),
		Value("ledger-lake", &s.lakeAddress, "", "lake of exported ledgers: a folder, "+
			"s3://bucket/prefix?region=… or gs://bucket/prefix; with --ledger-source rpc, it's used for "+
			"ledgers that the server no longer has (default for pubnet with --ledger-source lake: the "+
			"AWS lake)"),
		Bounded("ledger-poll-interval", &s.pollInterval, time.Second,
			"how often to check for the next ledger", time.Millisecond, time.Minute),
		Value("ledger-quorum", &s.Quorum, 1, "number of sources that must agree on a ledger's hash; "+
			"with 2 or more, this includes all servers in --stellar-rpc-url and the lake (1 or "+
			"more)", AtLeast(1)),
		Value("trusted-ledger", &s.trusted, "", "SEQUENCE:HASH of a ledger that you have verified "+
			"elsewhere; without --start, a new deployment starts after it"),
		Value("start", &s.start, "latest",
			"where a new deployment starts: latest, or a ledger sequence").Of("latest"))
}

// RegisterMoves adds the flag for recording balance moves.
func (s *Ledgers) RegisterMoves(f *pflag.FlagSet) {
	s.flags.Group(f, "Ledgers", "api, follower",
		Value("balance-moves", &s.balanceMoves, false, "record every balance change of watched "+
			"wallets for use in statements; don't turn it on until all processes run this version"))
}

// RegisterAccounts adds the flags of a command that looks up accounts but reads no ledgers.
func (s *Ledgers) RegisterAccounts(f *pflag.FlagSet) {
	s.kind = sourceRPC
	s.flags.Group(f, "Source", "",
		Value("network", &s.Network, "", "the source's Stellar network: pubnet, testnet, or another "+
			"network's passphrase (default the service's network)"),
		s.serversFlag())
}

func (s *Ledgers) serversFlag() Flag {
	return Value("stellar-rpc-url", &s.rpcURLs, nil, "URL of a Stellar RPC server; "+
		"additional URLs serve as fallbacks (default for testnet "+testnetRPC+")", checkURLs)
}

// checkURLs doesn't repeat the address in its error: it may contain an API key.
func checkURLs(addresses []string) error {
	for _, address := range addresses {
		if !isHTTP(address) {
			return errors.New("must be like https://host:port/path")
		}
	}
	return nil
}

func isHTTP(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// networks maps network names to passphrases.
var networks = map[string]string{
	"pubnet":  network.PublicNetworkPassphrase,
	"testnet": network.TestNetworkPassphrase,
	Devnet:    "Lumenhook Devnet ; November 2026",
}

// Devnet is the name of the network that `lumenhook run` starts.
const Devnet = "devnet"

// CheckNetwork checks only --network, which is a network's name or a passphrase. A private network
// may have any passphrase, so only a single word that resembles a name is an error.
func (s *Ledgers) CheckNetwork() error {
	s.Passphrase = cmp.Or(networks[s.Network], s.Network)
	if strings.ContainsAny(strings.TrimSpace(s.Passphrase), " ;") {
		return nil
	}
	meant := cli.DidYouMean(s.Network, []string{"pubnet", "testnet", Devnet, "mainnet", "public"}, "")
	if meant == "" && s.Network != "futurenet" && strings.TrimSpace(s.Network) != "" {
		return nil
	}
	return fmt.Errorf("--network: unknown network %q (known: pubnet, testnet, devnet; or give the "+
		"passphrase of another)%s", s.Network,
		strings.NewReplacer("mainnet", "pubnet", "public", "pubnet").Replace(meant))
}

// Check parses all values. The error reports all faults.
func (s *Ledgers) Check() error {
	if err := s.CheckNetwork(); err != nil {
		return err // other requirements depend on the network
	}
	s.preset()
	faults := append(s.flags.Faults(), s.checkSource(), s.checkQuorum(), s.CheckStart())
	return errors.Join(faults...)
}

func (s *Ledgers) preset() {
	switch {
	case s.Network == "testnet" && s.kind == sourceRPC && len(s.rpcURLs) == 0:
		s.rpcURLs = []string{testnetRPC}
	case s.Network == "pubnet" && s.kind == sourceLake && s.lakeAddress == "":
		s.lakeAddress = pubnetLake
	}
}

// checkSource checks that the kind of source has a server.
func (s *Ledgers) checkSource() error {
	needs := func(flag, server string) error {
		return fmt.Errorf("--%s \"\": set %s or choose another --ledger-source", flag, server)
	}
	switch {
	case s.kind == sourceRPC && len(s.rpcURLs) == 0:
		return needs("stellar-rpc-url", "at least one Stellar RPC server")
	case s.kind == sourceLake && s.lakeAddress == "":
		return needs("ledger-lake", "a lake")
	case s.kind != sourceRPC && s.kind != sourceLake:
		return fmt.Errorf("--ledger-source %q: must be rpc or lake", s.kind)
	}
	return nil
}

func (s *Ledgers) checkQuorum() error {
	named := len(s.rpcURLs)
	if s.lakeAddress != "" {
		named++
	}
	if named == 0 || s.Quorum <= max(1, named) { // checkSource reports missing servers
		return nil
	}
	return fmt.Errorf("--ledger-quorum %d: %d servers are named; name at least as many as must "+
		"agree, or one more, with --stellar-rpc-url and --ledger-lake", s.Quorum, named)
}

// CheckStart checks only --start and --trusted-ledger. The service already knows its network.
func (s *Ledgers) CheckStart() (err error) {
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

// CheckAccounts checks the flags that RegisterAccounts adds.
func (s *Ledgers) CheckAccounts() error {
	if s.Network != "" {
		if err := s.CheckNetwork(); err != nil {
			return err
		}
	}
	return errors.Join(s.flags.Faults()...)
}

// OpenAccounts returns a client for accounts of the service's network, and its display name. It
// sends no requests.
func (s *Ledgers) OpenAccounts(
	passphrase string,
) (accounts source.Accounts, name string, err error) {
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
		return nil, "", cli.Usage(errors.New(`--stellar-rpc-url "": set the URL of a Stellar RPC ` +
			"server for the network"))
	}
	accounts, err = rpc.NewAccounts(s.Passphrase, s.rpcURLs...)
	return accounts, rpcName(s.rpcURLs...), err
}

// Follow replaces the network and the source of the flags with an RPC server.
func (s *Ledgers) Follow(rpcURL, passphrase string, pollInterval time.Duration) {
	s.kind, s.rpcURLs, s.Passphrase = sourceRPC, []string{rpcURL}, passphrase
	s.lakeAddress, s.pollInterval = "", pollInterval
}

// NamesServer reports whether the flags name a ledger source.
func (s *Ledgers) NamesServer() bool { return s.kind != sourceRPC || len(s.rpcURLs) > 0 }

// UseServer sets the RPC server and the network. It is for flags that name no server.
func (s *Ledgers) UseServer(rpcURL, network string) {
	s.rpcURLs, s.Network = []string{rpcURL}, network
}

// RPCURL returns the first RPC server, or "" if there is none.
func (s *Ledgers) RPCURL() string { return cmp.Or(s.rpcURLs...) }

// Server is one of the ledger sources. It is not safe for concurrent use.
type Server struct {
	Name   string // without secret parts of the address
	Source interface {
		source.Looker
		source.Reporter
	}
	// Clock returns the server's time in the Date header of its last response, and when that
	// arrived. Both are zero if there was no such header.
	Clock func() (its, at time.Time)
}

// Servers returns all ledger sources, for `lumenhook doctor`.
func (s *Ledgers) Servers() ([]Server, error) { return s.servers(nil, true) }

func (s *Ledgers) servers(log *slog.Logger, clocks bool) (servers []Server, err error) {
	urls := s.rpcURLs
	if s.kind == sourceLake && s.Quorum <= 1 {
		urls = nil
	}
	for _, address := range urls {
		dates := &dated{}
		server := Server{Name: rpcName(address), Clock: dates.last}
		cfg := s.rpcConfig(log, address)
		if clocks {
			cfg.HTTPClient = &http.Client{Transport: dates}
		}
		if server.Source, err = rpc.New(cfg); err != nil {
			return nil, fmt.Errorf("%s: %w", server.Name, err)
		}
		servers = append(servers, server)
	}
	if s.lakeAddress == "" {
		return servers, nil
	}
	place, _, _ := strings.Cut(s.lakeAddress, "?")
	from := Server{Name: "lake " + place, Clock: new(dated).last}
	if from.Source, err = s.openLake(log); err != nil {
		return nil, err
	}
	return append(servers, from), nil
}

// open opens the ledger source. If there are several, they form a quorum or are fallbacks.
func (s *Ledgers) open(log *slog.Logger) (source.Watched, error) {
	servers, err := s.servers(log, false)
	if err != nil {
		return nil, err
	}
	if len(servers) == 1 {
		return source.NewAlone(servers[0].Name, servers[0].Source), nil
	}
	cfg := quorum.Config{Need: max(1, s.Quorum), Interval: s.pollInterval, Log: log, OnLeft: s.OnLeft}
	for _, from := range servers {
		cfg.Members = append(cfg.Members, quorum.Member{Name: from.Name, Source: from.Source})
	}
	several, err := quorum.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("--ledger-quorum %d: %w", s.Quorum, err)
	}
	for _, from := range servers {
		for _, reason := range quorum.Reasons() {
			if s.OnSource != nil {
				s.OnSource(from.Name, reason)
			}
		}
	}
	return several, nil
}

// Open returns a reader of the ledger source. It sends no requests.
func (s *Ledgers) Open(log *slog.Logger) (*source.Reader, error) {
	from, err := s.open(log)
	if err != nil {
		return nil, err
	}
	return source.NewReader(from, s.Passphrase)
}

// Readers are a follower's readers.
type Readers struct {
	Live, Past, Probe follower.Source
	Standings         func() domain.SourceStatuses // state of the sources of Live
}

// OpenBoth returns the readers of a follower: one for live ledgers, which returns balance moves if
// enabled, one for past ledgers, and a probe that finds out why the live reader returns nothing.
func (s *Ledgers) OpenBoth(log *slog.Logger) (both Readers, err error) {
	from, err := s.open(log)
	if err != nil {
		return both, err
	}
	live, err := source.NewReader(from, s.Passphrase)
	if err != nil {
		return both, err
	}
	if s.balanceMoves {
		live.EnableMoves()
	}
	past, err := s.Open(log)
	if err != nil {
		return both, err
	}
	probe, err := s.Open(nil)
	return Readers{Live: live, Past: past, Probe: probe, Standings: from.Standings}, err
}

func (s *Ledgers) openLake(log *slog.Logger) (*lake.Source, error) {
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
	})
}

func (s *Ledgers) rpcConfig(log *slog.Logger, address string) rpc.Config {
	return rpc.Config{
		URL:          address,
		Passphrase:   s.Passphrase,
		Logger:       log,
		PollInterval: s.pollInterval,
		Trust:        s.trust(),
	}
}

// rpcName names servers by their hosts, because the rest of a URL may contain an API key.
func rpcName(urls ...string) string {
	var hosts []string
	for _, address := range urls {
		host := "" // stays empty for addresses that Check rejects
		if u, err := url.Parse(address); err == nil {
			host = u.Host
		}
		hosts = append(hosts, host)
	}
	return "rpc " + strings.Join(hosts, ",")
}

func (s *Ledgers) trust() source.Trust {
	return source.Trust{Anchor: s.anchor, OnRefused: s.OnRefused}
}

// Trusted returns the ledger of --trusted-ledger, if given.
func (s *Ledgers) Trusted() follower.Trusted {
	return follower.Trusted{Sequence: s.anchor.Sequence, Hash: s.anchor.Hash}
}

// Lookup returns a client that warns about wallets that cannot receive a payment. Without an RPC
// server it never warns, because a lake has no accounts.
func (s *Ledgers) Lookup(log *slog.Logger) (api.Wallets, error) {
	if len(s.rpcURLs) > 0 {
		return rpc.NewLookup(s.rpcConfig(log, s.rpcURLs[0]))
	}
	return noLookup{}, nil
}

// Transactions returns a client that finds transactions by hash. It returns nil without an RPC
// server, because a lake has no index of transactions.
func (s *Ledgers) Transactions() (api.Transactions, error) {
	if len(s.rpcURLs) == 0 {
		return nil, nil
	}
	var servers []rpc.Config
	for _, address := range s.rpcURLs {
		servers = append(servers, s.rpcConfig(nil, address))
	}
	return rpc.NewTransactions(s.Passphrase, servers)
}

// noLookup is for sources without accounts.
type noLookup struct{}

func (noLookup) Warnings(context.Context, string, []domain.Asset) []string { return []string{} }

type dated struct {
	mu      sync.Mutex
	its, at time.Time
}

func (d *dated) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if its, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		d.mu.Lock()
		d.its, d.at = its, time.Now()
		d.mu.Unlock()
	}
	return response, nil
}

func (d *dated) last() (its, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.its, d.at
}
