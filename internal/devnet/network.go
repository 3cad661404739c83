package devnet

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/internal/ingress"
)

// Network is a running devnet.
//
// Open opens the folder and binds the address, so that Addr and the URLs are known. Run, called at
// most once, serves requests and closes ledgers until its context ends. Close stops Run, waits for
// it, and releases the folder and the address. CloseNow can be called between Open and Close, even
// without Run.
type Network struct {
	cfg      Config
	store    *store
	listener net.Listener
	bot      *keypair.Full
	pages    chan struct{} // limits concurrent responses with ledgers
	stage    stage         // faults to apply

	context context.Context // cancelled by Close
	end     context.CancelFunc
	runs    sync.WaitGroup

	// mu is locked to admit a transaction or close a ledger, so that a response shows only one ledger.
	mu      sync.RWMutex
	tip     tip
	state   entries       // after the latest ledger
	closed  chan struct{} // closed and replaced when a ledger closes
	queue   []*transaction
	queued  map[xdr.Hash]bool
	pending *pending
	ops     int   // number of operations in queue
	ran     bool  // Run or Close was called
	broken  error // a ledger could not be written, or the network was closed
}

var errClosed = errors.New("the development network is closed")

// Open opens the network in cfg.Dir, or creates it, and binds its address.
func Open(cfg Config) (*Network, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("devnet configuration: %w", err)
	}
	n := &Network{
		cfg:    cfg,
		bot:    keypair.MustParseFull(cfg.Identities.FriendbotSeed), // validated with the configuration
		closed: make(chan struct{}),
		pages:  make(chan struct{}, maxPages),
		stage:  stage{faults: slices.Clone(cfg.Faults)},
	}
	if n.store, err = openStore(cfg.Dir, cfg.Logger); err != nil {
		return nil, err
	}
	if err := n.load(); err != nil {
		return nil, errors.Join(err, n.store.db.Close())
	}
	n.resetQueue()
	if n.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot listen on %q for the development network: %w "+
			"(choose another address, or port 0 for a free one)", cfg.Listen, err), n.store.db.Close())
	}
	n.context, n.end = context.WithCancel(context.Background())
	return n, nil
}

func (n *Network) load() error {
	identity := folderIdentity{
		Format:     storeFormat,
		Passphrase: n.cfg.Passphrase,
		Payer:      n.cfg.Identities.PayerAddress(),
		Issuer:     n.cfg.Identities.IssuerAddress(),
		Friendbot:  n.bot.Address(),
	}
	begun, err := n.store.begun(identity)
	if err != nil {
		return err
	}
	if begun {
		n.tip, n.state, err = n.store.load()
		return err
	}
	state, first, err := genesis(n.cfg)
	if err != nil {
		return err
	}
	n.state = state
	return n.publish(first, &identity)
}

// publish writes a ledger to disk, and then makes it visible to readers.
func (n *Network) publish(l *closedLedger, identity *folderIdentity) error {
	next, err := n.store.write(n.tip, l, n.cfg.RetentionLedgers, identity)
	if err != nil {
		return err
	}
	n.tip = next
	n.state.merge(l.changed)
	close(n.closed)
	n.closed = make(chan struct{})
	return nil
}

// Addr returns the address of the HTTP server.
func (n *Network) Addr() net.Addr { return n.listener.Addr() }

// RPCURL returns the URL of the JSON-RPC methods.
func (n *Network) RPCURL() string { return "http://" + n.listener.Addr().String() }

// FriendbotURL returns the URL for funding accounts: ?addr=G….
func (n *Network) FriendbotURL() string { return n.RPCURL() + "/friendbot" }

// Passphrase returns the network passphrase.
func (n *Network) Passphrase() string { return n.cfg.Passphrase }

// Run serves requests and closes a ledger every CloseInterval until ctx ends, which is not an
// error. It returns an error if a ledger can't be written or the server fails.
func (n *Network) Run(ctx context.Context) error {
	n.mu.Lock()
	if n.ran {
		n.mu.Unlock()
		return errors.New("run the development network: it ran already or is closed; open it again")
	}
	n.ran = true
	n.runs.Add(1)
	n.mu.Unlock()
	defer n.runs.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.context, cancel)()

	server := n.newServer(ctx)
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(ingress.Listen(n.listener, ingress.Config{
			Max:           maxConns,
			MaxPerAddress: maxConns,
			Share:         1.0 / 16,
			Log:           n.cfg.Logger,
		}))
	}()
	err := n.closeLedgers(ctx, served)
	cancel() // ends requests that wait for a ledger
	grace, done := context.WithTimeout(context.Background(), 2*time.Second)
	defer done()
	if server.Shutdown(grace) != nil {
		_ = server.Close() // a client doesn't close its connection
	}
	return err
}

func (n *Network) closeLedgers(ctx context.Context, served <-chan error) error {
	ticker := time.NewTicker(n.cfg.CloseInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return fmt.Errorf("serve the development network: %w", err)
		case <-ticker.C:
			if n.cfg.Hold() != nil {
				continue // Hold has logged the reason
			}
			if _, err := n.CloseNow(); err != nil {
				return err
			}
		}
	}
}

// Close stops Run and waits for it, and then releases the folder and the address.
func (n *Network) Close() error {
	n.end()
	n.mu.Lock()
	n.ran = true
	n.mu.Unlock()
	n.runs.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	if errors.Is(n.broken, errClosed) {
		return nil
	}
	n.broken = errClosed
	_ = n.listener.Close() // already closed if Run has ended
	return n.store.db.Close()
}

// Checkpoint writes a copy of the network's folder, with all closed ledgers, to a new folder.
func (n *Network) Checkpoint(dir string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.broken != nil {
		return n.broken
	}
	return n.store.db.Checkpoint(dir)
}

// CloseNow closes a ledger at once and returns its sequence.
func (n *Network) CloseNow() (sequence uint32, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.broken != nil {
		return 0, n.broken
	}
	began := time.Now()
	l := buildLedger(n.state, n.nextClosing(), n.tip.header, n.queue)
	if err := n.publish(l, nil); err != nil {
		return 0, n.breakDown(err)
	}
	if dropped := len(n.queue) - len(l.transactions); dropped > 0 {
		n.cfg.Logger.Warn("transactions expired before their ledger closed", "ledger", n.tip.latest,
			"count", dropped)
	}
	n.cfg.Logger.Debug("ledger closed", "ledger", n.tip.latest, "transactions", len(l.transactions),
		"took", time.Since(began))
	n.resetQueue()
	return n.tip.latest, nil
}

// Ledger returns the LedgerCloseMeta of a ledger in XDR.
func (n *Network) Ledger(sequence uint32) ([]byte, error) {
	l, err := n.store.ledger(sequence)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(l.LedgerMetadata)
}

func (n *Network) breakDown(err error) error {
	n.broken = fmt.Errorf("the development network stopped: %w", err)
	return n.broken
}

func (n *Network) nextClosing() *closing {
	return newClosing(n.cfg, n.tip.latest+1, n.closeTime())
}

// closeTime returns the close time of the next ledger. Times never decrease. Ledgers less than a
// second apart share a close time, unlike on the real network.
func (n *Network) closeTime() int64 {
	return max(n.cfg.Clock().Unix(), n.tip.latestClose)
}

func (n *Network) resetQueue() {
	n.queue, n.queued, n.ops = nil, map[xdr.Hash]bool{}, 0
	n.pending = newPending(n.tip.latest+1, n.closeTime())
}

type submission struct {
	status string
	result *xdr.TransactionResult // set if status is statusError
	tip    tip
}

// Statuses of stellar-core that sendTransaction returns.
const (
	statusPending       = "PENDING"
	statusDuplicate     = "DUPLICATE"
	statusTryAgainLater = "TRY_AGAIN_LATER"
	statusError         = "ERROR"
)

func (n *Network) submit(tx *transaction) (submission, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.submitLocked(tx)
}

func (n *Network) submitLocked(tx *transaction) (submission, error) {
	answer := submission{status: statusPending, tip: n.tip}
	if n.broken != nil {
		return answer, n.broken
	}
	_, known, err := n.store.get(txKey(tx.hash.HexString()))
	if err != nil {
		return answer, err
	}
	n.pending.closeTime = n.closeTime()
	switch {
	case known || n.queued[tx.hash]:
		answer.status = statusDuplicate
		return answer, nil
	case n.ops+len(tx.tx.Operations) > n.cfg.MaxPendingOperations:
		answer.status = statusTryAgainLater
		return answer, nil
	}
	if answer.result = tx.check(n.state, n.pending); answer.result != nil {
		answer.status = statusError
		return answer, nil
	}
	n.pending.admit(tx)
	n.queue = append(n.queue, tx)
	n.queued[tx.hash] = true
	n.ops += len(tx.tx.Operations)
	return answer, nil
}
