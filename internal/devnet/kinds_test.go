package devnet

import (
	"strings"
	"testing"

	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"
)

func TestMarket(t *testing.T) {
	r := start(t, testConfig(t))
	to := r.account("20")
	r.trust(to, "100")
	lumens := txnbuild.NativeAsset{}
	send := func(
		from *keypair.Full, sell txnbuild.Asset, amount string, buy txnbuild.Asset, least string,
	) string {
		t.Helper()
		done := r.apply(txSpec{
			from: from,
			ops: ops(&txnbuild.PathPaymentStrictSend{
				SendAsset:   sell,
				SendAmount:  amount,
				Destination: to.Address(),
				DestAsset:   buy,
				DestMin:     least,
			}),
		})
		return opCode(t, done.ResultXDR)
	}
	receive := func(sell txnbuild.Asset, most string, buy txnbuild.Asset, amount string) string {
		t.Helper()
		done := r.apply(txSpec{
			from: r.payer,
			ops: ops(&txnbuild.PathPaymentStrictReceive{
				SendAsset:   sell,
				SendMax:     most,
				Destination: to.Address(),
				DestAsset:   buy,
				DestAmount:  amount,
			}),
		})
		return opCode(t, done.ResultXDR)
	}
	other := txnbuild.CreditAsset{Code: "EUR", Issuer: r.issuer.Address()}
	for _, c := range []struct{ name, got, want string }{
		{
			"10 lumens are 1 USD", send(r.payer, lumens, "10.0000005", r.demo, "1"),
			"PathPaymentStrictSendSuccess",
		},
		{"1 USD is 10 lumens", send(r.payer, r.demo, "1", lumens, "10"), "PathPaymentStrictSendSuccess"},
		{
			"the same asset on both sides", send(r.payer, lumens, "1", lumens, "1"),
			"PathPaymentStrictSendSuccess",
		},
		{
			"less than was asked for", send(r.payer, lumens, "10", r.demo, "1.0000001"),
			"PathPaymentStrictSendUnderDestmin",
		},
		{
			"too little to trade", send(r.payer, lumens, "0.0000009", r.demo, "0.0000001"),
			"PathPaymentStrictSendUnderDestmin",
		},
		{
			"an asset without a market", send(r.payer, lumens, "1", other, "1"),
			"PathPaymentStrictSendTooFewOffers",
		},
		{
			"more lumens than the market has", send(r.payer, r.demo, "200000000", lumens, "1"),
			"PathPaymentStrictSendTooFewOffers",
		},
		{
			"the issuer's own offer", send(r.issuer, lumens, "1", r.demo, "0.1"),
			"PathPaymentStrictSendOfferCrossSelf",
		},
		{
			"a full trustline", send(r.payer, lumens, "1000", r.demo, "100"),
			"PathPaymentStrictSendLineFull",
		},
		{
			"a stroop of lumens costs one of the asset",
			receive(r.demo, "0.0000001", lumens, "0.0000001"),
			"PathPaymentStrictReceiveSuccess",
		},
		{"2 USD cost 20 lumens", receive(lumens, "20", r.demo, "2"), "PathPaymentStrictReceiveSuccess"},
		{
			"more than was allowed", receive(lumens, "19.9999999", r.demo, "2"),
			"PathPaymentStrictReceiveOverSendmax",
		},
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

// A path that leads to another asset and back must trade at each hop, in either direction.
func TestTwoHops(t *testing.T) {
	r := start(t, testConfig(t))
	to, lumens := r.account("20"), txnbuild.NativeAsset{}
	path := []txnbuild.Asset{r.demo}
	before := r.lumens(r.issuer.Address())
	sent := opResult(t, r.apply(txSpec{from: r.payer, ops: ops(&txnbuild.PathPaymentStrictSend{
		SendAsset: lumens, SendAmount: "1.0000009", Destination: to.Address(), DestAsset: lumens,
		DestMin: "1", Path: path,
	})}).ResultXDR).PathPaymentStrictSendResult.MustSuccess()
	received := opResult(t, r.apply(txSpec{from: r.payer, ops: ops(&txnbuild.PathPaymentStrictReceive{
		SendAsset: lumens, SendMax: "3", Destination: to.Address(), DestAsset: lumens,
		DestAmount: "2.0000001", Path: path,
	})}).ResultXDR).PathPaymentStrictReceiveResult.MustSuccess()
	for i, offers := range [][]xdr.ClaimAtom{sent.Offers, received.Offers} {
		if len(offers) != 2 || offers[0].OfferId() != sellsDemoOffer ||
			offers[1].OfferId() != buysDemoOffer || offers[0].AmountSold() != offers[1].AmountBought() {
			t.Errorf("payment %d took %+v", i+1, offers)
		}
	}
	if got := r.lumens(to.Address()); got != 23*stroopsPerUnit+1 {
		t.Errorf("the wallet holds %d stroops", got)
	}
	// The remaining 9 stroops of each payment don't buy a stroop of the asset.
	if got := r.lumens(r.issuer.Address()) - before; got != 9+9 {
		t.Errorf("rounding brought the market %d stroops", got)
	}
	r.verifyAll()
}

// opResult returns the result of a transaction's only operation.
func opResult(t *testing.T, resultXDR string) *xdr.OperationResultTr {
	t.Helper()
	var result xdr.TransactionResult
	if err := xdr.SafeUnmarshalBase64(resultXDR, &result); err != nil {
		t.Fatal(err)
	}
	return (*result.Result.Results)[0].Tr
}

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

// If a ledger merges an account away, the account's remaining transactions in it must pay their
// fees and fail.
func TestMerge(t *testing.T) {
	r := start(t, testConfig(t))
	gone := r.account("5")
	before := r.lumens(r.payer.Address())
	merge := r.accept(txSpec{
		from: gone,
		ops:  ops(&txnbuild.AccountMerge{Destination: r.payer.Address()}),
	})
	late := r.accept(txSpec{from: gone, after: 1, ops: ops(lumensOp(r.payer.Address(), "1"))})
	r.closeLedger()
	if done := r.transaction(merge); done.Status != "SUCCESS" {
		t.Fatal(done.Status, resultText(t, done.ResultXDR))
	}
	if done := r.transaction(late); done.Status != "FAILED" ||
		resultText(t, done.ResultXDR) != "TransactionResultCodeTxNoAccount" {
		t.Fatal(done.Status, resultText(t, done.ResultXDR))
	}
	if got := r.lumens(gone.Address()); got != -1 {
		t.Errorf("the account is still there with %d stroops", got)
	}
	if got := r.lumens(r.payer.Address()); got != before+5*stroopsPerUnit-2*BaseFeeStroops {
		t.Errorf("the merge brought %d stroops", got-before)
	}
	wantMerge := func(from, to *keypair.Full, want string) {
		t.Helper()
		merge := ops(&txnbuild.AccountMerge{Destination: to.Address()})
		if code := opCode(t, r.apply(txSpec{from: from, ops: merge}).ResultXDR); code != want {
			t.Errorf("%s, want %s", code, want)
		}
	}
	trusting := r.account("5")
	r.trust(trusting, "1")
	wantMerge(trusting, r.payer, "AccountMergeHasSubEntries")
	wantMerge(r.payer, gone, "AccountMergeNoAccount")
	r.verifyAll()
}

func TestClaimableBalances(t *testing.T) {
	r := start(t, testConfig(t))
	claimant := r.account("5")
	env := r.build(txSpec{
		from: r.payer,
		ops: ops(&txnbuild.CreateClaimableBalance{
			Amount:       "2",
			Asset:        r.demo,
			Destinations: []txnbuild.Claimant{txnbuild.NewClaimant(claimant.Address(), nil)},
		}),
	})
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
	later := txnbuild.BeforeRelativeTimePredicate(3600)
	answer := r.send(r.build(txSpec{from: r.payer, ops: ops(&txnbuild.CreateClaimableBalance{
		Amount:       "2",
		Asset:        r.demo,
		Destinations: []txnbuild.Claimant{txnbuild.NewClaimant(claimant.Address(), &later)},
	})}))
	if !strings.HasSuffix(resultText(t, answer.ErrorResultXDR), "OpNotSupported") {
		t.Errorf("a claimant with a condition: %+v", answer)
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

// transferOp calls the contract of an asset.
func transferOp(
	r *rig, asset txnbuild.Asset, from, to *keypair.Full, muxedID, stroops uint64,
) *txnbuild.InvokeHostFunction {
	r.t.Helper()
	known, err := asset.ToXDR()
	if err != nil {
		r.t.Fatal(err)
	}
	id, err := known.ContractID(r.Passphrase())
	if err != nil {
		r.t.Fatal(err)
	}
	contract := xdr.ContractId(id)
	receiver := addressValue(xdr.MustAddress(to.Address()))
	if muxedID != 0 {
		key := *xdr.MustAddress(to.Address()).Ed25519
		receiver.Address = &xdr.ScAddress{
			Type:         xdr.ScAddressTypeScAddressTypeMuxedAccount,
			MuxedAccount: &xdr.MuxedEd25519Account{Id: xdr.Uint64(muxedID), Ed25519: key},
		}
	}
	return &txnbuild.InvokeHostFunction{
		HostFunction: xdr.HostFunction{
			Type: xdr.HostFunctionTypeHostFunctionTypeInvokeContract,
			InvokeContract: &xdr.InvokeContractArgs{
				ContractAddress: xdr.ScAddress{
					Type:       xdr.ScAddressTypeScAddressTypeContract,
					ContractId: &contract,
				},
				FunctionName: "transfer",
				Args: xdr.ScVec{
					addressValue(xdr.MustAddress(from.Address())), receiver,
					{Type: xdr.ScValTypeScvI128, I128: &xdr.Int128Parts{Lo: xdr.Uint64(stroops)}},
				},
			},
		},
		Ext: xdr.TransactionExt{V: 1, SorobanData: &xdr.SorobanTransactionData{ResourceFee: 700}},
	}
}

// A contract transfer must move what a payment would move, emit the events of an asset contract,
// and pay for resources.
func TestContractTransfers(t *testing.T) {
	r := start(t, testConfig(t))
	to := r.account("20")
	r.trust(to, "100")
	lumens := txnbuild.NativeAsset{}
	for _, c := range []struct {
		name  string
		from  *keypair.Full
		op    *txnbuild.InvokeHostFunction
		event string
	}{
		{"lumens, to a muxed address", r.payer, transferOp(r, lumens, r.payer, to, 42, 5), "transfer"},
		{"from the issuer", r.issuer, transferOp(r, r.demo, r.issuer, to, 0, 6), "mint"},
		{"back to the issuer", to, transferOp(r, r.demo, to, r.issuer, 0, 2), "burn"},
	} {
		before := r.lumens(c.from.Address())
		done := r.apply(txSpec{from: c.from, ops: ops(c.op)})
		if done.Status != "SUCCESS" {
			t.Fatal(c.name, done.Status, resultText(t, done.ResultXDR))
		}
		var meta xdr.TransactionMeta
		if err := xdr.SafeUnmarshalBase64(done.ResultMetaXDR, &meta); err != nil {
			t.Fatal(err)
		}
		events := meta.V4.Operations[0].Events
		if len(events) != 1 || string(*events[0].Body.V0.Topics[0].Sym) != c.event ||
			meta.V4.SorobanMeta == nil {
			t.Errorf("%s: events %+v", c.name, events)
		}
		if spent := before - r.lumens(c.from.Address()); spent < BaseFeeStroops+700 ||
			spent > BaseFeeStroops+700+5 {
			t.Errorf("%s: cost %d stroops", c.name, spent)
		}
	}
	if line := r.trustline(to.Address()); line.Balance != 4 {
		t.Errorf("the wallet holds %d stroops of the asset, want 4", line.Balance)
	}
	tooMuch := r.apply(txSpec{from: to, ops: ops(transferOp(r, r.demo, to, r.payer, 0, 5))})
	if tooMuch.Status != "FAILED" {
		t.Error("more than there is:", tooMuch.Status)
	}
	stranger := transferOp(r, lumens, r.payer, to, 0, 1)
	stranger.HostFunction.InvokeContract.ContractAddress.ContractId = &xdr.ContractId{1}
	if done := r.apply(txSpec{from: r.payer, ops: ops(stranger)}); done.Status != "FAILED" {
		t.Error("an unknown contract:", done.Status)
	}
	r.refusesCalls(to)
	r.verifyAll()
}

// refusesCalls sends calls that must not enter a ledger.
func (r *rig) refusesCalls(to *keypair.Full) {
	r.t.Helper()
	lumens := txnbuild.NativeAsset{}
	other := transferOp(r, lumens, r.payer, to, 0, 1)
	other.HostFunction.InvokeContract.FunctionName = "approve"
	for name, spec := range map[string]txSpec{
		"another's money":  {from: to, ops: ops(transferOp(r, lumens, r.payer, to, 0, 1))},
		"another function": {from: r.payer, ops: ops(other)},
		"not alone": {
			from: r.payer,
			ops:  ops(lumensOp(to.Address(), "1")),
			edit: func(e *xdr.TransactionEnvelope) {
				e.V1.Tx.Operations = append(e.V1.Tx.Operations, xdr.Operation{Body: xdr.OperationBody{
					Type:                 xdr.OperationTypeInvokeHostFunction,
					InvokeHostFunctionOp: &xdr.InvokeHostFunctionOp{HostFunction: other.HostFunction},
				}})
				e.V1.Tx.Fee = 10_000
			},
		},
		"without resources": {
			from: r.payer,
			ops:  ops(transferOp(r, lumens, r.payer, to, 0, 1)),
			edit: func(e *xdr.TransactionEnvelope) { e.V1.Tx.Ext = xdr.TransactionExt{} },
		},
		"too small a fee": {
			from: r.payer,
			ops:  ops(transferOp(r, lumens, r.payer, to, 0, 1)),
			edit: func(e *xdr.TransactionEnvelope) { e.V1.Tx.Fee = 799 },
		},
	} {
		if answer := r.send(r.build(spec)); answer.Status != "ERROR" {
			r.t.Errorf("%s: %s", name, answer.Status)
		}
	}
}
