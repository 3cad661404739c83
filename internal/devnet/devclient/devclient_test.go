package devclient_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
	"github.com/stellar/go-stellar-sdk/clients/rpcclient"
	"github.com/stellar/go-stellar-sdk/keypair"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/toid"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// rig is a running network that closes ledgers as fast as possible, and a client for it.
type rig struct {
	*devclient.Client
	t   *testing.T
	net *devnet.Network
	id  devnet.Identities
	rpc *rpcclient.Client
	ctx context.Context
}

func start(t *testing.T) *rig {
	t.Helper()
	id, err := devnet.NewIdentities()
	if err != nil {
		t.Fatal(err)
	}
	n, err := devnet.Open(devnet.Config{
		Dir:           t.TempDir(),
		Identities:    id,
		Listen:        "127.0.0.1:0",
		CloseInterval: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.Background()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	r := &rig{t: t, net: n, id: id, rpc: rpcclient.NewClient(n.RPCURL(), nil), ctx: ctx}
	r.Client = r.client()
	t.Cleanup(func() {
		cancel()
		r.rpc.Close()
		if err := errors.Join(n.Close(), <-ended); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) client() *devclient.Client {
	r.t.Helper()
	c, err := devclient.New(r.net.RPCURL(), r.net.FriendbotURL())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// onLedger reads a payment from its ledger by its id.
func (r *rig) onLedger(p devclient.Payment) (xdr.TransactionEnvelope, xdr.PaymentOp) {
	r.t.Helper()
	n, err := strconv.ParseInt(p.ID, 10, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	id := toid.Parse(n)
	done, err := r.rpc.GetTransaction(r.ctx, protocol.GetTransactionRequest{Hash: p.TxHash})
	if err != nil || done.Status != "SUCCESS" || done.Ledger != p.Ledger {
		r.t.Fatal(done.Status, done.Ledger, err)
	}
	if uint32(id.LedgerSequence) != p.Ledger || id.TransactionOrder != done.ApplicationOrder ||
		id.OperationOrder != 1 {
		r.t.Fatalf("id %+v of %+v", id, p)
	}
	var env xdr.TransactionEnvelope
	if err := xdr.SafeUnmarshalBase64(done.EnvelopeXDR, &env); err != nil {
		r.t.Fatal(err)
	}
	return env, env.Operations()[0].Body.MustPaymentOp()
}

func TestPay(t *testing.T) {
	r := start(t)
	to, _, err := r.CreateAccount(r.ctx, r.id.DemoAsset())
	if err != nil {
		t.Fatal(err)
	}
	muxedID := uint64(1<<63 + 5)
	muxed, err := xdr.MuxedAccountFromAccountId(to, muxedID)
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name  string
		req   devclient.PayRequest
		dest  string
		asset string
		memo  xdr.MemoType
	}{
		{"lumens", devclient.PayRequest{To: to}, to, "native", xdr.MemoTypeMemoNone},
		{
			"lumens by name",
			devclient.PayRequest{To: to, Asset: "XLM", Memo: txnbuild.MemoText("hi")}, to,
			"native", xdr.MemoTypeMemoText,
		},
		{
			"asset",
			devclient.PayRequest{To: to, Asset: r.id.DemoAsset(), Memo: txnbuild.MemoID(7)},
			to, r.id.DemoAsset(), xdr.MemoTypeMemoId,
		},
		{
			"muxed by id",
			devclient.PayRequest{To: to, MuxedID: &muxedID, Memo: txnbuild.MemoHash{1}},
			muxed.Address(), "native", xdr.MemoTypeMemoHash,
		},
		{
			"muxed address",
			devclient.PayRequest{To: muxed.Address(), Memo: txnbuild.MemoReturn{1}},
			muxed.Address(), "native", xdr.MemoTypeMemoReturn,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.req.From, c.req.Amount = r.id.PayerSeed, "12.5"
			paid, err := r.Pay(r.ctx, c.req)
			if err != nil {
				t.Fatal(err)
			}
			env, op := r.onLedger(paid)
			if op.Destination.Address() != c.dest || op.Amount != 125_000_000 ||
				op.Asset.StringCanonical() != c.asset || env.Memo().Type != c.memo {
				t.Fatalf("%+v %+v", op, env.Memo())
			}
		})
	}
}

// All faults of a request must be reported at once, before anything is sent, and without secrets.
func TestPayRequestFaults(t *testing.T) {
	c, err := devclient.New("http://127.0.0.1:1", "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pair, id := keypair.MustRandom(), uint64(1)
	muxed, _ := xdr.MuxedAccountFromAccountId(pair.Address(), 1)
	good := devclient.PayRequest{From: pair.Seed(), To: pair.Address(), Amount: "1"}
	cases := map[string]func(*devclient.PayRequest){
		"the payer's key is not": func(r *devclient.PayRequest) { r.From = pair.Address() },
		"--to \"x\": must be":    func(r *devclient.PayRequest) { r.To = "x" },
		"--to: is a secret key":  func(r *devclient.PayRequest) { r.To = pair.Seed() },
		"--to is a muxed address": func(r *devclient.PayRequest) {
			r.To, r.MuxedID = muxed.Address(), &id
		},
		"--amount \"0\"":              func(r *devclient.PayRequest) { r.Amount = "0" },
		"--amount \"-1\"":             func(r *devclient.PayRequest) { r.Amount = "-1" },
		"--amount \"1.00000001\"":     func(r *devclient.PayRequest) { r.Amount = "1.00000001" },
		"--amount \"\"":               func(r *devclient.PayRequest) { r.Amount = "" },
		"--asset \"USD\"":             func(r *devclient.PayRequest) { r.Asset = "USD" },
		"--asset \"U-D":               func(r *devclient.PayRequest) { r.Asset = "U-D:" + pair.Address() },
		"--asset: names a secret key": func(r *devclient.PayRequest) { r.Asset = "USD:" + pair.Seed() },
		"is it running?":              func(*devclient.PayRequest) {}, // no fault, but no network runs
	}
	for want, edit := range cases {
		req := good
		edit(&req)
		_, err := c.Pay(context.Background(), req)
		if err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), pair.Seed()) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	_, err = c.Pay(context.Background(), devclient.PayRequest{})
	for _, field := range []string{"payer", "--to", "--amount"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not told: %v", field, err)
		}
	}
	for _, url := range []string{"", "127.0.0.1:8000"} {
		if _, err := devclient.New(url, ""); err == nil || !strings.Contains(err.Error(), "RPC URL") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// Failures that the network reports must be explained in words.
func TestPayFailures(t *testing.T) {
	r := start(t)
	to, seed, err := r.CreateAccount(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	stranger := keypair.MustRandom()
	cases := []struct {
		want string
		req  devclient.PayRequest
	}{
		{
			"PAYMENT_NO_TRUST: the destination has no trustline",
			devclient.PayRequest{From: r.id.PayerSeed, To: to, Amount: "1", Asset: r.id.DemoAsset()},
		},
		{
			"PAYMENT_NO_DESTINATION",
			devclient.PayRequest{From: r.id.PayerSeed, To: stranger.Address(), Amount: "1"},
		},
		{
			"PAYMENT_UNDERFUNDED",
			devclient.PayRequest{From: seed, To: r.id.PayerAddress(), Amount: "10000"},
		},
		{
			"PAYMENT_SRC_NO_TRUST",
			devclient.PayRequest{From: seed, To: r.id.PayerAddress(), Amount: "1", Asset: r.id.DemoAsset()},
		},
		{"fund it by friendbot first", devclient.PayRequest{From: stranger.Seed(), To: to, Amount: "1"}},
	}
	for _, c := range cases {
		if _, err := r.Pay(r.ctx, c.req); err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), c.req.From) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
	if err := r.Fund(r.ctx, to); err == nil || !strings.Contains(err.Error(), "already funded") {
		t.Error(err)
	}
	// Spend lumens down to the reserve. The next fee cannot be paid, so the transaction is rejected
	// instead of failing.
	if _, err := r.Pay(r.ctx,
		devclient.PayRequest{From: seed, To: r.id.PayerAddress(), Amount: "9998.99997"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Pay(r.ctx, devclient.PayRequest{From: seed, To: to, Amount: "1"}); err == nil ||
		!strings.Contains(err.Error(), "txINSUFFICIENT_BALANCE") {
		t.Error(err)
	}
}

func TestTrustlines(t *testing.T) {
	r := start(t)
	other := "LONGCODE:" + r.id.IssuerAddress()
	address, _, err := r.CreateAccount(r.ctx, r.id.DemoAsset(), other)
	if err != nil {
		t.Fatal(err)
	}
	for _, asset := range []string{r.id.DemoAsset(), other} {
		pay := devclient.PayRequest{From: r.id.IssuerSeed, To: address, Amount: "3", Asset: asset}
		if _, err := r.Pay(r.ctx, pay); err != nil {
			t.Fatal(asset, err)
		}
	}
	account, err := r.rpc.LoadAccount(r.ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := account.GetSequenceNumber(); n&0xffffffff != 1 {
		t.Fatal("one transaction should have done, not", n&0xffffffff)
	}
	if _, _, err := r.CreateAccount(r.ctx, "XLM"); err == nil ||
		!strings.Contains(err.Error(), "needs no trustline") {
		t.Fatal(err)
	}
	_, _, err = r.CreateAccount(r.ctx, "EUR:"+keypair.MustRandom().Address())
	if err == nil || !strings.Contains(err.Error(), "CHANGE_TRUST_NO_ISSUER") {
		t.Fatal(err)
	}
}

// Several clients, like several processes, pay from one account at the same time, partly with
// identical requests. Each call must get its own payment.
func TestConcurrentSenders(t *testing.T) {
	r := start(t)
	to, _, err := r.CreateAccount(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	const clients, callers, each = 4, 5, 5
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range clients {
		c := r.client()
		for range callers {
			wg.Go(func() {
				for range each {
					paid, err := c.Pay(r.ctx, devclient.PayRequest{From: r.id.PayerSeed, To: to, Amount: "1"})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if seen[paid.TxHash] || seen[paid.ID] {
						t.Error("two calls were given one payment")
					}
					seen[paid.TxHash], seen[paid.ID] = true, true
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	id := xdr.MustAddress(to)
	key, _ := id.LedgerKey()
	text, _ := xdr.MarshalBase64(key)
	answer, err := r.rpc.GetLedgerEntries(r.ctx,
		protocol.GetLedgerEntriesRequest{Keys: []string{text}})
	if err != nil || len(answer.Entries) != 1 {
		t.Fatal(err)
	}
	var data xdr.LedgerEntryData
	if err := xdr.SafeUnmarshalBase64(answer.Entries[0].DataXDR, &data); err != nil {
		t.Fatal(err)
	}
	if want := xdr.Int64(10_000+clients*callers*each) * 10_000_000; data.Account.Balance != want {
		t.Fatalf("balance %d, want %d", data.Account.Balance, want)
	}
}

func TestContextEnds(t *testing.T) {
	r := start(t)
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	if _, err := r.Pay(ctx,
		devclient.PayRequest{From: r.id.PayerSeed, To: r.id.IssuerAddress(), Amount: "1"}); err == nil {
		t.Fatal("paid under a context that had ended")
	}
}

// The payer must be able to pay with an asset that was just created, to a wallet that trusts it.
func TestIssueAsset(t *testing.T) {
	r := start(t)
	issued, err := r.IssueAsset(r.ctx, r.id.PayerSeed, "USDC", "1000")
	if err != nil {
		t.Fatal(err)
	}
	wallet, _, err := r.CreateAccount(r.ctx, issued.Asset)
	if err != nil {
		t.Fatal(err)
	}
	pay := devclient.PayRequest{From: r.id.PayerSeed, To: wallet, Amount: "12.5", Asset: issued.Asset}
	if _, err := r.Pay(r.ctx, pay); err != nil {
		t.Error(err)
	}
	pay.Amount = "1000"
	if _, err := r.Pay(r.ctx, pay); err == nil ||
		!strings.Contains(err.Error(), "PAYMENT_UNDERFUNDED") {
		t.Errorf("more than was issued: %v", err)
	}
	if _, err := r.IssueAsset(r.ctx, r.id.PayerSeed, "NO-CODE", "0"); err == nil ||
		!strings.Contains(err.Error(), "NO-CODE") ||
		!strings.Contains(err.Error(), "amount") {
		t.Errorf("two faults: %v", err)
	}
}
