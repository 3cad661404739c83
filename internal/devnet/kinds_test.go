package devnet

import (
	"strings"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/keypair"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// The market's rate, and what it refuses.
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

// Offers trade with each other at the price of the one that stood first, and what is left over
// stands.
func TestOffers(t *testing.T) {
	r := start(t, testConfig(t))
	seller, buyer := r.account("100"), r.account("100")
	euro := txnbuild.CreditAsset{Code: "EURO5", Issuer: r.payer.Address()}
	for _, holder := range []*keypair.Full{seller, buyer} {
		r.apply(txSpec{from: holder, ops: ops(trustOp(euro, "1000"))})
	}
	r.apply(txSpec{
		from: r.payer,
		ops:  ops(&txnbuild.Payment{Destination: seller.Address(), Amount: "50", Asset: euro}),
	})
	lumens := txnbuild.NativeAsset{}
	sell := func(
		from *keypair.Full, amount string, n, d xdr.Int32, id int64,
	) xdr.ManageSellOfferResult {
		t.Helper()
		done := r.apply(txSpec{
			from: from,
			ops: ops(&txnbuild.ManageSellOffer{
				Selling: euro,
				Buying:  lumens,
				Amount:  amount,
				Price:   xdr.Price{N: n, D: d},
				OfferID: id,
			}),
		})
		return *opResult(t, done.ResultXDR).ManageSellOfferResult
	}
	buy := func(from *keypair.Full, amount string, n, d xdr.Int32, id int64) xdr.ManageBuyOfferResult {
		t.Helper()
		done := r.apply(txSpec{
			from: from,
			ops: ops(&txnbuild.ManageBuyOffer{
				Selling: lumens,
				Buying:  euro,
				Amount:  amount,
				Price:   xdr.Price{N: n, D: d},
				OfferID: id,
			}),
		})
		return *opResult(t, done.ResultXDR).ManageBuyOfferResult
	}
	dear := sell(seller, "20", 3, 1, 0).Success.Offer.MustOffer()
	cheap := sell(seller, "10", 2, 1, 0).Success.Offer.MustOffer()
	if dear.Amount != 20*stroopsPerUnit || cheap.OfferId <= dear.OfferId {
		t.Fatalf("the first offers: %+v %+v", dear, cheap)
	}
	if got := sell(seller, "20.0000001", 3, 1, 0).Code; got !=
		xdr.ManageSellOfferResultCodeManageSellOfferUnderfunded {
		t.Errorf("what was promised was promised again: %v", got)
	}
	// 12 euros, for 2.5 lumens each at most: the cheap ten, and the rest stands.
	bought := buy(buyer, "12", 5, 2, 0).Success
	if len(bought.OffersClaimed) != 1 || bought.OffersClaimed[0].AmountBought() != 20*stroopsPerUnit ||
		bought.Offer.Offer == nil ||
		bought.Offer.Offer.Amount != 5*stroopsPerUnit {
		t.Fatalf("bought %+v", bought)
	}
	// Its owner raises the price to what the dear one costs.
	raised := buy(buyer, "4", 3, 1, int64(bought.Offer.Offer.OfferId)).Success
	if len(raised.OffersClaimed) != 1 || raised.OffersClaimed[0].AmountSold() != 4*stroopsPerUnit ||
		raised.Offer.Effect != xdr.ManageOfferEffectManageOfferDeleted {
		t.Fatalf("raised %+v", raised)
	}
	if got := sell(seller, "0", 3, 1, int64(dear.OfferId)); got.Success == nil ||
		got.Success.Offer.Effect != xdr.ManageOfferEffectManageOfferDeleted {
		t.Fatalf("taken back: %+v", got)
	}
	if got := sell(seller, "0", 3, 1, int64(dear.OfferId)).Code; got !=
		xdr.ManageSellOfferResultCodeManageSellOfferNotFound {
		t.Errorf("taken back twice: %v", got)
	}
	if got := sell(buyer, "1000", 3, 1, 0).Code; got !=
		xdr.ManageSellOfferResultCodeManageSellOfferUnderfunded {
		t.Errorf("more than one holds: %v", got)
	}
	buy(buyer, "1", 1, 1, 0)
	if got := sell(buyer, "1", 1, 2, 0).Code; got !=
		xdr.ManageSellOfferResultCodeManageSellOfferCrossSelf {
		t.Errorf("one's own offer: %v", got)
	}
	r.verifyAll()
}

// Data, options that say something, and what is refused of both.
func TestDataAndOptions(t *testing.T) {
	r := start(t, testConfig(t))
	holder := r.account("1.5000400") // room for one entry, and four fees
	data := func(name string, value []byte) xdr.ManageDataResultCode {
		t.Helper()
		done := r.apply(txSpec{from: holder, ops: ops(&txnbuild.ManageData{Name: name, Value: value})})
		return opResult(t, done.ResultXDR).ManageDataResult.Code
	}
	for _, c := range []struct {
		name  string
		value []byte
		want  xdr.ManageDataResultCode
	}{
		{"order", []byte("42"), xdr.ManageDataResultCodeManageDataSuccess},
		{"second", []byte("1"), xdr.ManageDataResultCodeManageDataLowReserve},
		{"order", []byte("43"), xdr.ManageDataResultCodeManageDataSuccess},
		{"second", nil, xdr.ManageDataResultCodeManageDataNameNotFound},
	} {
		if got := data(c.name, c.value); got != c.want {
			t.Errorf("%s = %q: %v, want %v", c.name, c.value, got, c.want)
		}
	}
	owner := r.account("5")
	id := xdr.MustAddress(owner.Address())
	set := func(op *txnbuild.SetOptions) protocol.SendTransactionResponse {
		answer := r.send(r.build(txSpec{from: owner, ops: ops(op)}))
		r.closeLedger()
		return answer
	}
	answer := set(&txnbuild.SetOptions{HomeDomain: txnbuild.NewHomeDomain("shop.example")})
	if answer.Status != "PENDING" {
		t.Fatal(answer.Status)
	}
	answer = set(&txnbuild.SetOptions{MasterWeight: txnbuild.NewThreshold(2)})
	if !strings.HasSuffix(resultText(t, answer.ErrorResultXDR), "OpNotSupported") {
		t.Errorf("keys are as they were made: %+v", answer)
	}
	key, _ := id.LedgerKey()
	if a := r.entry(key).Account; a.HomeDomain != "shop.example" || a.NumSubEntries != 0 {
		t.Errorf("got %+v", a)
	}
	r.verifyAll()
}

// A claimant's conditions count from the ledger that makes the balance.
func TestConditionalClaimants(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	cfg := testConfig(t)
	cfg.Clock = func() time.Time { return now }
	r := start(t, cfg)
	early, late := r.account("10"), r.account("10")
	hour := txnbuild.BeforeRelativeTimePredicate(3600)
	day := txnbuild.BeforeAbsoluteTimePredicate(now.Unix() + 86400)
	both := txnbuild.AndPredicate(txnbuild.NotPredicate(hour),
		txnbuild.OrPredicate(day, txnbuild.NotPredicate(txnbuild.UnconditionalPredicate)))
	create := &txnbuild.CreateClaimableBalance{Amount: "3", Asset: txnbuild.NativeAsset{},
		Destinations: []txnbuild.Claimant{
			txnbuild.NewClaimant(early.Address(), &hour),
			txnbuild.NewClaimant(late.Address(), &both),
		}}
	balance := func() string {
		t.Helper()
		done := r.apply(txSpec{from: r.payer, ops: ops(create)})
		id, err := xdr.MarshalHex(opResult(t, done.ResultXDR).CreateClaimableBalanceResult.BalanceId)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	claim := func(who *keypair.Full, id string) string {
		t.Helper()
		done := r.apply(txSpec{from: who, ops: ops(&txnbuild.ClaimClaimableBalance{BalanceID: id})})
		return opCode(t, done.ResultXDR)
	}
	first, second := balance(), balance()
	if a, b := claim(late, first), claim(early, first); a != "ClaimClaimableBalanceCannotClaim" ||
		b != "ClaimClaimableBalanceSuccess" {
		t.Errorf("at once: %s, %s", a, b)
	}
	now = now.Add(time.Hour)
	if a, b := claim(early, second), claim(late, second); a != "ClaimClaimableBalanceCannotClaim" ||
		b != "ClaimClaimableBalanceSuccess" {
		t.Errorf("after an hour: %s, %s", a, b)
	}
	create.Destinations[0].Predicate = txnbuild.BeforeRelativeTimePredicate(-1)
	if answer := r.send(r.build(txSpec{from: r.payer, ops: ops(create)})); answer.Status != "ERROR" {
		t.Errorf("a time before now: %s", answer.Status)
	}
	r.verifyAll()
}

// opResult is the result of the only operation.
func opResult(t *testing.T, resultXDR string) *xdr.OperationResultTr {
	t.Helper()
	var result xdr.TransactionResult
	if err := xdr.SafeUnmarshalBase64(resultXDR, &result); err != nil {
		t.Fatal(err)
	}
	return (*result.Result.Results)[0].Tr
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

// What is left of an account's transactions in the ledger that merges it away pays its fee and
// fails.
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

// transferOp calls an asset's contract. Edits change the call before it is sent.
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

// Contract transfers move what payments would, emit what asset contracts emit, and pay for
// resources.
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

// refusesCalls sends calls that never get into a ledger.
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
