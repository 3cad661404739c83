package devnet

import (
	"strings"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"
)

func lumensOp(to, amount string) *txnbuild.Payment {
	return &txnbuild.Payment{Destination: to, Amount: amount, Asset: txnbuild.NativeAsset{}}
}

func ops(list ...txnbuild.Operation) []txnbuild.Operation { return list }

// TestRefusals checks what keeps a transaction out of the queue, each with the network's code.
func TestRefusals(t *testing.T) {
	r := start(t, testConfig(t))
	stranger := keypair.MustRandom()
	poor := r.account("1") // exactly its reserve, so it cannot pay a fee
	pay := ops(lumensOp(r.issuer.Address(), "1"))
	now := time.Now().Unix()
	from := func(s txSpec) txSpec {
		if s.from == nil {
			s.from = r.payer
		}
		if s.ops == nil {
			s.ops = pay
		}
		return s
	}
	cases := []struct {
		name string
		spec txSpec
		want string
	}{
		{
			"no operation",
			txSpec{from: r.payer, edit: func(e *xdr.TransactionEnvelope) { e.V1.Tx.Operations = nil }},
			"TxMissingOperation",
		},
		{
			"too early",
			from(txSpec{cond: &txnbuild.Preconditions{TimeBounds: txnbuild.NewTimebounds(now+3600, 0)}}),
			"TxTooEarly",
		},
		{
			"too late",
			from(txSpec{cond: &txnbuild.Preconditions{TimeBounds: txnbuild.NewTimebounds(0, now-10)}}),
			"TxTooLate",
		},
		{
			"ledger too early",
			from(txSpec{cond: &txnbuild.Preconditions{
				TimeBounds:   txnbuild.NewInfiniteTimeout(),
				LedgerBounds: &txnbuild.LedgerBounds{MinLedger: 99},
			}}),
			"TxTooEarly",
		},
		{
			"ledger too late",
			from(txSpec{cond: &txnbuild.Preconditions{
				TimeBounds:   txnbuild.NewInfiniteTimeout(),
				LedgerBounds: &txnbuild.LedgerBounds{MaxLedger: 3},
			}}),
			"TxTooLate",
		},
		{
			"sequence age",
			from(txSpec{cond: &txnbuild.Preconditions{
				TimeBounds:           txnbuild.NewInfiniteTimeout(),
				MinSequenceNumberAge: 5,
			}}),
			"TxNotSupported",
		},
		{
			"fee", from(txSpec{edit: func(e *xdr.TransactionEnvelope) { e.V1.Tx.Fee = 99 }}),
			"TxInsufficientFee",
		},
		{
			"fee of two operations",
			from(txSpec{
				ops:  append(pay, pay...),
				edit: func(e *xdr.TransactionEnvelope) { e.V1.Tx.Fee = 199 },
			}),
			"TxInsufficientFee",
		},
		{"no account", from(txSpec{from: stranger, seqNum: 1}), "TxNoAccount"},
		{"sequence too low", from(txSpec{seqNum: 1}), "TxBadSeq"},
		{"sequence too high", from(txSpec{after: 1}), "TxBadSeq"},
		{"no signature", from(txSpec{signers: []*keypair.Full{}}), "TxBadAuth"},
		{"somebody else's signature", from(txSpec{signers: []*keypair.Full{stranger}}), "TxBadAuth"},
		{
			"another network's signature",
			from(txSpec{passphrase: network.TestNetworkPassphrase}), "TxBadAuth",
		},
		{
			"one signature too many",
			from(txSpec{signers: []*keypair.Full{r.payer, stranger}}), "TxBadAuthExtra",
		},
		{"a signature twice", from(txSpec{signers: []*keypair.Full{r.payer, r.payer}}), "TxBadAuthExtra"},
		{"fee below the reserve", from(txSpec{from: poor}), "TxInsufficientBalance"},
		{
			"operation source did not sign",
			from(txSpec{ops: ops(&txnbuild.Payment{
				SourceAccount: r.issuer.Address(),
				Destination:   r.payer.Address(),
				Amount:        "1",
				Asset:         r.demo,
			})}),
			"TxFailed OperationResultCodeOpBadAuth",
		},
		{
			"operation source is unknown",
			from(txSpec{ops: ops(&txnbuild.Payment{
				SourceAccount: stranger.Address(),
				Destination:   r.payer.Address(),
				Amount:        "1",
				Asset:         r.demo,
			})}),
			"TxFailed OperationResultCodeOpNoAccount",
		},
		{
			"unsupported operation",
			from(txSpec{ops: append(pay, &txnbuild.BumpSequence{BumpTo: 99})}),
			"TxFailed PaymentResultCodePaymentSuccess OperationResultCodeOpNotSupported",
		},
		{
			"pool share",
			from(txSpec{ops: ops(&txnbuild.ChangeTrust{Line: poolShare(r), Limit: "1"})}),
			"TxFailed OperationResultCodeOpNotSupported",
		},
		{
			"payment of nothing",
			from(txSpec{edit: func(e *xdr.TransactionEnvelope) {
				e.V1.Tx.Operations[0].Body.PaymentOp.Amount = 0
			}}),
			"PaymentMalformed",
		},
		{
			"payment of a bad asset",
			from(txSpec{edit: func(e *xdr.TransactionEnvelope) {
				e.V1.Tx.Operations[0].Body.PaymentOp.Asset = badAsset(r)
			}}),
			"PaymentMalformed",
		},
		{
			"negative account",
			from(txSpec{
				ops: ops(&txnbuild.CreateAccount{Destination: stranger.Address(), Amount: "1"}),
				edit: func(e *xdr.TransactionEnvelope) {
					e.V1.Tx.Operations[0].Body.CreateAccountOp.StartingBalance = -1
				},
			}),
			"CreateAccountMalformed",
		},
		{
			"account of itself",
			from(txSpec{ops: ops(&txnbuild.CreateAccount{Destination: r.payer.Address(), Amount: "1"})}),
			"CreateAccountMalformed",
		},
		{
			"trust in oneself", from(txSpec{from: r.issuer, ops: ops(trustOp(r.demo, "1"))}),
			"ChangeTrustMalformed",
		},
		{
			"trust in lumens",
			from(txSpec{ops: ops(trustOp(r.demo, "1")), edit: func(e *xdr.TransactionEnvelope) {
				e.V1.Tx.Operations[0].Body.ChangeTrustOp.Line = xdr.ChangeTrustAsset{
					Type: xdr.AssetTypeAssetTypeNative,
				}
			}}),
			"ChangeTrustMalformed",
		},
		{
			"negative limit",
			from(txSpec{
				ops:  ops(trustOp(r.demo, "1")),
				edit: func(e *xdr.TransactionEnvelope) { e.V1.Tx.Operations[0].Body.ChangeTrustOp.Limit = -1 },
			}),
			"ChangeTrustMalformed",
		},
	}
	before := r.lumens(r.payer.Address())
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			answer := r.send(r.build(c.spec))
			if answer.Status != "ERROR" {
				t.Fatal("status", answer.Status)
			}
			if got := resultText(t, answer.ErrorResultXDR); !strings.HasSuffix(got, c.want) {
				t.Fatalf("got %s, want %s", got, c.want)
			}
		})
	}
	r.closeLedger()
	if after := r.lumens(r.payer.Address()); after != before {
		t.Fatalf("refused transactions cost %d stroops", before-after)
	}
}

func poolShare(r *rig) txnbuild.ChangeTrustAsset {
	return txnbuild.LiquidityPoolShareChangeTrustAsset{
		LiquidityPoolParameters: txnbuild.LiquidityPoolParameters{
			AssetA: txnbuild.NativeAsset{},
			AssetB: r.demo,
			Fee:    txnbuild.LiquidityPoolFeeV18,
		},
	}
}

func badAsset(r *rig) xdr.Asset {
	return xdr.Asset{Type: xdr.AssetTypeAssetTypeCreditAlphanum4, AlphaNum4: &xdr.AlphaNum4{
		AssetCode: xdr.AssetCode4{'U', 0, 'D', 0},
		Issuer:    xdr.MustAddress(r.issuer.Address()),
	}}
}

// If a transaction fails in a ledger, its fee is kept and its sequence number used, and nothing
// else changes (D4).
func TestFailures(t *testing.T) {
	r := start(t, testConfig(t))
	rich, poor, full := r.account("100"), r.account("1.00003"), r.account("100")
	r.trust(full, "10")
	stranger := keypair.MustRandom().Address()
	unknownIssuer := txnbuild.CreditAsset{Code: "EUR", Issuer: stranger}
	demoOp := func(to, amount string) *txnbuild.Payment {
		return &txnbuild.Payment{Destination: to, Amount: amount, Asset: r.demo}
	}
	cases := []struct {
		name string
		from *keypair.Full
		op   txnbuild.Operation
		want string
	}{
		{
			"account exists", rich,
			&txnbuild.CreateAccount{Destination: poor.Address(), Amount: "5"},
			"CreateAccountAlreadyExist",
		},
		{
			"account below the reserve", rich,
			&txnbuild.CreateAccount{Destination: stranger, Amount: "0.9999999"},
			"CreateAccountLowReserve",
		},
		{
			"account too dear", rich,
			&txnbuild.CreateAccount{Destination: stranger, Amount: "99.5"},
			"CreateAccountUnderfunded",
		},
		{"payment to nobody", rich, lumensOp(stranger, "1"), "PaymentNoDestination"},
		{"asset to nobody", r.payer, demoOp(stranger, "1"), "PaymentNoDestination"},
		{"payment into the reserve", rich, lumensOp(poor.Address(), "99"), "PaymentUnderfunded"},
		{"asset to one without trust", r.payer, demoOp(rich.Address(), "1"), "PaymentNoTrust"},
		{"asset from one without trust", rich, demoOp(full.Address(), "1"), "PaymentSrcNoTrust"},
		{"more asset than held", full, demoOp(r.payer.Address(), "1"), "PaymentUnderfunded"},
		{"burning more than held", full, demoOp(r.issuer.Address(), "1"), "PaymentUnderfunded"},
		{"past the limit", r.payer, demoOp(full.Address(), "10.0000001"), "PaymentLineFull"},
		{"trust in nobody", rich, trustOp(unknownIssuer, "1"), "ChangeTrustNoIssuer"},
		{"removing what is not there", rich, trustOp(r.demo, "0"), "ChangeTrustInvalidLimit"},
		{"trust without reserve", poor, trustOp(r.demo, "1"), "ChangeTrustLowReserve"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			lumens, seqNum := r.lumens(c.from.Address()), r.sequence(c.from.Address())
			done := r.apply(txSpec{from: c.from, ops: ops(c.op)})
			if got := resultText(t, done.ResultXDR); done.Status != "FAILED" ||
				!strings.HasSuffix(got, c.want) {
				t.Fatalf("got %s %s, want %s", done.Status, got, c.want)
			}
			if r.lumens(c.from.Address()) != lumens-100 || r.sequence(c.from.Address()) != seqNum+1 {
				t.Fatal("a failed transaction must cost its fee and its sequence number, and no more")
			}
			var meta xdr.TransactionMeta
			if err := xdr.SafeUnmarshalBase64(done.ResultMetaXDR, &meta); err != nil {
				t.Fatal(err)
			}
			if v4 := meta.MustV4(); len(v4.Operations) != 0 || len(v4.TxChangesBefore) != 2 {
				t.Fatal("a failed transaction must change nothing but its sequence number:", v4)
			}
		})
	}
	r.verifyAll()
}

// TestTrustlineLife takes a trustline from its creation to its removal, with limits below the
// balance.
func TestTrustlineLife(t *testing.T) {
	r := start(t, testConfig(t))
	holder := r.account("100")
	step := func(from *keypair.Full, op txnbuild.Operation, status, want string) {
		t.Helper()
		done := r.apply(txSpec{from: from, ops: ops(op)})
		if got := resultText(t, done.ResultXDR); done.Status != status || !strings.HasSuffix(got, want) {
			t.Fatalf("got %s %s, want %s %s", done.Status, got, status, want)
		}
	}
	demoOp := func(to, amount string) *txnbuild.Payment {
		return &txnbuild.Payment{Destination: to, Amount: amount, Asset: r.demo}
	}
	step(holder, trustOp(r.demo, "50"), "SUCCESS", "ChangeTrustSuccess")
	step(r.issuer, demoOp(holder.Address(), "40"), "SUCCESS", "PaymentSuccess") // minted
	step(holder, trustOp(r.demo, "39.9999999"), "FAILED", "ChangeTrustInvalidLimit")
	step(holder, trustOp(r.demo, "0"), "FAILED", "ChangeTrustInvalidLimit")
	step(holder, trustOp(r.demo, "60"), "SUCCESS", "ChangeTrustSuccess")
	step(holder, demoOp(holder.Address(), "20"), "SUCCESS", "PaymentSuccess")
	step(holder, demoOp(holder.Address(), "20.0000001"), "FAILED", "PaymentLineFull")
	step(r.payer, demoOp(holder.Address(), "20"), "SUCCESS", "PaymentSuccess")
	if line := r.trustline(holder.Address()); line.Balance != 60*stroopsPerUnit ||
		line.Limit != 60*stroopsPerUnit {
		t.Fatalf("trustline %+v", line)
	}
	step(holder, demoOp(r.issuer.Address(), "60"), "SUCCESS", "PaymentSuccess") // burned
	step(holder, trustOp(r.demo, "0"), "SUCCESS", "ChangeTrustSuccess")
	if line := r.trustline(holder.Address()); line != nil {
		t.Fatalf("the trustline is still there: %+v", line)
	}
	id := xdr.MustAddress(holder.Address())
	key, _ := id.LedgerKey()
	if n := r.entry(key).Account.NumSubEntries; n != 0 {
		t.Fatal("subentries", n)
	}
	step(holder, lumensOp(holder.Address(), "999999"), "SUCCESS", "PaymentSuccess")
	r.verifyAll()
}

// Either all operations of a transaction take effect, or none.
func TestAllOrNothing(t *testing.T) {
	r := start(t, testConfig(t))
	a, b := keypair.MustRandom(), keypair.MustRandom()
	done := r.apply(txSpec{from: r.payer, ops: ops(
		&txnbuild.CreateAccount{Destination: a.Address(), Amount: "10"},
		lumensOp(a.Address(), "5"),
		lumensOp(b.Address(), "5"),
		lumensOp(a.Address(), "5"),
	)})
	want := "TransactionResultCodeTxFailed CreateAccountResultCodeCreateAccountSuccess PaymentResultCodePaymentSuccess PaymentResultCodePaymentNoDestination PaymentResultCodePaymentSuccess"
	if got := resultText(t, done.ResultXDR); done.Status != "FAILED" || got != want {
		t.Fatal(done.Status, got)
	}
	if r.lumens(a.Address()) != -1 {
		t.Fatal("an operation of a failed transaction took effect")
	}
	// An account that the transaction creates may act in it if its key signed.
	done = r.apply(txSpec{from: r.payer, signers: []*keypair.Full{r.payer, a}, ops: ops(
		&txnbuild.CreateAccount{Destination: a.Address(), Amount: "10"},
		&txnbuild.Payment{
			SourceAccount: a.Address(),
			Destination:   r.payer.Address(),
			Amount:        "4",
			Asset:         txnbuild.NativeAsset{},
		},
	)})
	if done.Status != "SUCCESS" || r.lumens(a.Address()) != 6*stroopsPerUnit {
		t.Fatal(done.Status, r.lumens(a.Address()))
	}
	r.verifyAll()
}
