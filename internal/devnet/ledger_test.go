package devnet

import (
	"strings"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"
	"pgregory.net/rapid"
)

// TestGenesisAndChain checks the accounts of the first ledger, and a chain of ledgers with and
// without transactions.
func TestGenesisAndChain(t *testing.T) {
	r := start(t, testConfig(t))
	if got := r.lumens(r.payer.Address()); got != 1_000_000_000*stroopsPerUnit {
		t.Fatal("payer's lumens", got)
	}
	if line := r.trustline(r.payer.Address()); line == nil ||
		line.Balance != 10_000_000_000*stroopsPerUnit {
		t.Fatalf("payer's trustline %+v", line)
	}
	if r.Passphrase() != DefaultPassphrase || r.lumens(keypair.Root(r.Passphrase()).Address()) <= 0 {
		t.Fatal("the root account is not that of the passphrase")
	}
	for range 9 { // more than a page, including empty ledgers
		r.closeLedger()
	}
	r.account("10")
	if n := len(r.ledgers()); n != 11 {
		t.Fatal("ledgers", n)
	}
	r.verifyAll()
}

func TestMemosAndMuxedAccounts(t *testing.T) {
	r := start(t, testConfig(t))
	to := r.account("10")
	muxed := func(address string, id uint64) string {
		account, err := xdr.MuxedAccountFromAccountId(address, id)
		if err != nil {
			t.Fatal(err)
		}
		return account.Address()
	}
	memos := []txnbuild.Memo{
		nil, txnbuild.MemoText("invoice 7"), txnbuild.MemoText("\xff\xfe"),
		txnbuild.MemoID(1<<64 - 1), txnbuild.MemoHash{1, 2}, txnbuild.MemoReturn{3},
	}
	for i, memo := range memos {
		env := r.build(txSpec{
			from:       r.payer,
			sourceAddr: muxed(r.payer.Address(), 5),
			memo:       memo,
			ops:        ops(lumensOp(muxed(to.Address(), uint64(i)<<60), "1")),
		})
		answer := r.send(env)
		r.closeLedger()
		done := r.transaction(answer.Hash)
		if done.Status != "SUCCESS" || done.ApplicationOrder != 1 || done.FeeBump {
			t.Fatalf("memo %v: %+v", memo, done)
		}
		var back xdr.TransactionEnvelope
		if err := xdr.SafeUnmarshalBase64(done.EnvelopeXDR, &back); err != nil || !sameXDR(t, env, back) {
			t.Fatal("the envelope changed:", err)
		}
	}
	if got := r.lumens(to.Address()); got != 16*stroopsPerUnit {
		t.Fatal("a muxed address is not its account's:", got)
	}
	r.verifyAll()
}

func feeBump(
	t *testing.T, r *rig, inner xdr.TransactionEnvelope, payer *keypair.Full, baseFee int64,
) xdr.TransactionEnvelope {
	t.Helper()
	text, err := xdr.MarshalBase64(inner)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := txnbuild.TransactionFromXDR(text)
	if err != nil {
		t.Fatal(err)
	}
	tx, ok := parsed.Transaction()
	if !ok {
		t.Fatal("not a transaction")
	}
	bump, err := txnbuild.NewFeeBumpTransaction(txnbuild.FeeBumpTransactionParams{
		Inner:      tx,
		FeeAccount: payer.Address(),
		BaseFee:    baseFee,
	})
	if err != nil {
		t.Fatal(err)
	}
	if bump, err = bump.Sign(r.Passphrase(), payer); err != nil {
		t.Fatal(err)
	}
	return bump.ToXDR()
}

// A fee bump must pay for an account that cannot pay, and be refused for its own faults and for
// those of the inner transaction.
func TestFeeBump(t *testing.T) {
	r := start(t, testConfig(t))
	poor := r.account("1")
	poorCan := ops(lumensOp(poor.Address(), "1")) // to itself, which works with any balance
	before := r.lumens(r.payer.Address())
	answer := r.send(feeBump(t, r, r.build(txSpec{from: poor, ops: poorCan}), r.payer, 100))
	r.closeLedger()
	done := r.transaction(answer.Hash)
	if done.Status != "SUCCESS" || !done.FeeBump ||
		!strings.HasPrefix(resultText(t, done.ResultXDR), "TransactionResultCodeTxFeeBumpInnerSuccess") {
		t.Fatalf("%s %+v", answer.Status, done)
	}
	if r.lumens(r.payer.Address()) != before-200 || r.lumens(poor.Address()) != stroopsPerUnit {
		t.Fatal("the fee was not the payer's")
	}
	failing := r.send(feeBump(t, r,
		r.build(txSpec{from: poor, ops: ops(lumensOp(r.payer.Address(), "1"))}), r.payer, 100))
	r.closeLedger()
	if done := r.transaction(failing.Hash); done.Status != "FAILED" ||
		!strings.HasSuffix(resultText(t, done.ResultXDR), "PaymentUnderfunded") {
		t.Fatalf("%+v", done)
	}
	refused := func(want string, env xdr.TransactionEnvelope) {
		t.Helper()
		answer := r.send(env)
		if answer.Status != "ERROR" || !strings.HasSuffix(resultText(t, answer.ErrorResultXDR), want) {
			t.Fatalf("got %s %s, want %s", answer.Status, resultText(t, answer.ErrorResultXDR), want)
		}
	}
	good := r.build(txSpec{from: poor, ops: poorCan})
	refused("TxFeeBumpInnerFailed TransactionResultCodeTxBadSeq",
		feeBump(t, r, r.build(txSpec{from: poor, ops: poorCan, seqNum: 7}), r.payer, 100))
	refused("TxInsufficientBalance", feeBump(t, r, good, poor, 100))
	refused("TxNoAccount", feeBump(t, r, good, keypair.MustRandom(), 100))
	cheap := feeBump(t, r, good, r.payer, 100)
	cheap.FeeBump.Tx.Fee = 199
	refused("TxInsufficientFee", cheap)
	unsigned := feeBump(t, r, good, r.payer, 100)
	unsigned.FeeBump.Signatures = nil
	refused("TxBadAuth", unsigned)
	double := feeBump(t, r, good, r.payer, 100)
	double.FeeBump.Signatures = append(double.FeeBump.Signatures, double.FeeBump.Signatures[0])
	refused("TxBadAuthExtra", double)
	r.verifyAll()
}

// Sequence numbers must take the queue into account. A transaction that expires in the queue takes
// the later ones with it.
func TestQueue(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	cfg := testConfig(t)
	cfg.Clock = func() time.Time { return now }
	cfg.MaxPendingOperations = 5
	r := start(t, cfg)
	to := r.account("10")
	pay := ops(lumensOp(to.Address(), "1"))
	first := r.build(txSpec{from: r.payer, ops: pay})
	if a, b := r.send(first), r.send(first); a.Status != "PENDING" || b.Status != "DUPLICATE" ||
		a.Hash != b.Hash {
		t.Fatal(a, b)
	}
	short := &txnbuild.Preconditions{TimeBounds: txnbuild.NewTimebounds(0, now.Unix()+5)}
	expires := r.accept(txSpec{from: r.payer, ops: pay, after: 1, cond: short})
	behind := r.accept(txSpec{from: r.payer, ops: pay, after: 2})
	if answer := r.send(r.build(txSpec{
		from:  r.payer,
		ops:   append(append(pay, pay...), pay...),
		after: 3,
	})); answer.Status != "TRY_AGAIN_LATER" {
		t.Fatal("the queue has room for 5 operations:", answer.Status)
	}
	now = now.Add(6 * time.Second)
	r.closeLedger()
	if r.send(first).Status != "DUPLICATE" {
		t.Fatal("a transaction in a ledger is a duplicate too")
	}
	if a, b := r.transaction(expires).Status, r.transaction(behind).Status; a != "NOT_FOUND" ||
		b != "NOT_FOUND" {
		t.Fatal(a, b)
	}
	now = now.Add(-time.Hour) // setting the clock back must not affect ledgers
	if done := r.apply(txSpec{from: r.payer, ops: pay}); done.Status != "SUCCESS" ||
		done.LedgerCloseTime != 1_800_000_006 {
		t.Fatal(done.Status, done.LedgerCloseTime)
	}
	if got := r.lumens(to.Address()); got != 12*stroopsPerUnit {
		t.Fatal("lumens", got)
	}
	r.verifyAll()
}

// The fees of pending transactions must count, so that an account cannot spend the same lumens
// twice.
func TestQueuedFeesCount(t *testing.T) {
	r := start(t, testConfig(t))
	tight := r.account("1.000015") // its reserve plus 150 stroops
	pay := ops(lumensOp(tight.Address(), "1"))
	r.accept(txSpec{from: tight, ops: pay})
	answer := r.send(r.build(txSpec{from: tight, ops: pay, after: 1}))
	if answer.Status != "ERROR" ||
		resultText(t, answer.ErrorResultXDR) != "TransactionResultCodeTxInsufficientBalance" {
		t.Fatal(answer.Status)
	}
	r.closeLedger()
	r.verifyAll()
}

// Whatever is sent, lumens must be conserved, the chain must be valid, and its replay must lead to
// the state (D2, D3, D5).
func TestConservation(t *testing.T) {
	r := start(t, testConfig(t))
	people := []*keypair.Full{r.payer, r.issuer, r.account("20"), r.account("3"), r.account("50")}
	rapid.Check(t, func(t *rapid.T) {
		waiting := map[string]int64{}
		for range rapid.IntRange(1, 6).Draw(t, "transactions") {
			from := rapid.SampledFrom(people).Draw(t, "from")
			spec := txSpec{from: from, after: waiting[from.Address()]}
			signers := map[*keypair.Full]bool{from: true}
			for range rapid.IntRange(1, 3).Draw(t, "operations") {
				op, as := drawOperation(t, r, people)
				signers[as] = true
				spec.ops = append(spec.ops, op)
			}
			for signer := range signers {
				spec.signers = append(spec.signers, signer)
			}
			switch answer := r.send(r.build(spec)); answer.Status {
			case "PENDING":
				waiting[from.Address()]++
			case "ERROR": // from an account at its reserve, or one that would trust itself
			default:
				t.Fatal(answer.Status)
			}
		}
		r.closeLedger()
	})
	r.verifyAll()
	// A short run tries a fifth of what rapid usually draws.
	if n := r.claims(); n < 3 && !testing.Short() { // drawn at random; 9 in one run
		t.Errorf("only %d trades were made: too few to check", n)
	}
}

func (r *rig) claims() (n int) {
	for _, meta := range r.ledgers() {
		for _, tx := range meta.V2.TxProcessing {
			if results, _ := tx.Result.Result.OperationResults(); tx.Result.Result.Successful() {
				for _, result := range results {
					n += len(claimed(result))
				}
			}
		}
	}
	return n
}

func drawOperation(t *rapid.T, r *rig, people []*keypair.Full) (txnbuild.Operation, *keypair.Full) {
	as := rapid.SampledFrom(people).Draw(t, "as")
	to := rapid.SampledFrom(people).Draw(t, "to").Address()
	amount := rapid.SampledFrom([]string{"0.0000001", "0.5", "3", "19.9999", "900000000"}).Draw(t,
		"amount")
	switch rapid.SampledFrom([]string{
		"lumens", "asset", "trust", "remove", "create", "send", "receive",
	}).Draw(t, "operation") {
	case "lumens":
		return &txnbuild.Payment{
			SourceAccount: as.Address(),
			Destination:   to,
			Amount:        amount,
			Asset:         txnbuild.NativeAsset{},
		}, as
	case "asset":
		return &txnbuild.Payment{
			SourceAccount: as.Address(),
			Destination:   to,
			Amount:        amount,
			Asset:         r.demo,
		}, as
	case "trust":
		op := trustOp(r.demo, amount)
		op.SourceAccount = as.Address()
		return op, as
	case "remove":
		op := trustOp(r.demo, "0")
		op.SourceAccount = as.Address()
		return op, as
	case "send", "receive":
		return drawTrade(t, r, as.Address(), to, amount), as
	default:
		seed := [32]byte{rapid.Byte().Draw(t, "new account")}
		made, err := keypair.FromRawSeed(seed)
		if err != nil {
			t.Fatal(err)
		}
		return &txnbuild.CreateAccount{
			SourceAccount: as.Address(),
			Destination:   made.Address(),
			Amount:        amount,
		}, as
	}
}

func drawTrade(t *rapid.T, r *rig, as, to, amount string) txnbuild.Operation {
	var sold, bought txnbuild.Asset = txnbuild.NativeAsset{}, r.demo
	if rapid.Bool().Draw(t, "other direction") {
		sold, bought = bought, sold
	}
	if rapid.Bool().Draw(t, "strict send") {
		return &txnbuild.PathPaymentStrictSend{
			SourceAccount: as,
			SendAsset:     sold,
			SendAmount:    amount,
			Destination:   to,
			DestAsset:     bought,
			DestMin:       "0.0000001",
		}
	}
	return &txnbuild.PathPaymentStrictReceive{
		SourceAccount: as,
		SendAsset:     sold,
		SendMax:       "900000000000",
		Destination:   to,
		DestAsset:     bought,
		DestAmount:    amount,
	}
}

func BenchmarkClose(b *testing.B) {
	r := start(b, testConfig(b))
	to := keypair.MustRandom()
	hash := r.accept(txSpec{
		from: r.payer,
		ops:  ops(&txnbuild.CreateAccount{Destination: to.Address(), Amount: "10"}),
	})
	r.closeLedger()
	if r.transaction(hash).Status != "SUCCESS" {
		b.Fatal("no account")
	}
	for b.Loop() {
		b.StopTimer()
		next := r.sequence(r.payer.Address()) + 1
		for i := range int64(1000) {
			tx, err := signedTransaction(r.Passphrase(), r.payer, next+i,
				ops(lumensOp(to.Address(), "0.0000001")))
			if err != nil {
				b.Fatal(err)
			}
			if answer, err := r.submit(tx); err != nil || answer.status != statusPending {
				b.Fatal(answer.status, err)
			}
		}
		b.StartTimer()
		r.closeLedger()
	}
}
