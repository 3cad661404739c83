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

// Ledgers are the flags that say which Stellar network is followed, and where its ledgers come
// from. Passphrase and StartAt are known once Check has returned.
type Ledgers struct {
	Network    string // as it was named; empty: none was
	Passphrase string
	StartAt    follower.Start // where to begin when nothing was followed yet
	Quorum     int            // how many servers must agree

	OnRefused func()                    // called for each ledger that is refused; may be nil
	OnLeft    func(name, reason string) // called when one of several sources is left; may be nil
	// OnSource is called with each of several sources and each reason to leave it, before any is;
	// it may be nil.
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

// Register adds the flags, with a default network.
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

// RegisterMoves adds the flag of processes that record balance moves.
func (s *Ledgers) RegisterMoves(f *pflag.FlagSet) {
	s.flags.Group(f, "Ledgers", "api, follower",
		Value("balance-moves", &s.balanceMoves, false, "record every balance change of watched "+
			"wallets for use in statements; don't turn it on until all processes run this version"))
}

// RegisterAccounts adds the flags of a command that asks for accounts of a service's network, and
// reads no ledgers.
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

// checkURLs repeats no address: it may hold a provider's key.
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

// networks are the networks that have a name, with their passphrases.
var networks = map[string]string{
	"pubnet":  network.PublicNetworkPassphrase,
	"testnet": network.TestNetworkPassphrase,
	Devnet:    "Lumenhook Devnet ; November 2026",
}

// Devnet names the network that `lumenhook run` starts.
const Devnet = "devnet"

// CheckNetwork reads --network alone: the name of a network, or a passphrase. A private network
// may have any passphrase, so only one word that is similar to a name is an error.
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

// Check parses the values and returns every fault at once.
func (s *Ledgers) Check() error {
	if err := s.CheckNetwork(); err != nil {
		return err // what else is needed depends on the network
	}
	s.preset()
	faults := append(s.flags.Faults(), s.checkSource(), s.checkQuorum(), s.CheckStart())
	return errors.Join(faults...)
}

// preset names the public server of a network where none is named.
func (s *Ledgers) preset() {
	switch {
	case s.Network == "testnet" && s.kind == sourceRPC && len(s.rpcURLs) == 0:
		s.rpcURLs = []string{testnetRPC}
	case s.Network == "pubnet" && s.kind == sourceLake && s.lakeAddress == "":
		s.lakeAddress = pubnetLake
	}
}

// checkSource names the server that the kind of source needs and does not have.
func (s *Ledgers) checkSource() error {
	needs := func(flag, server string) error {
		return fmt.Errorf("--%s \"\": name %s, or choose another --ledger-source", flag, server)
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

// checkQuorum checks that enough sources are named for the quorum.
func (s *Ledgers) checkQuorum() error {
	named := len(s.rpcURLs)
	if s.lakeAddress != "" {
		named++
	}
	if named == 0 || s.Quorum <= max(1, named) { // checkSource asks for the first
		return nil
	}
	return fmt.Errorf("--ledger-quorum %d: %d servers are named: name one more than must agree, or "+
		"as many, with --stellar-rpc-url and --ledger-lake", s.Quorum, named)
}

// CheckStart reads --start and --trusted-ledger alone, for a service with a network of its own.
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

// CheckAccounts checks the flags of RegisterAccounts.
func (s *Ledgers) CheckAccounts() error {
	if s.Network != "" {
		if err := s.CheckNetwork(); err != nil {
			return err
		}
	}
	return errors.Join(s.flags.Faults()...)
}

// OpenAccounts makes what asks for accounts of the network that a service follows, and its name. It
// asks nothing yet.
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
		return nil, "", cli.Usage(errors.New(`--stellar-rpc-url "": name a Stellar RPC server of the ` +
			"network"))
	}
	accounts, err = rpc.NewAccounts(s.Passphrase, s.rpcURLs...)
	return accounts, rpcName(s.rpcURLs...), err
}

// Follow sets a network that is not of the flags, with its RPC server.
func (s *Ledgers) Follow(rpcURL, passphrase string, pollInterval time.Duration) {
	s.kind, s.rpcURLs, s.Passphrase = sourceRPC, []string{rpcURL}, passphrase
	s.lakeAddress, s.pollInterval = "", pollInterval
}

// NamesServer reports whether the flags name where ledgers come from.
func (s *Ledgers) NamesServer() bool { return s.kind != sourceRPC || len(s.rpcURLs) > 0 }

// UseServer names an RPC server and its network, where the flags name none.
func (s *Ledgers) UseServer(rpcURL, network string) {
	s.rpcURLs, s.Network = []string{rpcURL}, network
}

// RPCURL returns the first RPC server, or "".
func (s *Ledgers) RPCURL() string { return cmp.Or(s.rpcURLs...) }

// Server is one of the servers that ledgers come from. One goroutine asks it.
type Server struct {
	Name   string // says nothing of what is secret in its address
	Source interface {
		source.Looker
		source.Reporter
	}
	// Clock is its time by the Date of its last answer, and when that came; both zero if it has
	// said none.
	Clock func() (its, at time.Time)
}

// Servers returns each server that ledgers come from, for `lumenhook doctor`.
func (s *Ledgers) Servers() ([]Server, error) { return s.servers(nil, true) }

// servers opens the servers that ledgers come from. Only with clocks is the time of answers noted.
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

// open opens the source of ledgers: one, or several, of which the next takes over when one fails
// or a quorum must agree.
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

// Open makes a reader of the source. It asks nothing yet.
func (s *Ledgers) Open(log *slog.Logger) (*source.Reader, error) {
	from, err := s.open(log)
	if err != nil {
		return nil, err
	}
	return source.NewReader(from, s.Passphrase)
}

// Readers read the sources for a follower.
type Readers struct {
	Live, Past, Probe follower.Source
	Standings         func() domain.SourceStandings // how the sources of Live stand
}

// OpenBoth makes a reader of the live ledger, which gives balance moves if they are wanted, one
// of the past, and one that is asked why the first gives nothing.
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
		live.GiveMoves()
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

// rpcName names servers by their hosts: the rest of their URLs may be a provider's key.
func rpcName(urls ...string) string {
	var hosts []string
	for _, address := range urls {
		host := "" // of an address that Check refuses
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

// Trusted is the ledger of --trusted-ledger, if there is one.
func (s *Ledgers) Trusted() follower.Trusted {
	return follower.Trusted{Sequence: s.anchor.Sequence, Hash: s.anchor.Hash}
}

// Lookup returns what warns of wallets that cannot receive a payment. It asks Stellar RPC. A lake
// does not know accounts, so without an RPC server there is no warning.
func (s *Ledgers) Lookup(log *slog.Logger) (api.Wallets, error) {
	if len(s.rpcURLs) > 0 {
		return rpc.NewLookup(s.rpcConfig(log, s.rpcURLs[0]))
	}
	return noLookup{}, nil
}

// Transactions returns what finds transactions by their hashes, or nil without an RPC server: a
// lake has no index of them.
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

// noLookup stands for a source that knows no accounts.
type noLookup struct{}

func (noLookup) Warnings(context.Context, string, []domain.Asset) []string { return []string{} }

// dated notes the Date of answers.
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
