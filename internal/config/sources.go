package config

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/lake"
	"github.com/lumenhook/lumenhook/internal/stellar/source/quorum"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
	"github.com/lumenhook/lumenhook/streams/follower"
)

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
