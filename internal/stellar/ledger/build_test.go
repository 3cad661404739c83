package ledger_test

import (
	"slices"
	"testing"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// This file builds ledgers by hand, for cases that the real ones do not contain.

const passphrase = "Lumenhook test network"

var (
	sender   = account(1)
	receiver = account(2)
	issuer   = account(3)
	payer    = account(4)
	native   = xdr.MustNewNativeAsset()
	usd      = xdr.MustNewCreditAsset("USD", issuer)
	longCode = xdr.MustNewCreditAsset("LUMENHOOK", issuer)
)

func account(n byte) string {
	key := slices.Repeat([]byte{n}, 32)
	return strkey.MustEncode(strkey.VersionByteAccountID, key)
}

func muxed(address string, id uint64) xdr.MuxedAccount {
	key := xdr.MustAddress(address).Ed25519
	return xdr.MuxedAccount{
		Type:     xdr.CryptoKeyTypeKeyTypeMuxedEd25519,
		Med25519: &xdr.MuxedAccountMed25519{Id: xdr.Uint64(id), Ed25519: *key},
	}
}

// testTx is a transaction with one source. With feeBump, another account pays the fee.
type testTx struct {
	source     xdr.MuxedAccount // sender if omitted
	memo       xdr.Memo
	operations []xdr.Operation
	results    []xdr.OperationResult
	failed     bool
	feeBump    bool
	v0         bool
	meta       xdr.TransactionMeta
}

func (x testTx) envelope() xdr.TransactionEnvelope {
	source := x.source
	if source.Ed25519 == nil && source.Med25519 == nil {
		source = xdr.MustMuxedAddress(sender)
	}
	tx := xdr.Transaction{
		SourceAccount: source,
		Fee:           100,
		SeqNum:        7,
		Memo:          x.memo,
		Operations:    x.operations,
	}
	switch {
	case x.v0:
		return xdr.TransactionEnvelope{
			Type: xdr.EnvelopeTypeEnvelopeTypeTxV0,
			V0: &xdr.TransactionV0Envelope{Tx: xdr.TransactionV0{
				SourceAccountEd25519: *source.Ed25519,
				Fee:                  100,
				SeqNum:               7,
				Memo:                 x.memo,
				Operations:           x.operations}},
		}
	case x.feeBump:
		inner := xdr.FeeBumpTransactionInnerTx{
			Type: xdr.EnvelopeTypeEnvelopeTypeTx,
			V1:   &xdr.TransactionV1Envelope{Tx: tx},
		}
		return xdr.TransactionEnvelope{
			Type: xdr.EnvelopeTypeEnvelopeTypeTxFeeBump,
			FeeBump: &xdr.FeeBumpTransactionEnvelope{
				Tx: xdr.FeeBumpTransaction{FeeSource: xdr.MustMuxedAddress(payer), Fee: 400, InnerTx: inner}},
		}
	}
	return xdr.TransactionEnvelope{
		Type: xdr.EnvelopeTypeEnvelopeTypeTx,
		V1:   &xdr.TransactionV1Envelope{Tx: tx},
	}
}

func (x testTx) result(hash [32]byte) xdr.TransactionResultPair {
	code, bumpCode := xdr.TransactionResultCodeTxSuccess,
		xdr.TransactionResultCodeTxFeeBumpInnerSuccess
	if x.failed {
		code, bumpCode = xdr.TransactionResultCodeTxFailed, xdr.TransactionResultCodeTxFeeBumpInnerFailed
	}
	pair := xdr.TransactionResultPair{
		TransactionHash: hash,
		Result:          xdr.TransactionResult{FeeCharged: 100},
	}
	pair.Result.Result = xdr.TransactionResultResult{Code: code, Results: &x.results}
	if x.feeBump {
		inner := xdr.InnerTransactionResultPair{
			TransactionHash: xdr.Hash{9},
			Result: xdr.InnerTransactionResult{Result: xdr.InnerTransactionResultResult{
				Code:    code,
				Results: &x.results,
			}},
		}
		pair.Result.Result = xdr.TransactionResultResult{Code: bumpCode, InnerResultPair: &inner}
	}
	return pair
}

// closeLedger builds ledger 100 in a version of LedgerCloseMeta. The set lists the envelopes in
// reverse, because no network guarantees an order.
func closeLedger(t testing.TB, version int32, txs ...testTx) []byte {
	t.Helper()
	header := xdr.LedgerHeaderHistoryEntry{Hash: xdr.Hash{0xaa}, Header: xdr.LedgerHeader{
		LedgerVersion:      23,
		PreviousLedgerHash: xdr.Hash{0xbb},
		LedgerSeq:          100,
		ScpValue: xdr.StellarValue{
			CloseTime: xdr.TimePoint(closedAt().Unix()),
			Upgrades:  []xdr.UpgradeType{{1, 2, 3}, {4, 5, 6, 7}},
		},
	}}
	var (
		envelopes []xdr.TransactionEnvelope
		metas     []xdr.TransactionResultMeta
		metasV1   []xdr.TransactionResultMetaV1
	)
	for _, x := range txs {
		envelope := x.envelope()
		hash, err := network.HashTransactionInEnvelope(envelope, passphrase)
		if err != nil {
			t.Fatal(err)
		}
		envelopes = append(envelopes, envelope)
		metas = append(metas, xdr.TransactionResultMeta{
			Result:            x.result(hash),
			TxApplyProcessing: x.meta,
		})
		metasV1 = append(metasV1,
			xdr.TransactionResultMetaV1{Result: x.result(hash), TxApplyProcessing: x.meta})
	}
	slices.Reverse(envelopes)
	meta := xdr.LedgerCloseMeta{V: version}
	switch version {
	case 0:
		meta.V0 = &xdr.LedgerCloseMetaV0{
			LedgerHeader: header,
			TxSet:        xdr.TransactionSet{Txs: envelopes},
			TxProcessing: metas,
		}
	case 1:
		ext := xdr.LedgerCloseMetaExt{V: 1, V1: &xdr.LedgerCloseMetaExtV1{SorobanFeeWrite1Kb: 5}}
		meta.V1 = &xdr.LedgerCloseMetaV1{
			Ext:          ext,
			LedgerHeader: header,
			TxSet:        setOf(envelopes),
			TxProcessing: metas,
		}
	case 2:
		meta.V2 = &xdr.LedgerCloseMetaV2{
			LedgerHeader: header,
			TxSet:        setOf(envelopes),
			TxProcessing: metasV1,
		}
	}
	return marshal(t, meta)
}

// setOf distributes envelopes over both kinds of phase.
func setOf(envelopes []xdr.TransactionEnvelope) xdr.GeneralizedTransactionSet {
	half := len(envelopes) / 2
	components := []xdr.TxSetComponent{
		{TxsMaybeDiscountedFee: &xdr.TxSetComponentTxsMaybeDiscountedFee{Txs: envelopes[:half]}},
	}
	stages := []xdr.ParallelTxExecutionStage{{xdr.DependentTxCluster(envelopes[half:])}}
	return xdr.GeneralizedTransactionSet{
		V: 1,
		V1TxSet: &xdr.TransactionSetV1{Phases: []xdr.TransactionPhase{
			{V: 0, V0Components: &components},
			{V: 1, ParallelTxsComponent: &xdr.ParallelTxsComponent{ExecutionStages: stages}},
		}},
	}
}

func marshal(t testing.TB, v interface{ MarshalBinary() ([]byte, error) }) []byte {
	t.Helper()
	raw, err := v.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func metaV0() xdr.TransactionMeta {
	return xdr.TransactionMeta{V: 0, Operations: new([]xdr.OperationMeta)}
}

func metaV1() xdr.TransactionMeta { return xdr.TransactionMeta{V: 1, V1: &xdr.TransactionMetaV1{}} }

func metaV2() xdr.TransactionMeta { return xdr.TransactionMeta{V: 2, V2: &xdr.TransactionMetaV2{}} }

func metaV3(events ...xdr.ContractEvent) xdr.TransactionMeta {
	return xdr.TransactionMeta{
		V: 3,
		V3: &xdr.TransactionMetaV3{SorobanMeta: &xdr.SorobanTransactionMeta{
			Events:      events,
			ReturnValue: xdr.ScVal{Type: xdr.ScValTypeScvVoid},
		}},
	}
}

func metaV4(operations int, events ...xdr.ContractEvent) xdr.TransactionMeta {
	metas := make([]xdr.OperationMetaV2, operations)
	metas[0].Events = events
	return xdr.TransactionMeta{V: 4, V4: &xdr.TransactionMetaV4{Operations: metas}}
}

func operation(t xdr.OperationType, body any) xdr.Operation {
	b, err := xdr.NewOperationBody(t, body)
	if err != nil {
		panic(err)
	}
	return xdr.Operation{Body: b}
}

func by(source xdr.MuxedAccount, op xdr.Operation) xdr.Operation {
	op.SourceAccount = &source
	return op
}

func payTo(to string, asset xdr.Asset, stroops int64) xdr.Operation {
	return payMuxed(xdr.MustMuxedAddress(to), asset, stroops)
}

func payMuxed(to xdr.MuxedAccount, asset xdr.Asset, stroops int64) xdr.Operation {
	return operation(xdr.OperationTypePayment,
		xdr.PaymentOp{Destination: to, Asset: asset, Amount: xdr.Int64(stroops)})
}

func createAccount(to string, stroops int64) xdr.Operation {
	return operation(xdr.OperationTypeCreateAccount,
		xdr.CreateAccountOp{Destination: xdr.MustAddress(to), StartingBalance: xdr.Int64(stroops)})
}

func mergeInto(to string) xdr.Operation {
	return operation(xdr.OperationTypeAccountMerge, xdr.MustMuxedAddress(to))
}

func strictReceive(to string, stroops int64) xdr.Operation {
	return operation(xdr.OperationTypePathPaymentStrictReceive, xdr.PathPaymentStrictReceiveOp{
		SendAsset:   native,
		SendMax:     9999,
		Destination: xdr.MustMuxedAddress(to),
		DestAsset:   usd,
		DestAmount:  xdr.Int64(stroops)})
}

func strictSend(to string, least int64) xdr.Operation {
	return operation(xdr.OperationTypePathPaymentStrictSend, xdr.PathPaymentStrictSendOp{
		SendAsset:   native,
		SendAmount:  9999,
		Destination: xdr.MustMuxedAddress(to),
		DestAsset:   longCode,
		DestMin:     xdr.Int64(least)})
}

func invoke() xdr.Operation {
	wasm := []byte{}
	return operation(xdr.OperationTypeInvokeHostFunction, xdr.InvokeHostFunctionOp{
		HostFunction: xdr.HostFunction{
			Type: xdr.HostFunctionTypeHostFunctionTypeUploadContractWasm,
			Wasm: &wasm,
		}})
}

func resultOf(t xdr.OperationType, value any) xdr.OperationResult {
	tr, err := xdr.NewOperationResultTr(t, value)
	if err != nil {
		panic(err)
	}
	return xdr.OperationResult{Code: xdr.OperationResultCodeOpInner, Tr: &tr}
}

func paid() xdr.OperationResult {
	return resultOf(xdr.OperationTypePayment,
		xdr.PaymentResult{Code: xdr.PaymentResultCodePaymentSuccess})
}

func created() xdr.OperationResult {
	return resultOf(xdr.OperationTypeCreateAccount,
		xdr.CreateAccountResult{Code: xdr.CreateAccountResultCodeCreateAccountSuccess})
}

func merged(stroops int64) xdr.OperationResult {
	balance := xdr.Int64(stroops)
	return resultOf(xdr.OperationTypeAccountMerge,
		xdr.AccountMergeResult{
			Code:                 xdr.AccountMergeResultCodeAccountMergeSuccess,
			SourceAccountBalance: &balance,
		})
}

func received(stroops int64) xdr.OperationResult {
	return resultOf(xdr.OperationTypePathPaymentStrictReceive, xdr.PathPaymentStrictReceiveResult{
		Code: xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveSuccess,
		Success: &xdr.PathPaymentStrictReceiveResultSuccess{Last: xdr.SimplePaymentResult{
			Destination: xdr.MustAddress(receiver),
			Asset:       usd,
			Amount:      xdr.Int64(stroops),
		}}})
}

func sent(stroops int64) xdr.OperationResult {
	return resultOf(xdr.OperationTypePathPaymentStrictSend, xdr.PathPaymentStrictSendResult{
		Code: xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendSuccess,
		Success: &xdr.PathPaymentStrictSendResultSuccess{Last: xdr.SimplePaymentResult{
			Destination: xdr.MustAddress(receiver),
			Asset:       longCode,
			Amount:      xdr.Int64(stroops),
		}}})
}

func invoked() xdr.OperationResult {
	return resultOf(xdr.OperationTypeInvokeHostFunction, xdr.InvokeHostFunctionResult{
		Code:    xdr.InvokeHostFunctionResultCodeInvokeHostFunctionSuccess,
		Success: &xdr.Hash{}})
}

func contractOf(asset xdr.Asset) xdr.ContractId {
	id, err := asset.ContractID(passphrase)
	if err != nil {
		panic(err)
	}
	return id
}

func event(asset xdr.Asset, name string, data xdr.ScVal, parties ...string) xdr.ContractEvent {
	topics := []xdr.ScVal{symbol(name)}
	for _, party := range parties {
		topics = append(topics, addressValue(party))
	}
	assetName := xdr.ScString(asset.StringCanonical())
	topics = append(topics, xdr.ScVal{Type: xdr.ScValTypeScvString, Str: &assetName})
	id := contractOf(asset)
	return xdr.ContractEvent{
		ContractId: &id,
		Type:       xdr.ContractEventTypeContract,
		Body:       xdr.ContractEventBody{V: 0, V0: &xdr.ContractEventV0{Topics: topics, Data: data}},
	}
}

func symbol(s string) xdr.ScVal {
	sym := xdr.ScSymbol(s)
	return xdr.ScVal{Type: xdr.ScValTypeScvSymbol, Sym: &sym}
}

func addressValue(s string) xdr.ScVal {
	a := xdr.ScAddress{Type: xdr.ScAddressTypeScAddressTypeContract}
	if s[0] == 'G' {
		id := xdr.MustAddress(s)
		a = xdr.ScAddress{Type: xdr.ScAddressTypeScAddressTypeAccount, AccountId: &id}
	} else {
		id := xdr.ContractId(strkey.MustDecode(strkey.VersionByteContract, s))
		a.ContractId = &id
	}
	return xdr.ScVal{Type: xdr.ScValTypeScvAddress, Address: &a}
}

func amountValue(hi int64, lo uint64) xdr.ScVal {
	return xdr.ScVal{
		Type: xdr.ScValTypeScvI128,
		I128: &xdr.Int128Parts{Hi: xdr.Int64(hi), Lo: xdr.Uint64(lo)},
	}
}

func amountWithID(lo, id uint64) xdr.ScVal {
	u := xdr.Uint64(id)
	m := &xdr.ScMap{
		{Key: symbol("amount"), Val: amountValue(0, lo)},
		{Key: symbol("to_muxed_id"), Val: xdr.ScVal{Type: xdr.ScValTypeScvU64, U64: &u}},
	}
	return xdr.ScVal{Type: xdr.ScValTypeScvMap, Map: &m}
}
