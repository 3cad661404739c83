package ledger_test

import (
	"testing"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// paying returns x with the given operations, and a payment before and after them. The ids of
// these payments show that the operations in between were counted.
func paying(x testTx, operations []xdr.Operation, results []xdr.OperationResult) testTx {
	x.operations, x.results = append([]xdr.Operation{payTo(receiver, native, 1)}, operations...),
		append([]xdr.OperationResult{paid()}, results...)
	x.operations, x.results = append(x.operations, payTo(receiver, native, 9)),
		append(x.results, paid())
	return x
}

func took(from string, sold, bought xdr.Asset) xdr.ClaimAtom {
	return xdr.ClaimAtom{
		Type: xdr.ClaimAtomTypeClaimAtomTypeOrderBook,
		OrderBook: &xdr.ClaimOfferAtom{
			SellerId:     xdr.MustAddress(from),
			AssetSold:    sold,
			AmountSold:   7,
			AssetBought:  bought,
			AmountBought: 8,
		},
	}
}

// TestClassicOperations tests each operation of classic accounts between two payments, which want
// does not list.
func TestClassicOperations(t *testing.T) {
	sendOverOffers := sent(44)
	sendOverOffers.Tr.PathPaymentStrictSendResult.Success.Offers = []xdr.ClaimAtom{
		took(receiver, usd, native), took(payer, longCode, usd),
	}
	receiveOverOffers := received(45)
	receiveOverOffers.Tr.PathPaymentStrictReceiveResult.Success.Offers = []xdr.ClaimAtom{took(receiver,
		usd, native)}
	trades := xdr.ManageOfferSuccessResult{
		OffersClaimed: []xdr.ClaimAtom{took(receiver, usd, native)},
		Offer:         xdr.ManageOfferSuccessResultOffer{Effect: xdr.ManageOfferEffectManageOfferDeleted},
	}
	sell := xdr.ManageSellOfferOp{Selling: native, Buying: usd, Amount: 5}
	sold := resultOf(xdr.OperationTypeManageSellOffer, xdr.ManageSellOfferResult{Success: &trades})
	balance := xdr.ClaimableBalanceId{V0: &xdr.Hash{1}}
	claimant := []xdr.Claimant{{V0: &xdr.ClaimantV0{Destination: xdr.MustAddress(receiver)}}}
	payouts := []xdr.InflationPayout{{Destination: xdr.MustAddress(receiver), Amount: 30}}
	toReceiver := by(xdr.MustMuxedAddress(receiver),
		operation(xdr.OperationTypeClaimClaimableBalance,
			xdr.ClaimClaimableBalanceOp{BalanceId: balance}))

	for name, c := range map[string]struct {
		op     xdr.Operation
		result xdr.OperationResult
		tx     testTx
		want   string
	}{
		"a merge of an account with nothing in it": {
			op:     by(muxed(payer, 5), mergeInto(receiver)),
			result: merged(0),
			want:   " account_merge payer>receiver 0 XLM",
		},
		"a merge into a muxed account": {
			op:     operation(xdr.OperationTypeAccountMerge, muxed(receiver, 3)),
			result: merged(41),
			want:   " account_merge sender>receiver 41 XLM muxed 3",
		},
		"an account created with nothing in it": {
			op:     createAccount(receiver, 0),
			result: created(),
			want:   " create_account sender>receiver 0 XLM",
		},
		"a path payment to oneself, strict send": {
			op:     strictSend(sender, 1),
			result: sent(42),
			want:   " path_payment_strict_send sender>sender 42 LUMENHOOK:issuer",
		},
		"a path payment to oneself, strict receive": {
			op:     strictReceive(sender, 43),
			result: received(43),
			want:   " path_payment_strict_receive sender>sender 43 USD:issuer",
		},
		"hops through the receiver's own offers, strict send": {
			op:     strictSend(receiver, 1),
			result: sendOverOffers,
			want:   " path_payment_strict_send sender>receiver 44 LUMENHOOK:issuer",
		},
		"hops through the receiver's own offers, strict receive": {
			op:     strictReceive(receiver, 45),
			result: receiveOverOffers,
			want:   " path_payment_strict_receive sender>receiver 45 USD:issuer",
		},
		"a payment by the issuer": {
			op:     by(xdr.MustMuxedAddress(issuer), payTo(receiver, usd, 46)),
			result: paid(),
			want:   " payment issuer>receiver 46 USD:issuer",
		},
		"a payment to the issuer, muxed": {
			op:     payMuxed(muxed(issuer, 8), usd, 47),
			result: paid(),
			want:   " payment sender>issuer 47 USD:issuer muxed 8",
		},
		"a payment to oneself": {
			op:     payTo(sender, native, 48),
			result: paid(),
			want:   " payment sender>sender 48 XLM",
		},
		"the muxed identifier 0": {
			op:     payMuxed(muxed(receiver, 0), native, 49),
			result: paid(),
			want:   " payment sender>receiver 49 XLM muxed 0",
		},
		"muxed sources of operation, transaction, fee": {
			op:     by(muxed(payer, 4), payTo(receiver, native, 50)),
			result: paid(),
			tx:     testTx{source: muxed(sender, 6), feeBump: true},
			want:   " payment payer>receiver 50 XLM",
		},
		"a muxed source of the transaction alone": {
			op:     payTo(receiver, native, 51),
			result: paid(),
			tx:     testTx{source: muxed(sender, 6)},
			want:   " payment sender>receiver 51 XLM",
		},

		"an offer that is taken": {
			op:     operation(xdr.OperationTypeManageSellOffer, sell),
			result: sold,
		},
		"a passive offer that is taken": {
			op: operation(xdr.OperationTypeCreatePassiveSellOffer,
				xdr.CreatePassiveSellOfferOp{Selling: native, Buying: usd}),
			result: sold,
		},
		"an offer to buy that is taken": {
			op: operation(xdr.OperationTypeManageBuyOffer,
				xdr.ManageBuyOfferOp{Selling: native, Buying: usd}),
			result: resultOf(xdr.OperationTypeManageBuyOffer, xdr.ManageBuyOfferResult{Success: &trades}),
		},
		"a claimable balance": {
			op: operation(xdr.OperationTypeCreateClaimableBalance,
				xdr.CreateClaimableBalanceOp{Asset: usd, Amount: 52, Claimants: claimant}),
			result: resultOf(xdr.OperationTypeCreateClaimableBalance,
				xdr.CreateClaimableBalanceResult{BalanceId: &balance}),
		},
		"a claim": {
			op:     toReceiver,
			result: resultOf(xdr.OperationTypeClaimClaimableBalance, xdr.ClaimClaimableBalanceResult{}),
		},
		"a clawback": {
			op: operation(xdr.OperationTypeClawback,
				xdr.ClawbackOp{Asset: usd, From: xdr.MustMuxedAddress(receiver), Amount: 53}),
			result: resultOf(xdr.OperationTypeClawback, xdr.ClawbackResult{}),
		},
		"a clawback of a balance": {
			op: operation(xdr.OperationTypeClawbackClaimableBalance,
				xdr.ClawbackClaimableBalanceOp{BalanceId: balance}),
			result: resultOf(xdr.OperationTypeClawbackClaimableBalance,
				xdr.ClawbackClaimableBalanceResult{}),
		},
		"a deposit in a pool": {
			op:     operation(xdr.OperationTypeLiquidityPoolDeposit, xdr.LiquidityPoolDepositOp{}),
			result: resultOf(xdr.OperationTypeLiquidityPoolDeposit, xdr.LiquidityPoolDepositResult{}),
		},
		"a withdrawal from a pool": {
			op:     operation(xdr.OperationTypeLiquidityPoolWithdraw, xdr.LiquidityPoolWithdrawOp{}),
			result: resultOf(xdr.OperationTypeLiquidityPoolWithdraw, xdr.LiquidityPoolWithdrawResult{}),
		},
		"inflation": {
			op:     operation(xdr.OperationTypeInflation, nil),
			result: resultOf(xdr.OperationTypeInflation, xdr.InflationResult{Payouts: &payouts}),
		},
		"a trustline that is taken away": {
			op: operation(xdr.OperationTypeSetTrustLineFlags,
				xdr.SetTrustLineFlagsOp{Trustor: xdr.MustAddress(receiver), Asset: usd, ClearFlags: 1}),
			result: resultOf(xdr.OperationTypeSetTrustLineFlags, xdr.SetTrustLineFlagsResult{}),
		},
	} {
		for version, meta := range []xdr.TransactionMeta{
			metaV0(), metaV1(), metaV2(), metaV3(), metaV4(3),
		} {
			x := paying(c.tx, []xdr.Operation{c.op}, []xdr.OperationResult{c.result})
			x.meta = meta
			want := []string{
				in100(1, 1) + " payment sender>receiver 1 XLM", in100(1, 2) + c.want,
				in100(1, 3) + " payment sender>receiver 9 XLM",
			}
			if c.want == "" {
				want = append(want[:1], want[2])
			}
			l := extract(t, passphrase, closeLedger(t, int32(version)%3, x))
			checkPayments(t, l, want...)
			checkQuarantined(t, l)
			if t.Failed() {
				t.Fatalf("%s, transaction meta %d", name, version)
			}
		}
	}
}

// TestContractCalls tests what contracts may emit in one call. Identifiers count only changes of
// balances, as in Horizon.
func TestContractCalls(t *testing.T) {
	other := xdr.ContractId{7}
	foreign := event(usd, "transfer", amountValue(0, 90), contract, receiver)
	foreign.ContractId = &other
	note := event(usd, "swap", amountValue(0, 91), contract, receiver)
	note.ContractId = &other
	upper := event(native, "transfer", amountValue(0, 92), contract, receiver)
	name := xdr.ScString("XLM")
	upper.Body.V0.Topics[3].Str = &name
	system := event(usd, "transfer", amountValue(0, 93), contract, receiver)
	system.Type = xdr.ContractEventTypeSystem
	longer := event(usd, "transfer", amountValue(0, 94), contract, receiver, payer)
	shorter := event(usd, "transfer", amountValue(0, 95), receiver)
	one := func(asset xdr.Asset, lo uint64, from, to string) xdr.ContractEvent {
		return event(asset, "transfer", amountValue(0, lo), from, to)
	}
	for name, c := range map[string]struct {
		events []xdr.ContractEvent
		want   []string // what follows the operation's identifier
		older  bool     // also in the layout before CAP-67
	}{
		"from a contract, to a contract, between accounts": {older: true,
			events: []xdr.ContractEvent{
				one(usd, 1, contract, receiver), one(usd, 2, receiver, contract),
				one(native, 3, sender, receiver), one(longCode, 4, contract, contract),
			},
			want: []string{
				"-0 invoke_host_function contract>receiver 1 USD:issuer",
				"-2 invoke_host_function sender>receiver 3 XLM",
			}},
		"by the issuer and to the issuer": {older: true,
			events: []xdr.ContractEvent{one(usd, 1, issuer, receiver), one(usd, 2, contract, issuer)},
			want: []string{
				"-0 invoke_host_function issuer>receiver 1 USD:issuer",
				"-1 invoke_host_function contract>issuer 2 USD:issuer",
			}},
		"contracts called by contracts, with words of their own between": {older: true,
			events: []xdr.ContractEvent{
				note, one(usd, 1, sender, contract), note, foreign,
				one(native, 2, contract, receiver), upper, system, longer, shorter,
				one(usd, 3, contract, payer), note,
			},
			want: []string{
				"-1 invoke_host_function contract>receiver 2 XLM",
				"-2 invoke_host_function contract>payer 3 USD:issuer",
			}},
		"to oneself, and nothing at all": {older: true,
			events: []xdr.ContractEvent{one(usd, 1, receiver, receiver), one(usd, 0, sender, receiver)},
			want: []string{
				"-0 invoke_host_function receiver>receiver 1 USD:issuer",
				"-1 invoke_host_function sender>receiver 0 USD:issuer",
			}},
		"mint, burn, clawback, leave to hold": {
			events: []xdr.ContractEvent{
				event(usd, "mint", amountValue(0, 1), contract),
				event(usd, "burn", amountValue(0, 2), receiver),
				event(usd, "clawback", amountValue(0, 3), receiver),
				event(usd, "set_authorized", xdr.ScVal{Type: xdr.ScValTypeScvBool, B: new(bool)}, receiver),
				event(usd, "set_admin", addressValue(contract), sender),
				event(usd, "approve", amountValue(0, 4), sender, receiver),
				event(usd, "mint", amountWithID(5, 6), receiver),
			},
			want: []string{"-3 invoke_host_function issuer>receiver 5 USD:issuer muxed 6"}},
		"identifiers that the asset contracts do not emit": {
			events: []xdr.ContractEvent{
				event(usd, "transfer", withEntry("to_muxed_id", xdr.ScVal{Type: xdr.ScValTypeScvVoid}), sender,
					receiver),
				event(usd, "transfer", withEntry("to_muxed_id", symbol("id")), sender, receiver),
				event(usd, "transfer", withEntry("memo", amountValue(0, 7)), sender, receiver),
				event(usd, "transfer", ofEntries(amountWithID(8, 2), 0), sender, receiver),
				event(usd, "transfer", ofEntries(amountWithID(8, 2), 0, 1, 1), sender, receiver),
				event(usd, "transfer", amountWithID(1, 0), sender, receiver)},
			want: []string{"-0 invoke_host_function sender>receiver 1 USD:issuer muxed 0"}},
		"other kinds of address": {older: true,
			events: []xdr.ContractEvent{
				withParty(one(usd, 1, contract, receiver), 2,
					xdr.ScAddress{
						Type:               xdr.ScAddressTypeScAddressTypeClaimableBalance,
						ClaimableBalanceId: &xdr.ClaimableBalanceId{V0: &xdr.Hash{1}},
					}),
				withParty(one(usd, 2, contract, receiver), 2,
					xdr.ScAddress{
						Type:            xdr.ScAddressTypeScAddressTypeLiquidityPool,
						LiquidityPoolId: &xdr.PoolId{2},
					}),
				one(usd, 3, contract, receiver)},
			want: []string{"-2 invoke_host_function contract>receiver 3 USD:issuer"}},
	} {
		t.Run(name, func(t *testing.T) {
			metas := []xdr.TransactionMeta{around(metaV4(1, c.events...))}
			if c.older {
				metas = append(metas, around(metaV3(c.events...)))
			}
			for i, meta := range metas {
				want := []string{}
				for _, w := range c.want {
					want = append(want, in100(2, 1)+w)
				}
				l := extract(t, passphrase,
					closeLedger(t, int32(2-i),
						testTx{failed: true, operations: []xdr.Operation{invoke(), invoke()}, meta: meta},
						call(meta, xdr.Memo{})))
				checkPayments(t, l, want...)
				checkQuarantined(t, l)
			}
		})
	}
}

func withEntry(name string, value xdr.ScVal) xdr.ScVal {
	data := amountWithID(1, 2)
	entries := *data.Map
	(*entries)[1] = xdr.ScMapEntry{Key: symbol(name), Val: value}
	return data
}

func ofEntries(data xdr.ScVal, chosen ...int) xdr.ScVal {
	entries := &xdr.ScMap{}
	for _, i := range chosen {
		*entries = append(*entries, (**data.Map)[i])
	}
	return xdr.ScVal{Type: xdr.ScValTypeScvMap, Map: &entries}
}

func withParty(e xdr.ContractEvent, topic int, party xdr.ScAddress) xdr.ContractEvent {
	e.Body.V0.Topics[topic] = xdr.ScVal{Type: xdr.ScValTypeScvAddress, Address: &party}
	return e
}

// around adds to a transaction's meta what repeats events or looks like events: diagnostics, and
// events of the transaction as a whole (fees, CAP-67).
func around(meta xdr.TransactionMeta) xdr.TransactionMeta {
	again := event(usd, "transfer", amountValue(0, 70), sender, receiver)
	diagnostics := []xdr.DiagnosticEvent{{InSuccessfulContractCall: true, Event: again}}
	fee := event(native, "fee", amountValue(0, 71), sender)
	if meta.V == 3 {
		meta.V3.SorobanMeta.DiagnosticEvents = diagnostics
		return meta
	}
	meta.V4.DiagnosticEvents = diagnostics
	meta.V4.Events = []xdr.TransactionEvent{
		{Event: fee},
		{Stage: xdr.TransactionEventStageTransactionEventStageAfterAllTxs, Event: again},
	}
	return meta
}

// Any operation that may run a contract's code may pay: a call, and a constructor.
func TestOtherUsesOfContracts(t *testing.T) {
	meta := func() xdr.TransactionMeta {
		return metaV4(1, event(usd, "transfer", amountValue(0, 5), sender, receiver))
	}
	preimage := xdr.ContractIdPreimage{
		Type:        xdr.ContractIdPreimageTypeContractIdPreimageFromAddress,
		FromAddress: &xdr.ContractIdPreimageFromAddress{Address: *addressValue(sender).Address},
	}
	executable := xdr.ContractExecutable{
		Type:     xdr.ContractExecutableTypeContractExecutableWasm,
		WasmHash: &xdr.Hash{},
	}
	create := operation(xdr.OperationTypeInvokeHostFunction,
		xdr.InvokeHostFunctionOp{HostFunction: xdr.HostFunction{
			Type: xdr.HostFunctionTypeHostFunctionTypeCreateContractV2,
			CreateContractV2: &xdr.CreateContractArgsV2{
				ContractIdPreimage: preimage,
				Executable:         executable,
			},
		}})
	restore := operation(xdr.OperationTypeRestoreFootprint, xdr.RestoreFootprintOp{})
	restored := resultOf(xdr.OperationTypeRestoreFootprint, xdr.RestoreFootprintResult{})
	l := extract(t, passphrase, closeLedger(t, 2,
		testTx{
			operations: []xdr.Operation{create},
			results:    []xdr.OperationResult{invoked()},
			meta:       meta(),
		},
		testTx{
			operations: []xdr.Operation{restore},
			results:    []xdr.OperationResult{restored},
			meta:       meta(),
		}))
	checkPayments(t, l, in100(1, 1)+"-0 invoke_host_function sender>receiver 5 USD:issuer")
	checkQuarantined(t, l)
}

// Events of classic operations (CAP-67) must not be counted in addition to the operations.
func TestEventsOfEveryClassicOperationAreNotCounted(t *testing.T) {
	x := everyOperation(metaV4(7))
	for i := range x.meta.V4.Operations {
		x.meta.V4.Operations[i].Events = []xdr.ContractEvent{
			event(native, "transfer", amountValue(0, 60), sender, receiver),
			event(usd, "mint", amountWithID(61, 3), receiver), event(usd, "burn", amountValue(0, 62),
				sender),
			event(usd, "clawback", amountValue(0, 63), receiver)}
	}
	l := extract(t, passphrase, closeLedger(t, 2, x))
	checkPayments(t, l, wantEveryOperation(1)...)
	checkQuarantined(t, l)
}

// A set distributes transactions over phases, components, stages and clusters in any order, and
// some of these are empty. Only the order in which the transactions were applied counts.
func TestTransactionSetsOfManyParts(t *testing.T) {
	var txs []testTx
	var want []string
	for i := range int64(9) {
		txs = append(txs, payOne(i+1))
		want = append(want, in100(int(i)+1, 1)+" payment sender>receiver "+string('1'+byte(i))+" XLM")
	}
	for version := int32(1); version <= 2; version++ {
		var whole xdr.LedgerCloseMeta
		if err := whole.UnmarshalBinary(closeLedger(t, version, txs...)); err != nil {
			t.Fatal(err)
		}
		set := map[int32]func() *xdr.GeneralizedTransactionSet{
			1: func() *xdr.GeneralizedTransactionSet { return &whole.V1.TxSet },
			2: func() *xdr.GeneralizedTransactionSet { return &whole.V2.TxSet },
		}[version]()
		var e []xdr.TransactionEnvelope
		for _, x := range txs {
			e = append(e, x.envelope())
		}
		fee := xdr.Int64(100)
		component := func(fee *xdr.Int64, txs ...xdr.TransactionEnvelope) xdr.TxSetComponent {
			return xdr.TxSetComponent{TxsMaybeDiscountedFee: &xdr.TxSetComponentTxsMaybeDiscountedFee{
				BaseFee: fee,
				Txs:     txs,
			}}
		}
		first, second := []xdr.TxSetComponent{component(nil, e[8]), component(&fee, e[3], e[1])},
			[]xdr.TxSetComponent{component(nil)}
		stages := []xdr.ParallelTxExecutionStage{{{e[5], e[2]}, {e[0]}}, {}, {{}, {e[7], e[6], e[4]}}}
		set.V1TxSet.Phases = []xdr.TransactionPhase{
			{V0Components: &first}, {V0Components: &second},
			{V0Components: new([]xdr.TxSetComponent)},
			{V: 1, ParallelTxsComponent: &xdr.ParallelTxsComponent{BaseFee: &fee, ExecutionStages: stages}},
			{V: 1, ParallelTxsComponent: &xdr.ParallelTxsComponent{}},
		}
		l := extract(t, passphrase, marshal(t, whole))
		checkPayments(t, l, want...)
		checkQuarantined(t, l)
	}
}
