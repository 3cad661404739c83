package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/stellar/go-stellar-sdk/network"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/api/console"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/ingress"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/streams/follower"
)

const (
	// maxTestWait bounds the wait for a test's first attempt.
	maxTestWait = 30 * time.Second
	// endRequestsMax bounds the wait for requests in progress when a server stops.
	endRequestsMax = 5 * time.Second
)

// ServerConfig configures the API's listener.
type ServerConfig struct {
	Listen            string // host:port; port 0 picks a free one
	CertFile, KeyFile string // turn TLS on; both or none
	MaxConnsPerClient int
	Hosts, Origins    []string // additional to those of ingress.Guard
	FrameAncestors    []string // origins that may show the portal in a frame
	ConsoleIdle       time.Duration
	TrustedProxies    []netip.Prefix
}

// Guard returns a guard that protects a server from other sites' web pages.
func (c ServerConfig) Guard(listen string) ingress.Guard {
	guard := ingress.Guard{Listen: listen, Hosts: c.Hosts, Origins: c.Origins, Links: true}
	if len(c.FrameAncestors) > 0 {
		guard.Framed = domain.PortalPath
	}
	return guard
}

type apiRole struct {
	part
	url     string
	uses    *keyUses
	console *console.Console
	portal  *console.Console
}

func (r *apiRole) Name() string { return string(RoleAPI) }

func (r *apiRole) Start(context.Context) error {
	if err := r.openHistory(); err != nil {
		return err
	}
	handler, err := r.handler()
	if err != nil {
		return err
	}
	if r.console, err = r.newConsole(handler, nil); err != nil {
		return err
	}
	if r.portal, err = r.newConsole(handler, r.portalLinks()); err != nil {
		return err
	}
	cfg := r.node.cfg.API.Server
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("--api-listen: %w", err)
	}
	pages := r.portal.Mount(r.console.Mount(handler))
	guarded := api.NewServer(cfg.Guard(cfg.Listen).Wrap(pages), r.Logger)
	guarded.RegisterOnShutdown(handler.EndWaits)
	guarded.RegisterOnShutdown(r.console.EndStreams)
	guarded.RegisterOnShutdown(r.portal.EndStreams)
	server, err := NewHTTPServer(HTTPConfig{
		Server:            guarded,
		CertFile:          cfg.CertFile,
		KeyFile:           cfg.KeyFile,
		MaxConnsPerClient: cfg.MaxConnsPerClient,
		Proxies:           cfg.TrustedProxies,
		Log:               r.Logger,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("--api-tls-cert: %w", err), listener.Close())
	}
	r.url = server.Scheme() + "://" + listener.Addr().String()
	r.serve("api", server, listener)
	return nil
}

// serve serves on a listener until ctx is done, and then lets requests in progress finish.
func serve(ctx context.Context, server *Server, l net.Listener) error {
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.Background(), endRequestsMax)
		defer cancel()
		ended <- server.Shutdown(ending)
	})
	err := server.Serve(l)
	if stop() {
		return err // Serve failed on its own
	}
	return errors.Join(err, <-ended)
}

// openHistory opens a history that another process's projector writes.
func (r *apiRole) openHistory() error {
	dsn := r.node.historyDSN()
	if r.node.history.Missing() == nil || dsn == "" {
		return nil
	}
	db, err := writer.Open(dsn)
	if err != nil {
		return fmt.Errorf("--clickhouse-dsn: %w", err)
	}
	r.OnStop(func() { _ = db.Close() })
	closed, err := r.node.history.readFrom(db, r.clusterOf("history"), nil)
	if err != nil {
		return err
	}
	r.OnStop(closed)
	return nil
}

func (r *apiRole) handler() (*api.API, error) {
	n, cfg := r.node, r.node.cfg
	uses, err := newKeyUses(r.clusterOf("api"), cfg.Logger)
	if err != nil {
		return nil, err
	}
	r.uses = uses
	r.OnStop(uses.close)
	cursor, err := follower.OpenCursor(r.clusterOf("api"), cfg.Passphrase)
	if err != nil {
		return nil, err
	}
	r.OnStop(cursor.Close)
	return api.New(api.Config{
		Commands:       submitter{n.commands.Client, cfg.Disk},
		Directory:      n.directory.Directory,
		History:        n.history,
		Ledgers:        newLedgers(cursor.Newest, cfg.Now),
		Sealer:         cfg.Sealer,
		SigningKeys:    publishedKeys{cfg.SigningKeys},
		Wallets:        cfg.API.Wallets,
		Transactions:   cfg.API.Transactions,
		URLs:           urlPolicy{n.receivers.client},
		Entropy:        rand.Reader,
		Now:            cfg.Now,
		Log:            cfg.Logger,
		Answered:       cfg.Metrics.request,
		Checks:         n.apiChecks(),
		Uses:           uses,
		PortalLinks:    r.portalLinks(),
		DeriveKey:      deriver(cfg.MasterKey),
		Live:           cfg.Passphrase == network.PublicNetworkPassphrase,
		RateLimit:      cfg.API.RateLimit,
		TestWait:       testWait(cfg.AttemptTimeout),
		TrustedProxies: cfg.API.Server.TrustedProxies,
	})
}

// portalLinks signs and verifies portal links with a key that all nodes share.
func (r *apiRole) portalLinks() *domain.PortalSigner {
	return domain.NewPortalSigner(deriver(r.node.cfg.MasterKey)("portal links"))
}

// newConsole returns the console or, if links is not nil, the portal. Both are clients of the API.
func (r *apiRole) newConsole(
	handler http.Handler, links *domain.PortalSigner,
) (*console.Console, error) {
	cfg := r.node.cfg
	c := console.Config{
		API:          handler,
		Keys:         r.node.directory.Directory,
		Sessions:     r.uses,
		Entropy:      rand.Reader,
		Now:          cfg.Now,
		Log:          cfg.Logger,
		DeriveKey:    deriver(cfg.MasterKey),
		IdleMax:      cfg.API.Server.ConsoleIdle,
		DisableAfter: cfg.Policy.DisableAfter,
		Schedule:     cfg.Policy.Schedule,
	}
	if links != nil {
		c.Portal, c.FrameAncestors = links, cfg.API.Server.FrameAncestors
	}
	return console.New(c)
}

func testWait(attempt time.Duration) time.Duration {
	return min(attempt+3*time.Second, maxTestWait)
}

func (n *Node) runsAllRoles() bool { return len(n.cfg.Roles) == 0 }

// apiChecks returns the conditions of the API's /readyz in addition to the directory's. They cover
// roles that start before the API. If there are other processes, they exclude the follower: load
// balancers use /readyz, and all processes have the same ledger source.
func (n *Node) apiChecks() []api.Check {
	checks := []api.Check{{
		Name: "disk",
		Run:  func(context.Context) error { return n.cfg.Disk.Check() },
	}}
	for _, role := range n.stack.Started() {
		name := role.Name()
		if name == string(RoleEngine) || name == string(RoleFollower) && n.runsAllRoles() {
			checks = append(checks, api.Check{Name: name, Run: func(ctx context.Context) error {
				return Check(ctx, role)
			}})
		}
	}
	return append(checks, api.Check{Name: "history", Run: n.history.check, Detail: n.history.describe})
}
