package devnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// Network is a running development network.
//
// Lifecycle: Open has the folder and the address bound when it returns, so Addr and the URLs
// are known; Run, called at most once, answers requests and closes ledgers until its context
// ends; Close ends a Run that still goes on, waits for it, and gives folder and address back.
// CloseNow works from Open to Close, with or without Run.
type Network struct {
	cfg      Config
	store    *store
	listener net.Listener
	bot      *keypair.Full
	pages    chan struct{} // slots for answers that hold ledgers
	stage    stage         // of ordered faults
	exporter *exporter     // nil: there is no lake

	// mu is held by whoever admits a transaction or makes a ledger: while a ledger is made its
	// transactions count neither as waiting nor as done.
	mu      sync.Mutex
	queue   []*transaction
	queued  map[xdr.Hash]bool
	pending *pending
	ops     int   // operations in the queue
	broken  error // a ledger could not be written; nothing goes on after that

	// published is what answers are made from. It moves after the ledger is on disk, while view
	// holds out readers, so that no answer mixes two ledgers.
	view      sync.RWMutex
	published tip
	closed    chan struct{} // closed and renewed with every ledger
	gone      bool          // no new readers: the store is about to close
	readers   sync.WaitGroup

	life     sync.Mutex
	state    lifeState
	stopRun  context.CancelFunc
	runEnded chan struct{}
}

type lifeState int

const (
	lifeOpen lifeState = iota
	lifeRunning
	lifeStopped
	lifeClosed
)

var errClosed = errors.New("the development network is closed")

// Open opens or creates the network in its folder and binds its address.
func Open(cfg Config) (*Network, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("devnet configuration: %w", err)
	}
	bot, err := keypair.ParseFull(cfg.Identities.FriendbotSeed)
	if err != nil {
		return nil, fmt.Errorf("devnet configuration: identity friendbotSeed: %w", err)
	}
	st, err := openStore(cfg.Dir, cfg.Sync, cfg.Logger)
	if err != nil {
		return nil, err
	}
	n := &Network{
		cfg:      cfg,
		store:    st,
		bot:      bot,
		closed:   make(chan struct{}),
		runEnded: make(chan struct{}),
		pages:    make(chan struct{}, maxPages),
		stage:    stage{faults: slices.Clone(cfg.Faults)},
	}
	if n.published, err = n.load(); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	n.resetQueue()
	if n.exporter, err = openExporter(cfg); err == nil {
		err = n.export()
	}
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	if n.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for the development network: %w (choose another "+
			"address, or port 0 for a free one)", err), st.Close())
	}
	return n, nil
}

// load reads where the network stopped, or begins it.
func (n *Network) load() (tip, error) {
	identity := folderIdentity{
		Format:     storeFormat,
		Passphrase: n.cfg.Passphrase,
		Payer:      n.cfg.Identities.PayerAddress(),
		Issuer:     n.cfg.Identities.IssuerAddress(),
		Friendbot:  n.cfg.Identities.FriendbotAddress(),
	}
	format, err := n.store.checkIdentity(identity)
	if err != nil {
		return tip{}, err
	}
	if format != 0 {
		last, err := n.store.readTip()
		if err != nil || format != formatWithoutMarket {
			return last, err
		}
		return n.openMarket(last, &identity)
	}
	first, err := genesis(n.cfg)
	if err != nil {
		return tip{}, err
	}
	return n.store.write(tip{}, first, n.cfg.RetentionLedgers, &identity)
}

// openMarket closes the ledger that puts the market into a folder of before there were offers.
func (n *Network) openMarket(last tip, identity *folderIdentity) (t tip, err error) {
	defer catchReadFault(&err)
	state := diskState{n.store.db}
	bot := account(state, xdr.MustAddress(n.bot.Address()))
	if bot == nil {
		return tip{}, errors.New("friendbot is missing from the ledger: use another devnet folder")
	}
	issuer, err := keypair.ParseFull(n.cfg.Identities.IssuerSeed)
	if err != nil {
		return tip{}, fmt.Errorf("identity issuerSeed: %w", err)
	}
	funds := &txnbuild.Payment{
		Destination: issuer.Address(),
		Amount:      issuerLumens,
		Asset:       txnbuild.NativeAsset{},
	}
	tx, err := signedTransaction(n.cfg.Passphrase, n.bot, int64(bot.SeqNum)+1,
		append([]txnbuild.Operation{funds}, marketOperations(issuer.Address())...), issuer)
	if err != nil {
		return tip{}, fmt.Errorf("open the market of the demo asset: %w", err)
	}
	closeTime := max(n.cfg.Clock().Unix(), last.latestClose)
	l, err := buildLedger(state, n.cfg.rules(), last.header, []*transaction{tx}, closeTime)
	if err != nil {
		return tip{}, err
	}
	if len(l.transactions) != 1 || !l.transactions[0].success {
		n.cfg.Logger.Warn("this ledger was begun without a market of the demo asset, and none could be " +
			"opened: " +
			"path payments will find no offers, unless somebody makes some")
	}
	return n.store.write(last, l, n.cfg.RetentionLedgers, identity)
}

// Addr is the address the network answers at.
func (n *Network) Addr() net.Addr { return n.listener.Addr() }

// RPCURL is where the JSON-RPC methods are.
func (n *Network) RPCURL() string { return "http://" + n.listener.Addr().String() }

// FriendbotURL is where accounts are funded: ?addr=G….
func (n *Network) FriendbotURL() string { return n.RPCURL() + "/friendbot" }

// Passphrase is the network's name, which signatures cover.
func (n *Network) Passphrase() string { return n.cfg.Passphrase }

// Run answers requests and closes a ledger every CloseInterval until the context ends, which is
// no error. It returns an error when a ledger cannot be written or the server fails.
func (n *Network) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.life.Lock()
	if n.state != lifeOpen {
		n.life.Unlock()
		return errors.New("run the development network: it ran already or is closed; open it anew")
	}
	n.state, n.stopRun = lifeRunning, cancel
	n.life.Unlock()
	defer func() {
		n.life.Lock()
		n.state = lifeStopped
		n.life.Unlock()
		close(n.runEnded)
	}()

	server := n.newServer(ctx)
	served := make(chan error, 1)
	go func() { served <- server.Serve(n.listener) }()
	err := n.closeLedgers(ctx, served)
	cancel() // releases requests that wait for a ledger
	grace, done := context.WithTimeout(context.Background(), 2*time.Second)
	defer done()
	if server.Shutdown(grace) != nil {
		_ = server.Close() // a client that will not let go
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
				continue // who holds us has said why
			}
			if _, err := n.CloseNow(); err != nil {
				return err
			}
		}
	}
}

// Close stops a Run in progress and waits for it, then flushes and gives back folder and
// address. Calling it again does nothing.
func (n *Network) Close() error {
	n.life.Lock()
	running := n.state == lifeRunning
	if running {
		n.stopRun()
	}
	n.life.Unlock()
	if running {
		<-n.runEnded
	}
	n.life.Lock()
	defer n.life.Unlock()
	if n.state == lifeClosed {
		return nil
	}
	n.state = lifeClosed
	n.mu.Lock()
	defer n.mu.Unlock()
	n.broken = errClosed
	n.view.Lock()
	n.gone = true
	n.view.Unlock()
	n.readers.Wait()
	_ = n.listener.Close() // closed already when Run ended
	return n.store.Close()
}

// CloseNow closes a ledger at once and returns its sequence.
func (n *Network) CloseNow() (sequence uint32, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.broken != nil {
		return 0, n.broken
	}
	defer catchReadFault(&err)
	began := time.Now()
	prev := n.published // only this function moves it, under mu
	l, err := buildLedger(diskState{n.store.db}, n.cfg.rules(), prev.header, n.queue, n.closeTime())
	if err != nil {
		return 0, n.breakDown(err)
	}
	if err := n.publish(prev, l); err != nil {
		return 0, n.breakDown(err)
	}
	if err := n.export(); err != nil {
		return 0, n.breakDown(err)
	}
	if dropped := len(n.queue) - len(l.transactions); dropped > 0 {
		n.cfg.Logger.Warn("transactions expired before their ledger closed", "ledger", l.sequence,
			"count",
			dropped)
	}
	n.cfg.Logger.Debug("ledger closed", "ledger", l.sequence, "transactions", len(l.transactions),
		"took", time.Since(began))
	n.resetQueue()
	return l.sequence, nil
}

// publish writes the ledger and only then lets answers know of it.
func (n *Network) publish(prev tip, l *closedLedger) error {
	n.view.Lock()
	defer n.view.Unlock()
	next, err := n.store.write(prev, l, n.cfg.RetentionLedgers, nil)
	if err != nil {
		return err
	}
	n.published = next
	close(n.closed)
	n.closed = make(chan struct{})
	return nil
}

func (n *Network) breakDown(err error) error {
	n.broken = fmt.Errorf("the development network stopped: %w", err)
	return n.broken
}

// closeTime is that of the next ledger. Times never run backwards; with ledgers less than a
// second apart several share one, unlike on the network, rather than run ahead of the clock.
func (n *Network) closeTime() int64 {
	return max(n.cfg.Clock().Unix(), n.published.latestClose)
}

func (n *Network) resetQueue() {
	n.queue, n.queued, n.ops = nil, map[xdr.Hash]bool{}, 0
	n.pending = newPending(n.published.latest+1, n.closeTime())
}

// submission is the answer to a submitted transaction.
type submission struct {
	status string
	result *xdr.TransactionResult // with statusError
	tip    tip
}

// The answers of stellar-core, as sendTransaction passes them on.
const (
	statusPending       = "PENDING"
	statusDuplicate     = "DUPLICATE"
	statusTryAgainLater = "TRY_AGAIN_LATER"
	statusError         = "ERROR"
)

// submit puts a transaction into the queue of the next ledger, or says why not.
func (n *Network) submit(tx *transaction) (submission, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.submitLocked(tx)
}

func (n *Network) submitLocked(tx *transaction) (answer submission, err error) {
	if n.broken != nil {
		return submission{}, n.broken
	}
	defer catchReadFault(&err)
	answer.tip = n.published
	known, err := readTx(n.store.db, tx.hash)
	if err != nil {
		return submission{}, err
	}
	n.pending.closeTime = n.closeTime()
	switch {
	case known != nil || n.queued[tx.hash]:
		answer.status = statusDuplicate
	case n.ops+len(tx.tx.Operations) > n.cfg.MaxPendingOperations:
		answer.status = statusTryAgainLater
	default:
		answer.status = statusPending
		if answer.result = tx.check(diskState{n.store.db}, n.pending); answer.result != nil {
			answer.status = statusError
			break
		}
		n.pending.admit(tx)
		n.queue = append(n.queue, tx)
		n.queued[tx.hash] = true
		n.ops += len(tx.tx.Operations)
	}
	return answer, nil
}

// nextSeqNum is the sequence number an account's next transaction needs, the queue counted. The
// caller holds mu.
func (n *Network) nextSeqNum(id xdr.AccountId) (int64, error) {
	if last, ok := n.pending.seqNums[accountKey(id)]; ok {
		return last + 1, nil
	}
	row, err := readEntry(n.store.db, accountKey(id))
	if err != nil {
		return 0, err
	}
	if row == nil {
		return 0, fmt.Errorf("account %s is missing from the ledger", id.Address())
	}
	return int64(row.Data.Account.SeqNum) + 1, nil
}

// read calls f with the published ledger and a reader that stands still at it.
func (n *Network) read(f func(t tip, r pebble.Reader) error) error {
	n.view.RLock()
	if n.gone {
		n.view.RUnlock()
		return errClosed
	}
	t, snapshot := n.published, n.store.db.NewSnapshot()
	n.readers.Add(1)
	n.view.RUnlock()
	defer n.readers.Done()
	defer snapshot.Close()
	return f(t, snapshot)
}
