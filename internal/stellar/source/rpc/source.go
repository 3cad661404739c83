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

// Bounds and defaults of a source.
const (
	pageSizeFirst  = 20
	pageSizeMax    = 200 // the most that a Stellar RPC server gives
	idleLooksMax   = 10  // at one server, before the others are asked
	fallbacksMax   = 16
	requestTimeout = 30 * time.Second
)

// Config says which server to ask, and how.
type Config struct {
	URL          string
	FallbackURLs []string      // further servers of the same network, for when the first is not well
	Passphrase   string        // of the network that the server must serve
	Trust        source.Trust  // of the ledgers that it returns
	HTTPClient   *http.Client  // one of our own when nil
	Logger       *slog.Logger  // silent when nil
	PollInterval time.Duration // between looks at the tip; 1 s when 0
	BackoffMax   time.Duration // longest wait after repeated failures; 15 s when 0
	PageSize     int           // ledgers in one answer, at most; 200 when 0
}

// Source reads ledgers in order. It is for one goroutine.
type Source struct {
	config   Config
	clients  []*client
	client   *client // the one that is asked now
	idle     int     // looks in a row that found nothing new
	poll     *source.Poll
	pageSize int      // shrinks when pages are too large, and grows again
	latest   uint32   // the newest ledger that the server in use has, as it last said
	ahead    []*fetch // pages from it that were asked for before they are due, in order
	depth    int      // how many of them there may be: grows while all is well
	pageMax  int64    // of a page's answer, in bytes
}

// New makes a source. It asks the server nothing yet.
func New(config Config) (*Source, error) {
	if len(config.FallbackURLs) > fallbacksMax {
		return nil, fmt.Errorf("rpc: %d further URLs are more than %d", len(config.FallbackURLs),
			fallbacksMax)
	}
	var clients []*client
	for _, address := range append([]string{config.URL}, config.FallbackURLs...) {
		c, err := newClient(address, config.HTTPClient)
		if err != nil {
			return nil, err
		}
		clients = append(clients, c)
	}
	if config.PageSize < 0 || config.PageSize > pageSizeMax {
		return nil, fmt.Errorf("rpc: the page size is %d: set 1 to %d ledgers", config.PageSize,
			pageSizeMax)
	}
	poll, err := source.NewPoll(source.Poll{
		Kind:       "rpc",
		Name:       "the Stellar RPC",
		Server:     clients[0].host,
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
		config:   config,
		clients:  clients,
		client:   clients[0],
		poll:     poll,
		pageSize: cmp.Or(config.PageSize, pageSizeFirst),
		pageMax:  pageSizeBytesMax,
	}, nil
}

// Check asks once whether the servers serve our network. One that does not
// answer is forgiven if another does; one of another network never is.
func (s *Source) Check(ctx context.Context) error {
	var last error
	answered := 0
	for range s.clients {
		switch err := s.checkOne(ctx); {
		case errors.Is(err, domain.ErrWrongNetwork):
			return err
		case err != nil:
			last = err
		default:
			answered++
		}
		s.turn()
	}
	if answered == 0 {
		return last
	}
	return nil
}

func (s *Source) checkOne(ctx context.Context) error {
	var network protocol.GetNetworkResponse
	err := s.call(ctx, protocol.GetNetworkMethodName, nil, &network, answerSizeBytesMax)
	if err != nil {
		return err
	}
	if network.Passphrase != s.config.Passphrase {
		return fmt.Errorf("%w: the Stellar RPC at %s serves %q, but %q is to be followed: set the URL "+
			"of a server of that network, or the other passphrase (with data and topics of its own)",
			domain.ErrWrongNetwork, s.client.host, network.Passphrase, s.config.Passphrase)
	}
	return nil
}

// turn switches to the next server, and after the last to the first.
func (s *Source) turn() {
	s.drop()
	for i, c := range s.clients {
		if c == s.client {
			s.client = s.clients[(i+1)%len(s.clients)]
			s.poll.Server = s.client.host
			return
		}
	}
}

// Latest asks each server once, at most, for the sequence of the newest ledger.
func (s *Source) Latest(ctx context.Context) (latest uint32, err error) {
	for range s.clients {
		var health protocol.GetHealthResponse
		if health, err = s.health(ctx); err == nil {
			return health.LatestLedger, nil
		}
		s.turn()
	}
	return 0, err
}

// Report queries the state of the server in use.
func (s *Source) Report(ctx context.Context) (source.Report, error) {
	health, err := s.health(ctx)
	report := source.Report{Oldest: health.OldestLedger, Latest: health.LatestLedger}
	if health.LatestLedgerCloseTime > 0 {
		report.ClosedAt = time.Unix(health.LatestLedgerCloseTime, 0)
	}
	return report, err
}

// Continue sets which ledger was read last, before a restart: the next one must follow it.
func (s *Source) Continue(sequence uint32, hash string) { s.poll.Continue(sequence, hash) }

// Next waits until the ledger with this sequence is there and returns it
// and those after it that are there too, at most a page. It fails only for what
// waiting does not help: see domain.LedgerError.
func (s *Source) Next(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	return s.poll.Next(ctx, sequence, func() ([]ledger.Raw, error) { return s.Look(ctx, sequence) })
}

// Look asks each server once, at most: see source.Looker.
func (s *Source) Look(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	for {
		page, err := s.tryEach(ctx, sequence)
		if !errors.Is(err, errTooLarge) || s.pageSize == 1 {
			return page, err
		}
		s.drop()
		s.pageSize /= 2
	}
}

// tryEach polls one server after another until one has the ledger. A server without a new ledger is
// kept for a while, because ledgers take seconds; then the others are queried in case they are
// further. A permanent error counts when all servers return it, because an unavailable one may have
// the ledger.
func (s *Source) tryEach(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	var problem, final error
	finals, waiting := 0, false
	for range s.clients {
		page, err := s.try(ctx, sequence)
		switch {
		case len(page) > 0:
			s.idle = 0
			return page, nil
		case ctx.Err() != nil || errors.Is(err, errTooLarge):
			return nil, err
		case err == nil:
			if s.idle++; s.idle < idleLooksMax {
				return nil, nil
			}
			waiting = true
		case source.IsPermanent(err):
			final = err
			finals++
		default:
			problem = err
		}
		if len(s.clients) > 1 {
			s.poll.Log.Debug("another Stellar RPC is asked", "rpc", s.client.host, "ledger", sequence,
				"err", err)
			s.turn()
		}
	}
	s.idle = 0
	switch {
	case finals == len(s.clients):
		return nil, final
	case waiting:
		return nil, nil
	case final != nil:
		return nil, fmt.Errorf("%w; and another server says: %v", problem, final)
	}
	return nil, problem
}

// try polls once. No page and no error: the ledger does not exist yet.
func (s *Source) try(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	if len(s.ahead) > 0 && s.ahead[0].first == sequence {
		f := s.ahead[0]
		s.ahead = s.ahead[1:]
		page, err := s.page(ctx, f)
		if err == nil || ctx.Err() != nil || errors.Is(err, errTooLarge) && s.pageSize > 1 {
			return page, err
		}
	}
	s.drop() // the server's current answer counts
	health, err := s.health(ctx)
	if err != nil {
		return nil, err
	}
	if sequence < health.OldestLedger {
		return nil, fmt.Errorf("%w: ledger %d is wanted, but the Stellar RPC at %s keeps %d to %d: "+
			"follow a server that keeps more, or start at ledger %d and miss the payments in between",
			domain.ErrBehindRetention, sequence, s.client.host, health.OldestLedger, health.LatestLedger,
			health.OldestLedger)
	}
	if sequence > health.LatestLedger {
		// Servers behind one address may be a few ledgers apart, which is not worth reporting.
		if health.LatestLedger+1 < sequence && s.idle == idleLooksMax-1 {
			s.poll.Report("lagging", slog.LevelWarn, "the newest ledger of the Stellar RPC is older than "+
				"the one that is awaited", "ledger", sequence, "latest", health.LatestLedger)
		}
		return nil, nil
	}
	s.latest = health.LatestLedger
	most := s.pageMax
	if s.pageSize == 1 {
		most = max(most, ledgerSizeBytesMax)
	}
	return s.page(ctx, s.fetch(ctx, sequence, most))
}

func (s *Source) health(ctx context.Context) (protocol.GetHealthResponse, error) {
	var health protocol.GetHealthResponse
	err := s.call(ctx, protocol.GetHealthMethodName, nil, &health, answerSizeBytesMax)
	switch {
	case err != nil:
	case health.LatestLedger == 0:
		err = fmt.Errorf("the Stellar RPC at %s has no ledger yet", s.client.host)
	case health.OldestLedger > health.LatestLedger || health.LatestLedger > math.MaxInt32:
		err = fmt.Errorf("the Stellar RPC at %s says that it keeps ledgers %d to %d", s.client.host,
			health.OldestLedger, health.LatestLedger)
	}
	return health, err
}

func (s *Source) call(
	ctx context.Context, method string, params, result any, sizeBytesMax int64,
) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return s.client.call(ctx, method, params, result, sizeBytesMax)
}
