package oracle

import (
	"slices"
	"testing"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/processors/token_transfer"
	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"
)

const passphrase = "Lumenhook test network"

var (
	sender   = key(1)
	receiver = key(2)
	issuer   = key(3)
	maker    = key(4)
	native   = xdr.MustNewNativeAsset()
	usd      = xdr.MustNewCreditAsset("USD", issuer.Address())
	euro     = xdr.MustNewCreditAsset("EUROPEAN", issuer.Address())
	contract = strkey.MustEncode(strkey.VersionByteContract, make([]byte, 32))
)

func key(n byte) xdr.AccountId {
	return xdr.MustAddress(strkey.MustEncode(strkey.VersionByteAccountID,
		slices.Repeat([]byte{n}, 32)))
}

func muxed(a xdr.AccountId, id uint64) xdr.MuxedAccount {
	return xdr.MuxedAccount{
		Type:     xdr.CryptoKeyTypeKeyTypeMuxedEd25519,
		Med25519: &xdr.MuxedAccountMed25519{Id: xdr.Uint64(id), Ed25519: *a.Ed25519},
	}
}

type step struct {
	op      xdr.Operation
	result  xdr.OperationResult
	changes xdr.LedgerEntryChanges
	events  []xdr.ContractEvent
}

// did returns an operation of the given kind and its result. Some kinds have no body.
func did(kind xdr.OperationType, body, result any) step {
	b, err := xdr.NewOperationBody(kind, body)
	if err != nil {
		panic(err)
	}
	tr, err := xdr.NewOperationResultTr(kind, result)
	if err != nil {
		panic(err)
	}
	return step{
		op:     xdr.Operation{Body: b},
		result: xdr.OperationResult{Code: xdr.OperationResultCodeOpInner, Tr: &tr},
	}
}

func (s step) by(a xdr.MuxedAccount) step { s.op.SourceAccount = &a; return s }

func (s step) with(changes ...xdr.LedgerEntryChange) step { s.changes = changes; return s }

func pay(to xdr.MuxedAccount, asset xdr.Asset, stroops xdr.Int64) step {
	return did(xdr.OperationTypePayment, xdr.PaymentOp{Destination: to, Asset: asset, Amount: stroops},
		xdr.PaymentResult{})
}

func create(stroops xdr.Int64) step {
	return did(xdr.OperationTypeCreateAccount,
		xdr.CreateAccountOp{Destination: receiver, StartingBalance: stroops}, xdr.CreateAccountResult{})
}

func merge(to xdr.MuxedAccount, stroops xdr.Int64) step {
	return did(xdr.OperationTypeAccountMerge, to,
		xdr.AccountMergeResult{SourceAccountBalance: &stroops})
}

func strictReceive(
	to xdr.MuxedAccount, asset xdr.Asset, stroops xdr.Int64, hops ...xdr.ClaimAtom,
) step {
	return did(xdr.OperationTypePathPaymentStrictReceive,
		xdr.PathPaymentStrictReceiveOp{
			SendAsset:   native,
			SendMax:     99,
			Destination: to,
			DestAsset:   asset,
			DestAmount:  stroops,
		},
		xdr.PathPaymentStrictReceiveResult{Success: &xdr.PathPaymentStrictReceiveResultSuccess{
			Offers: hops,
			Last:   xdr.SimplePaymentResult{Destination: to.ToAccountId(), Asset: asset, Amount: stroops},
		}})
}

func strictSend(
	to xdr.MuxedAccount, asset xdr.Asset, stroops xdr.Int64, hops ...xdr.ClaimAtom,
) step {
	return did(xdr.OperationTypePathPaymentStrictSend,
		xdr.PathPaymentStrictSendOp{
			SendAsset:   native,
			SendAmount:  99,
			Destination: to,
			DestAsset:   asset,
			DestMin:     1,
		},
		xdr.PathPaymentStrictSendResult{Success: &xdr.PathPaymentStrictSendResultSuccess{Offers: hops,
			Last: xdr.SimplePaymentResult{Destination: to.ToAccountId(), Asset: asset, Amount: stroops}}})
}

// took returns a trade with an offer, and tookPool a trade with a pool.
func took(from xdr.AccountId, sold, bought xdr.Asset) xdr.ClaimAtom {
	return xdr.ClaimAtom{
		Type: xdr.ClaimAtomTypeClaimAtomTypeOrderBook,
		OrderBook: &xdr.ClaimOfferAtom{
			SellerId:     from,
			AssetSold:    sold,
			AmountSold:   7,
			AssetBought:  bought,
			AmountBought: 8,
		},
	}
}

func tookPool(sold, bought xdr.Asset) xdr.ClaimAtom {
	return xdr.ClaimAtom{
		Type: xdr.ClaimAtomTypeClaimAtomTypeLiquidityPool,
		LiquidityPool: &xdr.ClaimLiquidityAtom{
			LiquidityPoolId: xdr.PoolId{5},
			AssetSold:       sold,
			AmountSold:      9,
			AssetBought:     bought,
			AmountBought:    10,
		},
	}
}

func balanceID(n byte) xdr.ClaimableBalanceId {
	return xdr.ClaimableBalanceId{V0: &xdr.Hash{n}}
}

func balance(id xdr.ClaimableBalanceId, asset xdr.Asset) *xdr.LedgerEntry {
	return &xdr.LedgerEntry{Data: xdr.LedgerEntryData{
		Type:             xdr.LedgerEntryTypeClaimableBalance,
		ClaimableBalance: &xdr.ClaimableBalanceEntry{BalanceId: id, Asset: asset, Amount: 33},
	}}
}

func pool(reserve xdr.Int64) *xdr.LedgerEntry {
	return &xdr.LedgerEntry{Data: xdr.LedgerEntryData{
		Type: xdr.LedgerEntryTypeLiquidityPool,
		LiquidityPool: &xdr.LiquidityPoolEntry{LiquidityPoolId: xdr.PoolId{5},
			Body: xdr.LiquidityPoolEntryBody{ConstantProduct: &xdr.LiquidityPoolEntryConstantProduct{
				Params:   xdr.LiquidityPoolConstantProductParameters{AssetA: native, AssetB: usd, Fee: 30},
				ReserveA: reserve,
				ReserveB: 2 * reserve}}},
	}}
}

func was(e *xdr.LedgerEntry) xdr.LedgerEntryChange {
	return xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryState, State: e}
}

func is(e *xdr.LedgerEntry) xdr.LedgerEntryChange {
	return xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryUpdated, Updated: e}
}

func isNew(e *xdr.LedgerEntry) xdr.LedgerEntryChange {
	return xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryCreated, Created: e}
}

func gone(id xdr.ClaimableBalanceId) xdr.LedgerEntryChange {
	k := xdr.LedgerKey{
		Type:             xdr.LedgerEntryTypeClaimableBalance,
		ClaimableBalance: &xdr.LedgerKeyClaimableBalance{BalanceId: id},
	}
	return xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryRemoved, Removed: &k}
}

// classic returns every operation except contract calls, in the forms about which token_transfer
// and Lumenhook might disagree.
func classic() []step {
	r, m := receiver.ToMuxedAccount(), muxed(receiver, 1<<63)
	sell, trades := xdr.ManageSellOfferOp{Selling: native, Buying: usd, Amount: 5},
		xdr.ManageOfferSuccessResult{
			OffersClaimed: []xdr.ClaimAtom{took(receiver, usd, native), tookPool(usd, native)},
			Offer: xdr.ManageOfferSuccessResultOffer{
				Effect: xdr.ManageOfferEffectManageOfferDeleted,
			},
		}
	passive := did(xdr.OperationTypeCreatePassiveSellOffer,
		xdr.CreatePassiveSellOfferOp{Selling: native, Buying: usd}, xdr.ManageSellOfferResult{})
	// The network returns the result of a passive offer in the form of an ordinary one.
	passive.result = did(xdr.OperationTypeManageSellOffer, sell,
		xdr.ManageSellOfferResult{Success: &trades}).result
	cb := balanceID(1)
	code := xdr.AssetCode{
		Type:       xdr.AssetTypeAssetTypeCreditAlphanum4,
		AssetCode4: &xdr.AssetCode4{'U', 'S', 'D'},
	}
	steps := []step{
		create(10), create(0), pay(r, native, 11), pay(r, euro, 12), pay(m, usd, 13),
		pay(sender.ToMuxedAccount(), native, 14),
		pay(r, usd, 15).by(issuer.ToMuxedAccount()), pay(issuer.ToMuxedAccount(), usd, 16),
		pay(muxed(issuer, 17), usd, 17),
		pay(issuer.ToMuxedAccount(), usd, 18).by(muxed(issuer,
			9)), pay(m, native, 19).by(muxed(maker, 5)),
		strictReceive(r, usd, 20),
		strictReceive(m, usd, 21, took(maker, euro, native), took(receiver, usd, euro)),
		strictReceive(sender.ToMuxedAccount(), native, 22, tookPool(usd, native), tookPool(native, usd)),
		strictReceive(issuer.ToMuxedAccount(), usd, 23, took(issuer, usd, native)),
		strictSend(r, euro, 24, took(receiver, euro, native)),
		strictSend(m, usd, 25, tookPool(usd, native)).by(issuer.ToMuxedAccount()),
		strictSend(r, native, 26),
		merge(r, 27).by(maker.ToMuxedAccount()), merge(m, 0).by(muxed(maker, 1)),

		did(xdr.OperationTypeManageSellOffer, sell, xdr.ManageSellOfferResult{Success: &trades}),
		did(xdr.OperationTypeManageBuyOffer,
			xdr.ManageBuyOfferOp{Selling: native, Buying: usd, BuyAmount: 5},
			xdr.ManageBuyOfferResult{Success: &trades}),
		passive,
		did(xdr.OperationTypeSetOptions, xdr.SetOptionsOp{}, xdr.SetOptionsResult{}),
		did(xdr.OperationTypeChangeTrust, xdr.ChangeTrustOp{Line: usd.ToChangeTrustAsset()},
			xdr.ChangeTrustResult{}),
		did(xdr.OperationTypeAllowTrust, xdr.AllowTrustOp{Trustor: receiver, Asset: code},
			xdr.AllowTrustResult{}),
		did(xdr.OperationTypeInflation, nil,
			xdr.InflationResult{Payouts: &[]xdr.InflationPayout{{Destination: receiver, Amount: 30}}}),
		did(xdr.OperationTypeManageData, xdr.ManageDataOp{DataName: "name"}, xdr.ManageDataResult{}),
		did(xdr.OperationTypeBumpSequence, xdr.BumpSequenceOp{BumpTo: 1}, xdr.BumpSequenceResult{}),
		did(xdr.OperationTypeCreateClaimableBalance,
			xdr.CreateClaimableBalanceOp{
				Asset:     usd,
				Amount:    33,
				Claimants: []xdr.Claimant{{V0: &xdr.ClaimantV0{Destination: receiver}}},
			},
			xdr.CreateClaimableBalanceResult{BalanceId: &cb}),
		did(xdr.OperationTypeClaimClaimableBalance, xdr.ClaimClaimableBalanceOp{BalanceId: cb},
			xdr.ClaimClaimableBalanceResult{}).by(m).with(was(balance(cb, usd)), gone(cb)),
		did(xdr.OperationTypeBeginSponsoringFutureReserves,
			xdr.BeginSponsoringFutureReservesOp{SponsoredId: receiver},
			xdr.BeginSponsoringFutureReservesResult{}),
		did(xdr.OperationTypeEndSponsoringFutureReserves, nil, xdr.EndSponsoringFutureReservesResult{}),
		did(xdr.OperationTypeRevokeSponsorship,
			xdr.RevokeSponsorshipOp{
				Type: xdr.RevokeSponsorshipTypeRevokeSponsorshipSigner,
				Signer: &xdr.RevokeSponsorshipOpSigner{
					AccountId: receiver,
					SignerKey: xdr.SignerKey{Ed25519: receiver.Ed25519},
				},
			},
			xdr.RevokeSponsorshipResult{}),
		did(xdr.OperationTypeClawback, xdr.ClawbackOp{Asset: usd, From: r, Amount: 35},
			xdr.ClawbackResult{}),
		did(xdr.OperationTypeClawbackClaimableBalance, xdr.ClawbackClaimableBalanceOp{BalanceId: cb},
			xdr.ClawbackClaimableBalanceResult{}).with(was(balance(cb, usd)), gone(cb)),
	}
	return append(steps, revoke(uint32(len(steps))),
		did(xdr.OperationTypeLiquidityPoolDeposit,
			xdr.LiquidityPoolDepositOp{LiquidityPoolId: xdr.PoolId{5}},
			xdr.LiquidityPoolDepositResult{}).with(was(pool(10)), is(pool(20))),
		did(xdr.OperationTypeLiquidityPoolWithdraw,
			xdr.LiquidityPoolWithdrawOp{LiquidityPoolId: xdr.PoolId{5}},
			xdr.LiquidityPoolWithdrawResult{}).by(r).with(was(pool(20)), is(pool(10))),
	)
}

// sequence is the sequence number of the source in every transaction. The ids of balances depend
// on it.
const sequence = 7

// revoke revokes a trustline, so that a pool pays out into claimable balances. index is the
// position of the operation.
func revoke(index uint32) step {
	id := func(asset xdr.Asset) xdr.ClaimableBalanceId {
		id, err := token_transfer.ClaimableBalanceIdFromRevocation(xdr.PoolId{5}, asset, sequence, sender,
			index)
		if err != nil {
			panic(err)
		}
		return id
	}
	return did(xdr.OperationTypeSetTrustLineFlags,
		xdr.SetTrustLineFlagsOp{Trustor: receiver, Asset: usd, ClearFlags: 1},
		xdr.SetTrustLineFlagsResult{}).
		with(was(pool(20)), is(pool(10)), isNew(balance(id(native),
			native)), isNew(balance(id(usd), usd)))
}

func call(events ...xdr.ContractEvent) step {
	invoked := xdr.InvokeContractArgs{ContractAddress: scAddress(contract), FunctionName: "f"}
	s := did(xdr.OperationTypeInvokeHostFunction,
		xdr.InvokeHostFunctionOp{HostFunction: xdr.HostFunction{
			Type:           xdr.HostFunctionTypeHostFunctionTypeInvokeContract,
			InvokeContract: &invoked,
		}},
		xdr.InvokeHostFunctionResult{Success: &xdr.Hash{}})
	s.events = events
	return s
}

// onContracts returns contract events in layout 3 or 4.
func onContracts(layout int) []step {
	g, i := receiver.Address(), issuer.Address()
	others := []step{
		did(xdr.OperationTypeExtendFootprintTtl, xdr.ExtendFootprintTtlOp{ExtendTo: 9},
			xdr.ExtendFootprintTtlResult{}),
		did(xdr.OperationTypeRestoreFootprint, xdr.RestoreFootprintOp{}, xdr.RestoreFootprintResult{}),
		call(event(usd, "transfer", i128(40), i, g), event(usd, "transfer", i128(41), contract, g),
			event(native, "transfer", i128(42), g, contract),
			event(native, "transfer", i128(43), sender.Address(), g)),
		call(unlike(event(usd, "transfer", i128(44), contract, g), xdr.ContractId{9}),
			unnamed(event(usd, "transfer", i128(45), contract, g)),
			event(euro, "transfer", i128(46), contract, g)),
	}
	// layout 3: the administrator comes first, and a return to the issuer is a transfer
	if layout == 3 {
		return append(others, call(event(usd, "mint", i128(47), contract, g),
			event(usd, "clawback", i128(48), i, g), event(usd, "burn", i128(49), g),
			event(usd, "transfer", i128(50), contract, i),
			event(usd, "mint", i128(51), i, contract), event(usd, "transfer", i128(52), g, i)))
	}
	return append(others, call(event(usd, "mint", i128(47), g), event(usd, "clawback", i128(48), g),
		event(usd, "burn", i128(49), g), event(usd, "mint", withID(50, 77), g),
		event(usd, "mint", i128(51), contract), event(native, "transfer", withID(52, 1<<63), contract, g),
		event(usd, "burn", i128(53), contract)))
}

func event(asset xdr.Asset, name string, data xdr.ScVal, parties ...string) xdr.ContractEvent {
	id, err := asset.ContractID(passphrase)
	if err != nil {
		panic(err)
	}
	topics := []xdr.ScVal{symbol(name)}
	for _, party := range parties {
		address := scAddress(party)
		topics = append(topics, xdr.ScVal{Type: xdr.ScValTypeScvAddress, Address: &address})
	}
	text := xdr.ScString(asset.StringCanonical())
	topics = append(topics, xdr.ScVal{Type: xdr.ScValTypeScvString, Str: &text})
	return xdr.ContractEvent{
		ContractId: (*xdr.ContractId)(&id),
		Type:       xdr.ContractEventTypeContract,
		Body:       xdr.ContractEventBody{V0: &xdr.ContractEventV0{Topics: topics, Data: data}},
	}
}

// unlike returns an event as another contract would forge it.
func unlike(e xdr.ContractEvent, other xdr.ContractId) xdr.ContractEvent {
	e.ContractId = &other
	return e
}

// unnamed returns an event of a token that is not an asset's contract.
func unnamed(e xdr.ContractEvent) xdr.ContractEvent {
	e.Body.V0.Topics = e.Body.V0.Topics[:3]
	return unlike(e, xdr.ContractId{8})
}

func scAddress(s string) xdr.ScAddress {
	if s[0] == 'G' {
		id := xdr.MustAddress(s)
		return xdr.ScAddress{Type: xdr.ScAddressTypeScAddressTypeAccount, AccountId: &id}
	}
	id := xdr.ContractId(strkey.MustDecode(strkey.VersionByteContract, s))
	return xdr.ScAddress{Type: xdr.ScAddressTypeScAddressTypeContract, ContractId: &id}
}

func symbol(s string) xdr.ScVal {
	sym := xdr.ScSymbol(s)
	return xdr.ScVal{Type: xdr.ScValTypeScvSymbol, Sym: &sym}
}

func i128(n uint64) xdr.ScVal {
	return xdr.ScVal{Type: xdr.ScValTypeScvI128, I128: &xdr.Int128Parts{Lo: xdr.Uint64(n)}}
}

func withID(n, id uint64) xdr.ScVal {
	u := xdr.Uint64(id)
	m := &xdr.ScMap{
		{Key: symbol("amount"), Val: i128(n)},
		{Key: symbol("to_muxed_id"), Val: xdr.ScVal{Type: xdr.ScValTypeScvU64, U64: &u}},
	}
	return xdr.ScVal{Type: xdr.ScValTypeScvMap, Map: &m}
}

// synthetic returns ledgers with every existing operation, in versions 2 to 4 of the transaction
// meta, with every memo, in plain transactions and fee bumps.
func synthetic(t *testing.T) [][]byte {
	t.Helper()
	seen := map[xdr.OperationType]bool{}
	var ledgers [][]byte
	for _, layout := range []int{2, 3, 4} {
		var txs []applied
		for i, memo := range []xdr.Memo{
			{}, xdr.MemoText("a\xffb"), xdr.MemoID(1<<64 - 1), xdr.MemoHash(xdr.Hash{1}),
			xdr.MemoRetHash(xdr.Hash{2}),
		} {
			txs = append(txs, applied{steps: classic(), memo: memo, bumped: i%2 == 1})
			for n, s := range onContracts(layout) {
				if layout > 2 {
					txs = append(txs, applied{steps: []step{s}, memo: memo, fee: xdr.Uint32(n), bumped: i%2 == 0})
				}
				seen[s.op.Body.Type] = true
			}
		}
		txs = append(txs, applied{steps: classic(), memo: xdr.MemoText("failed"), failed: true})
		for _, s := range classic() {
			seen[s.op.Body.Type] = true
		}
		ledgers = append(ledgers, closeLedger(t, layout, txs))
	}
	for kind := xdr.OperationType(0); kind.ValidEnum(int32(kind)); kind++ {
		if !seen[kind] {
			t.Errorf("no ledger holds %v: the processor may tell of it", kind)
		}
	}
	return ledgers
}

// applied is a transaction of the sender. fee tells equal transactions apart.
type applied struct {
	steps          []step
	memo           xdr.Memo
	fee            xdr.Uint32
	bumped, failed bool
}

func (a applied) onContracts() bool {
	return a.steps[0].op.Body.Type >= xdr.OperationTypeInvokeHostFunction
}

func (a applied) envelope() xdr.TransactionEnvelope {
	tx := xdr.Transaction{
		SourceAccount: sender.ToMuxedAccount(),
		SeqNum:        sequence,
		Fee:           a.fee,
		Memo:          a.memo,
	}
	for _, s := range a.steps {
		tx.Operations = append(tx.Operations, s.op)
	}
	if a.onContracts() {
		tx.Ext = xdr.TransactionExt{V: 1, SorobanData: &xdr.SorobanTransactionData{}}
	}
	plain := &xdr.TransactionV1Envelope{Tx: tx}
	if !a.bumped {
		return xdr.TransactionEnvelope{Type: xdr.EnvelopeTypeEnvelopeTypeTx, V1: plain}
	}
	inner := xdr.FeeBumpTransactionInnerTx{Type: xdr.EnvelopeTypeEnvelopeTypeTx, V1: plain}
	return xdr.TransactionEnvelope{
		Type: xdr.EnvelopeTypeEnvelopeTypeTxFeeBump,
		FeeBump: &xdr.FeeBumpTransactionEnvelope{Tx: xdr.FeeBumpTransaction{
			FeeSource: muxed(maker, 3),
			InnerTx:   inner,
		}},
	}
}

func (a applied) result(hash xdr.Hash) xdr.TransactionResultPair {
	code, outer := xdr.TransactionResultCodeTxSuccess, xdr.TransactionResultCodeTxFeeBumpInnerSuccess
	if a.failed {
		code, outer = xdr.TransactionResultCodeTxFailed, xdr.TransactionResultCodeTxFeeBumpInnerFailed
	}
	var results []xdr.OperationResult
	for _, s := range a.steps {
		results = append(results, s.result)
	}
	body := xdr.TransactionResultResult{Code: code, Results: &results}
	if a.bumped {
		body = xdr.TransactionResultResult{
			Code: outer,
			InnerResultPair: &xdr.InnerTransactionResultPair{
				Result: xdr.InnerTransactionResult{
					Result: xdr.InnerTransactionResultResult{Code: code, Results: &results},
				},
			},
		}
	}
	return xdr.TransactionResultPair{
		TransactionHash: hash,
		Result:          xdr.TransactionResult{Result: body},
	}
}

func (a applied) meta(layout int) xdr.TransactionMeta {
	var old []xdr.OperationMeta
	var recent []xdr.OperationMetaV2
	for _, s := range a.steps {
		old = append(old, xdr.OperationMeta{Changes: s.changes})
		recent = append(recent, xdr.OperationMetaV2{Changes: s.changes, Events: s.events})
	}
	switch layout {
	case 2:
		return xdr.TransactionMeta{V: 2, V2: &xdr.TransactionMetaV2{Operations: old}}
	case 3:
		v3 := &xdr.TransactionMetaV3{Operations: old}
		if a.onContracts() {
			v3.SorobanMeta = &xdr.SorobanTransactionMeta{
				Events:      a.steps[0].events,
				ReturnValue: xdr.ScVal{Type: xdr.ScValTypeScvVoid},
			}
		}
		return xdr.TransactionMeta{V: 3, V3: v3}
	}
	return xdr.TransactionMeta{V: 4, V4: &xdr.TransactionMetaV4{Operations: recent}}
}

func closeLedger(t *testing.T, layout int, txs []applied) []byte {
	t.Helper()
	header := xdr.LedgerHeaderHistoryEntry{
		Hash: xdr.Hash{1},
		Header: xdr.LedgerHeader{
			LedgerVersion: xdr.Uint32(17 + layout),
			LedgerSeq:     100,
			ScpValue:      xdr.StellarValue{CloseTime: 1_700_000_000},
		},
	}
	var envelopes []xdr.TransactionEnvelope
	var metas []xdr.TransactionResultMetaV1
	for _, tx := range txs {
		envelope := tx.envelope()
		hash, err := network.HashTransactionInEnvelope(envelope, passphrase)
		if err != nil {
			t.Fatal(err)
		}
		envelopes = append(envelopes, envelope)
		metas = append(metas,
			xdr.TransactionResultMetaV1{Result: tx.result(hash), TxApplyProcessing: tx.meta(layout)})
	}
	slices.Reverse(envelopes)
	components := []xdr.TxSetComponent{
		{TxsMaybeDiscountedFee: &xdr.TxSetComponentTxsMaybeDiscountedFee{Txs: envelopes}},
	}
	set := xdr.GeneralizedTransactionSet{
		V:       1,
		V1TxSet: &xdr.TransactionSetV1{Phases: []xdr.TransactionPhase{{V0Components: &components}}},
	}
	raw, err := xdr.LedgerCloseMeta{
		V:  2,
		V2: &xdr.LedgerCloseMetaV2{LedgerHeader: header, TxSet: set, TxProcessing: metas},
	}.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
