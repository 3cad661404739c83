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

// The program runs with delays that are short enough for a trial.
const (
	attemptTimeout = 1500 * time.Millisecond
	retrySchedule  = "400ms,800ms,1500ms"
	disableAfter   = 4
	holdLength     = 4 * time.Second
	holdWait       = 3 * time.Second
	// lostByKill is how long before a kill, or before the hold during which it happened, a lost
	// attempt may have started: it was in flight, or its outcome had not been committed.
	lostByKill = attemptTimeout + time.Second
)

// world is a run: the program, its environment, and what is known about it.
type world struct {
	dir       string
	seed      uint64
	service   *service
	network   *service // runs the network that the service follows; nil if the service does
	sources   []string // flags for the sources of ledgers, if a network runs
	receivers *receivers
	chain     chain
	model     *model
	accounts  []*account
	hostile   hostile
	payers    []*keypair.Full
	stop      context.CancelFunc
	until     string // the run stops when this rule is violated
	brief     bool   // the run ends after the accounts are checked
	late      atomic.Bool

	mu         sync.Mutex
	wallets    map[string]*keypair.Full
	violations []Violation
	transcript *os.File
	began      time.Time
	read       uint32        // newest ledger that has certainly been read
	base       atomic.Uint32 // offset that the program adds to the chain's ledger numbers
}

// Violation is a violated rule.
type Violation struct {
	Rule string // short and stable: a shrunk script must violate the same rule
	Text string
	Late bool // only after an operation that must not change anything
}

func (v Violation) String() string { return v.Rule + ": " + v.Text }

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

// openAccount creates an account on the command line, because the API can't.
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

// readLedger returns the newest ledger that has certainly been read. It never decreases.
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
