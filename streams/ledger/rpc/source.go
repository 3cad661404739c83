package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"

	"github.com/lumenhook/lumenhook/streams/ledger"
)

// Bounds and defaults of a source.
const (
	pageSizeDefault     = 20
	pageSizeMax         = 200 // the most that a Stellar RPC server gives
	pollIntervalDefault = time.Second
	backoffMaxDefault   = 15 * time.Second
	requestTimeout      = 30 * time.Second
)

// Config says which server to ask, and how.
type Config struct {
	URL          string
	Passphrase   string        // of the network that the server must serve
	HTTPClient   *http.Client  // one of our own when nil
	Logger       *slog.Logger  // silent when nil
	PollInterval time.Duration // between looks at the tip; 1 s when 0
	BackoffMax   time.Duration // longest wait after repeated failures; 15 s when 0
	PageSize     int           // ledgers in one answer; 20 when 0, 200 at most
}

// Source reads ledgers in order. It is for one goroutine.
type Source struct {
	config   Config
	client   *client
	log      *slog.Logger
	state    string // of the server, as last logged
	pageSize int    // shrinks when pages are too large
	sizeMax  int64  // of a page's answer, in bytes
	chain    ledger.Chain
}

// New makes a source. It asks the server nothing yet.
func New(config Config) (*Source, error) {
	c, err := newClient(config.URL, config.HTTPClient)
	if err != nil {
		return nil, err
	}
	if config.PageSize < 0 || config.PageSize > pageSizeMax {
		return nil, fmt.Errorf("rpc: the page size is %d: set 1 to %d ledgers", config.PageSize, pageSizeMax)
	}
	if config.PollInterval < 0 || config.BackoffMax < 0 {
		return nil, errors.New("rpc: the poll interval and the longest backoff cannot be negative")
	}
	config.PageSize = orDefault(config.PageSize, pageSizeDefault)
	config.PollInterval = orDefault(config.PollInterval, pollIntervalDefault)
	config.BackoffMax = orDefault(config.BackoffMax, backoffMaxDefault)
	log := config.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Source{config: config, client: c, log: log.With("rpc", c.host), pageSize: config.PageSize, sizeMax: pageSizeBytesMax}, nil
}

func orDefault[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// Check asks once whether the server is there and serves our network.
func (s *Source) Check(ctx context.Context) error {
	var network protocol.GetNetworkResponse
	if err := s.call(ctx, protocol.GetNetworkMethodName, nil, &network, answerSizeBytesMax); err != nil {
		return err
	}
	if network.Passphrase != s.config.Passphrase {
		return fmt.Errorf("%w: the Stellar RPC at %s serves %q, but %q is to be followed: set the URL of a server of that network, or the other passphrase (with data and topics of its own)",
			ledger.ErrWrongNetwork, s.client.host, network.Passphrase, s.config.Passphrase)
	}
	return nil
}

// Latest asks once for the sequence of the newest ledger.
func (s *Source) Latest(ctx context.Context) (uint32, error) {
	health, err := s.health(ctx)
	return health.LatestLedger, err
}

// Continue tells the source which ledger was read last, before a restart: the
// next one must follow it.
func (s *Source) Continue(sequence uint32, hash string) { s.chain.Continue(sequence, hash) }

// Next waits until the ledger with this sequence is there and answers with it
// and those after it that are there too, at most a page. It fails only for what
// waiting does not mend: see the errors of package ledger.
func (s *Source) Next(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	wait := s.config.PollInterval
	for {
		page, err := s.try(ctx, sequence)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case len(page) > 0:
			s.report("up", slog.LevelInfo, "ledgers are being read from the Stellar RPC", "ledger", sequence)
			return page, nil
		case ledger.IsFinal(err):
			return nil, err
		case errors.Is(err, errTooLarge) && s.pageSize > 1:
			s.pageSize /= 2
			continue
		case err != nil:
			s.report("down", slog.LevelWarn, "the Stellar RPC cannot be used; trying again until it can", "ledger", sequence, "err", err)
			if err := pause(ctx, wait); err != nil {
				return nil, err
			}
			wait = min(2*wait, s.config.BackoffMax)
			continue
		}
		if err := pause(ctx, s.config.PollInterval); err != nil {
			return nil, err
		}
		wait = s.config.PollInterval
	}
}

// try looks once. No page and no error: the ledger is not there yet.
func (s *Source) try(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	health, err := s.health(ctx)
	if err != nil {
		return nil, err
	}
	if sequence < health.OldestLedger {
		return nil, fmt.Errorf("%w: ledger %d is wanted, but the Stellar RPC at %s keeps %d to %d: follow a server that keeps more, or start at ledger %d and miss the payments in between",
			ledger.ErrBehindRetention, sequence, s.client.host, health.OldestLedger, health.LatestLedger, health.OldestLedger)
	}
	if sequence > health.LatestLedger {
		if health.LatestLedger+1 < sequence {
			s.report("lagging", slog.LevelWarn, "the Stellar RPC is behind what was read already; waiting for it", "ledger", sequence, "latest", health.LatestLedger)
		}
		return nil, nil
	}
	return s.page(ctx, sequence)
}

func (s *Source) health(ctx context.Context) (protocol.GetHealthResponse, error) {
	var health protocol.GetHealthResponse
	err := s.call(ctx, protocol.GetHealthMethodName, nil, &health, answerSizeBytesMax)
	if err == nil && health.LatestLedger == 0 {
		err = fmt.Errorf("the Stellar RPC at %s has no ledger yet", s.client.host)
	}
	return health, err
}

// ledgers is an answer to getLedgers. JSON gives bytes as base64.
type ledgers struct {
	Ledgers []struct {
		Sequence uint32 `json:"sequence"`
		Hash     string `json:"hash"`
		XDR      []byte `json:"metadataXdr"`
	} `json:"ledgers"`
}

// page asks for ledgers and holds each against the one before it. It answers
// with those up to the first that does not fit, unless that is the first.
func (s *Source) page(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	var got ledgers
	ask := protocol.GetLedgersRequest{StartLedger: sequence, Pagination: &protocol.LedgerPaginationOptions{Limit: uint(s.pageSize)}}
	if err := s.call(ctx, protocol.GetLedgersMethodName, ask, &got, s.sizeMax); err != nil {
		return nil, err
	}
	var page []ledger.Raw
	for _, l := range got.Ledgers[:min(len(got.Ledgers), s.pageSize)] {
		page = append(page, ledger.Raw{Sequence: l.Sequence, Hash: l.Hash, XDR: l.XDR})
	}
	if len(page) == 0 {
		return nil, fmt.Errorf("the Stellar RPC at %s says that it has ledger %d, but gives none", s.client.host, sequence)
	}
	return s.chain.Fitting(page, sequence, "the Stellar RPC at "+s.client.host)
}

func (s *Source) call(ctx context.Context, method string, params, result any, sizeBytesMax int64) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return s.client.call(ctx, method, params, result, sizeBytesMax)
}

// report logs a state of the server when it is not the one logged last.
func (s *Source) report(state string, level slog.Level, message string, args ...any) {
	if s.state == state {
		return
	}
	s.state = state
	s.log.Log(context.Background(), level, message, args...)
}

func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
