package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"time"

	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
)

// Limits and defaults.
const (
	pageSizeFirst  = 20
	pageSizeMax    = 200 // maximum of a Stellar RPC server
	idleLooksMax   = 10  // polls without a new ledger, before this is logged
	requestTimeout = 30 * time.Second
)

// Config configures a Source.
type Config struct {
	URL          string
	Passphrase   string        // of the server's network
	Trust        source.Trust  // of the ledgers that it returns
	HTTPClient   *http.Client  // default: a shared client
	Logger       *slog.Logger  // nil: no logs
	PollInterval time.Duration // between polls for a new ledger; default: 1 s
	BackoffMax   time.Duration // longest wait after repeated failures; default: 15 s
	PageSize     int           // maximum number of ledgers per response; default: 200
}

// Source reads a server's ledgers in order. It is not safe for concurrent use.
type Source struct {
	*client
	config   Config
	idle     int // polls in a row without a new ledger
	poll     *source.Poll
	pageSize int      // shrinks if pages are too large, and grows again
	latest   uint32   // newest ledger in the server's last response
	ahead    []*fetch // prefetched pages, in order
	depth    int      // maximum number of prefetched pages; grows while nothing fails
	pageMax  int64    // size limit of a page in bytes
}

// New returns a source. It doesn't query the server yet.
func New(config Config) (*Source, error) {
	c, err := newClient(config.URL, config.HTTPClient)
	if err != nil {
		return nil, err
	}
	if config.PageSize < 0 || config.PageSize > pageSizeMax {
		return nil, fmt.Errorf("rpc: the page size is %d: set 1 to %d ledgers", config.PageSize,
			pageSizeMax)
	}
	poll, err := source.NewPoll(source.Poll{
		Kind:       "rpc",
		Name:       "the Stellar RPC",
		Server:     c.host,
		Passphrase: config.Passphrase,
		Trust:      config.Trust,
		Interval:   config.PollInterval,
		BackoffMax: config.BackoffMax,
		Log:        config.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Source{
		client:   c,
		config:   config,
		poll:     poll,
		pageSize: cmp.Or(config.PageSize, pageSizeFirst),
		pageMax:  pageSizeBytesMax,
	}, nil
}

// Check checks once whether the server serves the configured network.
func (s *Source) Check(ctx context.Context) error {
	return s.check(ctx, s.config.Passphrase)
}

// check checks once whether the server serves the network with the given passphrase.
func (c *client) check(ctx context.Context, passphrase string) error {
	var network protocol.GetNetworkResponse
	err := c.call(ctx, protocol.GetNetworkMethodName, nil, &network, answerSizeBytesMax)
	if err == nil && network.Passphrase != passphrase {
		err = fmt.Errorf("%w: the Stellar RPC at %s serves %q instead of %q: set the URL of a server "+
			"of that network", domain.ErrWrongNetwork, c.host, network.Passphrase, passphrase)
	}
	return err
}

// Latest queries the sequence of the newest ledger once.
func (s *Source) Latest(ctx context.Context) (uint32, error) {
	health, err := s.health(ctx)
	return health.LatestLedger, err
}

// Report queries the state of the server once.
func (s *Source) Report(ctx context.Context) (source.Report, error) {
	health, err := s.health(ctx)
	report := source.Report{Oldest: health.OldestLedger, Latest: health.LatestLedger}
	if health.LatestLedgerCloseTime > 0 {
		report.ClosedAt = time.Unix(health.LatestLedgerCloseTime, 0)
	}
	return report, err
}

// Continue sets the last ledger read, which the next one must follow.
func (s *Source) Continue(sequence uint32, hash string) { s.poll.Continue(sequence, hash) }

// Next waits for a ledger, and returns it and the available ledgers after it, at most a page. It
// fails only if waiting does not help; see domain.LedgerError.
func (s *Source) Next(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	return s.poll.Next(ctx, sequence, func() ([]ledger.Raw, error) { return s.Look(ctx, sequence) })
}

// Look implements source.Looker.
func (s *Source) Look(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	for {
		page, err := s.try(ctx, sequence)
		if !errors.Is(err, errTooLarge) || s.pageSize == 1 {
			return page, err
		}
		s.drop()
		s.pageSize /= 2
	}
}

// try polls once. If it returns neither ledgers nor an error, the ledger doesn't exist yet.
func (s *Source) try(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	if len(s.ahead) > 0 && s.ahead[0].first == sequence {
		f := s.ahead[0]
		s.ahead = s.ahead[1:]
		page, err := s.page(ctx, f)
		if err == nil || ctx.Err() != nil || errors.Is(err, errTooLarge) && s.pageSize > 1 {
			return page, err
		}
	}
	s.drop() // only the server's current response counts
	health, err := s.health(ctx)
	if err != nil {
		return nil, err
	}
	if sequence < health.OldestLedger {
		return nil, fmt.Errorf("%w: ledger %d is needed, but the Stellar RPC at %s has %d to %d: "+
			"use a server that keeps more, or start at ledger %d and miss the payments in between",
			domain.ErrBehindRetention, sequence, s.host, health.OldestLedger, health.LatestLedger,
			health.OldestLedger)
	}
	if sequence > health.LatestLedger {
		// Servers behind one address may be a few ledgers apart, which need not be logged.
		if s.idle++; s.idle == idleLooksMax && health.LatestLedger+1 < sequence {
			s.poll.Report("lagging", slog.LevelWarn, "the newest ledger of the Stellar RPC is older than "+
				"the next ledger to read", "ledger", sequence, "latest", health.LatestLedger)
		}
		return nil, nil
	}
	s.idle, s.latest = 0, health.LatestLedger
	most := s.pageMax
	if s.pageSize == 1 {
		most = max(most, ledgerSizeBytesMax)
	}
	return s.page(ctx, s.fetch(ctx, sequence, most))
}

func (c *client) health(ctx context.Context) (protocol.GetHealthResponse, error) {
	var health protocol.GetHealthResponse
	err := c.call(ctx, protocol.GetHealthMethodName, nil, &health, answerSizeBytesMax)
	switch {
	case err != nil:
	case health.LatestLedger == 0:
		err = fmt.Errorf("the Stellar RPC at %s has no ledger yet", c.host)
	case health.OldestLedger > health.LatestLedger || health.LatestLedger > math.MaxInt32:
		err = fmt.Errorf("the Stellar RPC at %s reports that it keeps ledgers %d to %d", c.host,
			health.OldestLedger, health.LatestLedger)
	}
	return health, err
}
