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
	"github.com/stellar/go-stellar-sdk/txnbuild"
)

// The program runs with waits that are short enough for a trial.
const (
	attemptTimeout = 1500 * time.Millisecond
	disableAfter   = 4
	holdLength     = 4 * time.Second
	holdWait       = 3 * time.Second
	// lostByKill is how long before a kill, or before the hold in which the kill came, a
	// lost attempt may have begun: it was in flight, or its outcome was not committed yet.
	lostByKill = attemptTimeout + time.Second
)

var retryWaits = []time.Duration{400 * time.Millisecond, 800 * time.Millisecond,
	1500 * time.Millisecond}

func retrySchedule() string {
	var parts []string
	for _, wait := range retryWaits {
		parts = append(parts, wait.String())
	}
	return strings.Join(parts, ",")
}

// world is one run: the program, what it communicates with, and what is known of it.
type world struct {
	dir       string
	seed      uint64
	service   *service
	network   *service // runs the network that the service follows; nil: the service does
	receivers *receivers
	chain     chain
	model     *model
	accounts  []*account
	payers    []*keypair.Full
	bumper    *keypair.Full
	issuer    *keypair.Full
	demo      Asset
	stop      context.CancelFunc
	until     string // the rule at whose violation the run ends
	brief     bool   // the run ends after the accounts are checked
	late      atomic.Bool

	mu         sync.Mutex
	wallets    map[string]*keypair.Full
	violations []Violation
	transcript *os.File
	began      time.Time
	read       uint32 // the newest ledger that has surely been read
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

// giveUp ends a run in which nothing more can be learned.
func (w *world) giveUp() { w.stop() }

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
		model:     &model{tests: map[string]string{}},
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
	return w.makeWallets(ctx)
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
		keys:      map[string]*apiKey{},
	}, nil
}

// makeWallets funds payers and wallets. A wallet trusts the assets that it may be paid in.
func (w *world) makeWallets(ctx context.Context) error {
	var seeds struct{ IssuerSeed string }
	text, err := os.ReadFile(filepath.Join(cmp.Or(w.network, w.service).dir, "secrets", "devnet.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &seeds); err != nil {
		return err
	}
	demo, err := keypair.ParseFull(seeds.IssuerSeed)
	if err != nil {
		return err
	}
	w.demo = Asset{"DEMO", demo.Address()}
	w.issuer, w.bumper = keypair.MustRandom(), keypair.MustRandom()
	for range payers + 1 { // one for kill-moved
		w.payers = append(w.payers, keypair.MustRandom())
	}
	for _, funded := range append([]*keypair.Full{w.issuer, w.bumper}, w.payers...) {
		if err := w.chain.fund(ctx, funded.Address()); err != nil {
			return err
		}
	}
	return w.trust(ctx)
}

func (w *world) trust(ctx context.Context) error {
	var ops []txnbuild.Operation
	var signers []*keypair.Full
	line := func(of *keypair.Full, asset Asset) {
		ops = append(ops, &txnbuild.ChangeTrust{
			SourceAccount: of.Address(),
			Limit:         txnbuild.MaxTrustlineLimit,
			Line:          txnbuild.ChangeTrustAssetWrapper{Asset: asset.build()},
		})
	}
	for n := range wallets {
		wallet := w.walletOf(fmt.Sprintf("g%d", n))
		ops = append(ops, &txnbuild.CreateAccount{Destination: wallet.Address(), Amount: "100"})
		line(wallet, w.asset("USD"))
		line(wallet, w.asset("DEMO"))
		signers = append(signers, wallet)
	}
	for _, payer := range w.payers {
		line(payer, w.asset("USD"))
		ops = append(ops, &txnbuild.Payment{
			Destination: payer.Address(),
			Amount:      "1000000",
			Asset:       w.asset("USD").build(),
		})
		signers = append(signers, payer)
	}
	e, err := w.chain.signed(ctx, w.issuer, nil, signers, nil, ops)
	if err != nil {
		return err
	}
	mined, err := w.chain.mine(ctx, e)
	if err == nil && mined.Status != "SUCCESS" {
		err = fmt.Errorf("trial: the wallets could not be made: %s", mined.ResultXDR)
	}
	if err != nil {
		return err
	}
	for i, op := range ops {
		if made, ok := op.(*txnbuild.CreateAccount); ok {
			w.model.paid(Payment{
				ID:       paymentID(mined, i),
				TxHash:   e.hash,
				Ledger:   mined.Ledger,
				ClosedAt: mined.LedgerCloseTime,
				From:     w.issuer.Address(),
				To:       made.Destination,
				Asset:    Asset{Code: "XLM"},
				Stroops:  100 * stroopsPerUnit,
			})
		}
	}
	return nil
}

// asset resolves XLM, USD and DEMO.
func (w *world) asset(name string) Asset {
	switch name {
	case "USD":
		return Asset{"USD", w.issuer.Address()}
	case "DEMO":
		return w.demo
	}
	return Asset{Code: "XLM"}
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
	info, err := w.service.await(ctx)
	if err != nil {
		return w.newestRead(0)
	}
	base := info.APIURL
	if info.MetricsURL != "" {
		base = info.MetricsURL
	}
	var a answer
	if w.try(ctx, strings.TrimSuffix(base, "/metrics"), request{method: "GET", path: "/metrics"},
		nil, &a) != nil {
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

func (w *world) newestRead(sequence uint32) uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read = max(w.read, sequence)
	return w.read
}
