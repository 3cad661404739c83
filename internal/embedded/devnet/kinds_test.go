package devnet

import (
	"testing"

	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// The market's rate, and what it refuses.
func TestMarket(t *testing.T) {
	r := start(t, testConfig(t))
	to := r.account("20")
	r.trust(to, "100")
	lumens := txnbuild.NativeAsset{}
	send := func(from *keypair.Full, sell txnbuild.Asset, amount string, buy txnbuild.Asset, least string) string {
		t.Helper()
		done := r.apply(txSpec{from: from, ops: ops(&txnbuild.PathPaymentStrictSend{SendAsset: sell, SendAmount: amount, Destination: to.Address(), DestAsset: buy, DestMin: least})})
		return opCode(t, done.ResultXDR)
	}
	receive := func(sell txnbuild.Asset, most string, buy txnbuild.Asset, amount string) string {
		t.Helper()
		done := r.apply(txSpec{from: r.payer, ops: ops(&txnbuild.PathPaymentStrictReceive{SendAsset: sell, SendMax: most, Destination: to.Address(), DestAsset: buy, DestAmount: amount})})
		return opCode(t, done.ResultXDR)
	}
	other := txnbuild.CreditAsset{Code: "EUR", Issuer: r.issuer.Address()}
	for _, c := range []struct{ name, got, want string }{
		{"10 lumens are 1 USD", send(r.payer, lumens, "10.0000005", r.demo, "1"), "PathPaymentStrictSendSuccess"},
		{"1 USD is 10 lumens", send(r.payer, r.demo, "1", lumens, "10"), "PathPaymentStrictSendSuccess"},
		{"the same asset on both sides", send(r.payer, lumens, "1", lumens, "1"), "PathPaymentStrictSendSuccess"},
		{"less than was asked for", send(r.payer, lumens, "10", r.demo, "1.0000001"), "PathPaymentStrictSendUnderDestmin"},
		{"too little to trade", send(r.payer, lumens, "0.0000009", r.demo, "0.0000001"), "PathPaymentStrictSendUnderDestmin"},
		{"an asset without a market", send(r.payer, lumens, "1", other, "1"), "PathPaymentStrictSendTooFewOffers"},
		{"more lumens than the market has", send(r.payer, r.demo, "9000000", lumens, "1"), "PathPaymentStrictSendTooFewOffers"},
		{"the issuer's own offer", send(r.issuer, lumens, "1", r.demo, "0.1"), "PathPaymentStrictSendOfferCrossSelf"},
		{"a full trustline", send(r.payer, lumens, "1000", r.demo, "100"), "PathPaymentStrictSendLineFull"},
		{"a stroop of lumens costs one of the asset", receive(r.demo, "0.0000001", lumens, "0.0000001"), "PathPaymentStrictReceiveSuccess"},
		{"2 USD cost 20 lumens", receive(lumens, "20", r.demo, "2"), "PathPaymentStrictReceiveSuccess"},
		{"more than was allowed", receive(lumens, "19.9999999", r.demo, "2"), "PathPaymentStrictReceiveOverSendmax"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
	if line := r.trustline(to.Address()); line.Balance != 3*stroopsPerUnit {
		t.Errorf("the wallet holds %d stroops of the asset, want 3 units", line.Balance)
	}
	r.verifyAll()
}

// opCode is the code of the only operation's result.
func opCode(t *testing.T, resultXDR string) string {
	t.Helper()
	var result xdr.TransactionResult
	if err := xdr.SafeUnmarshalBase64(resultXDR, &result); err != nil {
		t.Fatal(err)
	}
	tr := (*result.Result.Results)[0].Tr
	switch {
	case tr.PathPaymentStrictSendResult != nil:
		return tr.PathPaymentStrictSendResult.Code.String()[len("PathPaymentStrictSendResultCode"):]
	case tr.PathPaymentStrictReceiveResult != nil:
		return tr.PathPaymentStrictReceiveResult.Code.String()[len("PathPaymentStrictReceiveResultCode"):]
	case tr.AccountMergeResult != nil:
		return tr.AccountMergeResult.Code.String()[len("AccountMergeResultCode"):]
	case tr.CreateClaimableBalanceResult != nil:
		return tr.CreateClaimableBalanceResult.Code.String()[len("CreateClaimableBalanceResultCode"):]
	case tr.ClaimClaimableBalanceResult != nil:
		return tr.ClaimClaimableBalanceResult.Code.String()[len("ClaimClaimableBalanceResultCode"):]
	}
	return tr.Type.String()
}

// What is left of an account's transactions in the ledger that merges it away pays its fee and fails.
func TestMerge(t *testing.T) {
	r := start(t, testConfig(t))
	gone := r.account("5")
	before := r.lumens(r.payer.Address())
	merge := r.accept(txSpec{from: gone, ops: ops(&txnbuild.AccountMerge{Destination: r.payer.Address()})})
	late := r.accept(txSpec{from: gone, after: 1, ops: ops(lumensOp(r.payer.Address(), "1"))})
	r.closeLedger()
	if done := r.transaction(merge); done.Status != "SUCCESS" {
		t.Fatal(done.Status, resultText(t, done.ResultXDR))
	}
	if done := r.transaction(late); done.Status != "FAILED" || resultText(t, done.ResultXDR) != "TransactionResultCodeTxNoAccount" {
		t.Fatal(done.Status, resultText(t, done.ResultXDR))
	}
	if got := r.lumens(gone.Address()); got != -1 {
		t.Errorf("the account is still there with %d stroops", got)
	}
	if got := r.lumens(r.payer.Address()); got != before+5*stroopsPerUnit-2*BaseFeeStroops {
		t.Errorf("the merge brought %d stroops", got-before)
	}
	trusting := r.account("5")
	r.trust(trusting, "1")
	if code := opCode(t, r.apply(txSpec{from: trusting, ops: ops(&txnbuild.AccountMerge{Destination: r.payer.Address()})}).ResultXDR); code != "AccountMergeHasSubEntries" {
		t.Error(code)
	}
	if code := opCode(t, r.apply(txSpec{from: r.payer, ops: ops(&txnbuild.AccountMerge{Destination: gone.Address()})}).ResultXDR); code != "AccountMergeNoAccount" {
		t.Error(code)
	}
	r.verifyAll()
}

func TestClaimableBalances(t *testing.T) {
	r := start(t, testConfig(t))
	claimant := r.account("5")
	env := r.build(txSpec{from: r.payer, ops: ops(&txnbuild.CreateClaimableBalance{Amount: "2", Asset: r.demo, Destinations: []txnbuild.Claimant{txnbuild.NewClaimant(claimant.Address(), nil)}})})
	parsed, err := txnbuild.TransactionFromXDR(mustBase64(t, env))
	if err != nil {
		t.Fatal(err)
	}
	tx, _ := parsed.Transaction()
	id, err := tx.ClaimableBalanceID(0)
	if err != nil {
		t.Fatal(err)
	}
	sent := r.send(env)
	r.closeLedger()
	if done := r.transaction(sent.Hash); done.Status != "SUCCESS" {
		t.Fatal(done.Status, resultText(t, done.ResultXDR))
	}
	claim := ops(&txnbuild.ClaimClaimableBalance{BalanceID: id})
	for _, c := range []struct {
		name, want string
		from       *keypair.Full
		before     func()
	}{
		{"not for the issuer", "ClaimClaimableBalanceCannotClaim", r.issuer, func() {}},
		{"without trust", "ClaimClaimableBalanceNoTrust", claimant, func() {}},
		{"with it", "ClaimClaimableBalanceSuccess", claimant, func() { r.trust(claimant, "10") }},
		{"only once", "ClaimClaimableBalanceDoesNotExist", claimant, func() {}},
	} {
		c.before()
		if got := opCode(t, r.apply(txSpec{from: c.from, ops: claim}).ResultXDR); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	r.verifyAll()
}

func mustBase64(t *testing.T, env xdr.TransactionEnvelope) string {
	t.Helper()
	text, err := xdr.MarshalBase64(env)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
