package trial

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stellar/go-stellar-sdk/keypair"

	"github.com/lumenhook/lumenhook/internal/lab/draw"
)

// The program runs with waits that are short enough for a trial.
const (
	attemptTimeout = 1500 * time.Millisecond
	retrySchedule  = "400ms,800ms,1500ms"
	disableAfter   = 4
	holdLength     = 4 * time.Second
	holdWait       = 3 * time.Second
	// lostByKill is how long before a kill, or before the hold in which the kill came, a
	// lost attempt may have begun: it was in flight, or its outcome was not committed yet.
	lostByKill = attemptTimeout + time.Second
)

// world is one run: the program, what it communicates with, and what is known of it.
type world struct {
	dir       string
	seed      uint64
	service   *service
	network   *service // runs the network that the service follows; nil: the service does
	sources   []string // flags that name the sources of ledgers, if a network runs
	receivers *receivers
	chain     chain
	model     *model
	accounts  []*account
	hostile   hostile
	payers    []*keypair.Full
	stop      context.CancelFunc
	until     string // the rule at whose violation the run ends
	brief     bool   // the run ends after the accounts are checked
	late      atomic.Bool

	mu         sync.Mutex
	wallets    map[string]*keypair.Full
	violations []Violation
	transcript *os.File
	began      time.Time
	read       uint32        // the newest ledger that has surely been read
	base       atomic.Uint32 // what the program adds to the numbers of the chain's ledgers
}

// Violation is a violated rule.
type Violation struct {
	Rule string // short and stable: a shrunk script must violate the same one
	Text string
	Late bool // it came only after an operation that must not change anything
}

func (v Violation) String() string { return v.Rule + ": " + v.Text }

// maxViolations bounds the reported violations of one run.
const maxViolations = 40

func (w *world) violate(rule, format string, args ...any) {
	v := Violation{rule, fmt.Sprintf(format, args...), w.late.Load()}
	w.log("VIOLATION %s", v)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.violations) < maxViolations || rule == w.until {
		w.violations = append(w.violations, v)
	}
	if rule == w.until {
		w.stop()
	}
}

func (w *world) log(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = fmt.Fprintf(w.transcript, "%8.3f %s\n", time.Since(w.began).Seconds(),
		fmt.Sprintf(format, args...))
}

func newWorld(bin, dir string, seed uint64) (*world, error) {
	w := &world{
		dir:       dir,
		seed:      seed,
		receivers: newReceivers(),
		began:     time.Now(),
		wallets:   map[string]*keypair.Full{},
		model:     &model{},
	}
	w.chain = chain{w}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if w.transcript, err = os.Create(filepath.Join(dir, "transcript.txt")); err != nil {
		return nil, err
	}
	interval := []string{"--ledger-interval", "150ms"}
	if seed%4 != 1 {
		w.service, err = newService(w, bin, "data", append(interval, "--stellar-faults", lies(seed))...)
		return w, err
	}
	w.network, err = newService(w, bin, "network", interval...)
	if err == nil {
		w.service, err = newService(w, bin, "data")
	}
	return w, err
}

func (w *world) close() {
	w.service.close()
	w.receivers.close()
	if w.network != nil {
		w.network.close()
	}
	_ = w.transcript.Close()
}

// setUp starts the program and creates accounts, wallets and payers.
func (w *world) setUp(ctx context.Context) error {
	if err := errors.Join(w.follow(ctx), w.service.start(ctx)); err != nil {
		return err
	}
	if err := w.listen(ctx); err != nil {
		return err
	}
	for n := range accounts {
		a, err := w.openAccount(ctx, n)
		if err != nil {
			return err
		}
		w.accounts = append(w.accounts, a)
	}
	return errors.Join(w.makeWallets(ctx), w.openHostile(ctx))
}

func (w *world) listen(ctx context.Context) error {
	dir := filepath.Join(w.dir, "cert")
	network := cmp.Or(w.network, w.service)
	if _, err := network.command(ctx, "devnet", "cert", "--out", dir); err != nil {
		return err
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		return err
	}
	return w.receivers.start(cert)
}

// openAccount creates an account by the command line: the API cannot.
func (w *world) openAccount(ctx context.Context, n int) (*account, error) {
	out, err := w.service.command(ctx, "accounts", "create", "--json", "--email",
		fmt.Sprintf("a%d@example.com", n))
	if err != nil {
		return nil, err
	}
	var made struct{ AccountID, Key string }
	if err := json.Unmarshal(out, &made); err != nil {
		return nil, fmt.Errorf("%s: %w", out, err)
	}
	return &account{
		id:        made.AccountID,
		key:       made.Key,
		endpoints: map[string]*endpoint{},
		watches:   map[string]*watch{},
	}, nil
}

// makeWallets funds payers, of whom one creates the wallets.
func (w *world) makeWallets(ctx context.Context) error {
	for range payers {
		payer := keypair.MustRandom()
		w.payers = append(w.payers, payer)
		if err := w.chain.fund(ctx, payer.Address()); err != nil {
			return err
		}
	}
	for n := range wallets {
		err := w.pay(ctx, Op{Wallet: fmt.Sprintf("g%d", n),
			Pay: &Pay{Amount: 100 * draw.StroopsPerUnit, Creates: true}})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) walletOf(slot string) *keypair.Full {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wallets[slot] == nil {
		w.wallets[slot] = keypair.MustRandom()
	}
	return w.wallets[slot]
}

// slotOf returns the slot of a wallet's address.
func (w *world) slotOf(address string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for slot, pair := range w.wallets {
		if pair.Address() == address {
			return slot
		}
	}
	return ""
}

// readLedger returns the newest ledger that has surely been read: it never decreases.
func (w *world) readLedger(ctx context.Context) uint32 {
	a, err := w.operatorsGet(ctx, "/metrics")
	if err != nil {
		return w.newestRead(0)
	}
	for line := range strings.Lines(string(a.body)) {
		if value, ok := strings.CutPrefix(line, "lumenhook_ledger_sequence "); ok {
			sequence, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err == nil {
				return w.newestRead(uint32(sequence))
			}
		}
	}
	return w.newestRead(0)
}

// operatorsGet gets a page of the listener for operators.
func (w *world) operatorsGet(ctx context.Context, path string) (a answer, err error) {
	info, err := w.service.await(ctx)
	if err != nil {
		return a, err
	}
	base := strings.TrimSuffix(cmp.Or(info.MetricsURL, info.APIURL), "/metrics")
	err = w.try(ctx, base, request{method: "GET", path: path}, nil, &a)
	return a, err
}

func (w *world) newestRead(sequence uint32) uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read = max(w.read, sequence)
	return w.read
}
