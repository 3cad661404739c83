package follower_test

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/internal/stellar/source/lake"
)

// This file crafts ledgers, with all required hashes, for cases that no real network would produce.

const craftedNetwork = "Lumenhook crafted network"

var (
	craftedSender   = craftedAccount(1)
	craftedReceiver = craftedAccount(2)
	craftedIssuer   = craftedAccount(3)
	craftedUSD      = xdr.MustNewCreditAsset("USD", craftedIssuer)
	craftedNative   = xdr.MustNewNativeAsset()
)

func craftedAccount(n byte) string {
	return strkey.MustEncode(strkey.VersionByteAccountID, bytes.Repeat([]byte{n}, 32))
}

// craftedTx is a successful transaction in a crafted ledger. If emitted is set, its only operation
// is a contract call.
type craftedTx struct {
	memo       xdr.Memo
	operations []xdr.Operation
	results    []xdr.OperationResult
	emitted    []xdr.ContractEvent
	noted      []xdr.ContractEvent // added to the events of the first operation, whatever its kind
	strange    strangeness
}

// strangeness says which part of a transaction has an unknown form.
type strangeness int

const (
	known strangeness = iota
	strangeOperation
	strangeResult // and operation
)

// craftedChain is a lake of consecutive crafted ledgers.
type craftedChain struct {
	t        testing.TB
	dir      string
	writer   *lake.Writer
	next     uint32
	previous xdr.Hash
	sent     int // makes each transaction unique
}

func newCraftedChain(t testing.TB) *craftedChain {
	t.Helper()
	dir := t.TempDir()
	w, err := lake.NewWriter(dir, lake.Layout{LedgersPerFile: 1, FilesPerPartition: 1},
		craftedNetwork)
	if err != nil {
		t.Fatal(err)
	}
	return &craftedChain{t: t, dir: dir, writer: w, next: 2, sent: 1_000_000}
}

func (c *craftedChain) source() *lake.Source {
	c.t.Helper()
	store, err := lake.OpenFolder(c.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := lake.New(lake.Config{
		Store:        store,
		Passphrase:   craftedNetwork,
		PollInterval: time.Millisecond,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// add closes a ledger of the given protocol version.
func (c *craftedChain) add(protocol xdr.Uint32, txs ...craftedTx) (sequence uint32) {
	c.t.Helper()
	var strange []func(part []byte) []byte
	change := func(part []byte) []byte {
		for _, change := range strange {
			part = change(part)
		}
		return part
	}
	var envelopes []xdr.TransactionEnvelope
	var results xdr.TransactionResultSet
	var metas []xdr.TransactionResultMetaV1
	for _, x := range txs {
		envelope, pair := c.transaction(&x)
		if x.strange != known {
			strange = append(strange, c.estrange(x, envelope))
		}
		envelopes = append(envelopes, envelope)
		results.Results = append(results.Results, pair)
		metas = append(metas,
			xdr.TransactionResultMetaV1{Result: pair, TxApplyProcessing: x.applied()})
	}
	slices.Reverse(envelopes)
	components := []xdr.TxSetComponent{
		{TxsMaybeDiscountedFee: &xdr.TxSetComponentTxsMaybeDiscountedFee{Txs: envelopes}},
	}
	set := xdr.GeneralizedTransactionSet{V: 1, V1TxSet: &xdr.TransactionSetV1{
		Phases: []xdr.TransactionPhase{{V0Components: &components}},
	}}
	head := xdr.LedgerHeader{
		LedgerVersion:      protocol,
		PreviousLedgerHash: c.previous,
		LedgerSeq:          xdr.Uint32(c.next),
		TxSetResultHash:    sha256.Sum256(change(c.encode(results))),
	}
	head.ScpValue.CloseTime = xdr.TimePoint(1_790_000_000 + c.next*5)
	head.ScpValue.TxSetHash = sha256.Sum256(change(c.encode(set)))
	hash := xdr.Hash(sha256.Sum256(c.encode(head)))
	raw := change(c.encode(xdr.LedgerCloseMeta{V: 2, V2: &xdr.LedgerCloseMetaV2{
		LedgerHeader: xdr.LedgerHeaderHistoryEntry{Hash: hash, Header: head},
		TxSet:        set,
		TxProcessing: metas,
	}}))
	if err := c.writer.Add(c.next, raw); err != nil {
		c.t.Fatal(err)
	}
	c.next, c.previous = c.next+1, hash
	return c.next - 1
}

// transaction creates a transaction with a unique hash, and its result.
func (c *craftedChain) transaction(
	x *craftedTx,
) (xdr.TransactionEnvelope, xdr.TransactionResultPair) {
	c.t.Helper()
	if x.emitted != nil {
		wasm := []byte{}
		x.operations = []xdr.Operation{craftedOperation(xdr.OperationTypeInvokeHostFunction,
			xdr.InvokeHostFunctionOp{HostFunction: xdr.HostFunction{
				Type: xdr.HostFunctionTypeHostFunctionTypeUploadContractWasm,
				Wasm: &wasm,
			}})}
		image := xdr.InvokeHostFunctionSuccessPreImage{
			ReturnValue: xdr.ScVal{Type: xdr.ScValTypeScvVoid},
			Events:      x.emitted,
		}
		events := xdr.Hash(sha256.Sum256(c.encode(image)))
		x.results = []xdr.OperationResult{craftedResult(xdr.OperationTypeInvokeHostFunction,
			xdr.InvokeHostFunctionResult{Success: &events})}
	}
	c.sent++
	envelope := craftedEnvelope(c.sent, *x)
	hash, err := network.HashTransactionInEnvelope(envelope, craftedNetwork)
	if err != nil {
		c.t.Fatal(err)
	}
	return envelope, xdr.TransactionResultPair{TransactionHash: hash, Result: xdr.TransactionResult{
		Result: xdr.TransactionResultResult{Results: &x.results},
	}}
}

func craftedEnvelope(number int, x craftedTx) xdr.TransactionEnvelope {
	return xdr.TransactionEnvelope{
		Type: xdr.EnvelopeTypeEnvelopeTypeTx,
		V1: &xdr.TransactionV1Envelope{Tx: xdr.Transaction{
			SourceAccount: xdr.MustMuxedAddress(craftedSender),
			SeqNum:        xdr.SequenceNumber(number),
			Memo:          x.memo,
			Operations:    x.operations,
		}},
	}
}

func (x *craftedTx) applied() xdr.TransactionMeta {
	v4 := &xdr.TransactionMetaV4{Operations: make([]xdr.OperationMetaV2, len(x.operations))}
	if len(v4.Operations) > 0 {
		v4.Operations[0].Events = append(x.noted, x.emitted...)
	}
	if x.emitted != nil {
		v4.SorobanMeta = &xdr.SorobanTransactionMetaV2{
			ReturnValue: &xdr.ScVal{Type: xdr.ScValTypeScvVoid},
		}
	}
	return xdr.TransactionMeta{V: 4, V4: v4}
}

func (c *craftedChain) encode(v interface{ MarshalBinary() ([]byte, error) }) []byte {
	c.t.Helper()
	raw, err := v.MarshalBinary()
	if err != nil {
		c.t.Fatal(err)
	}
	return raw
}

func craftedOperation(kind xdr.OperationType, body any) xdr.Operation {
	b, err := xdr.NewOperationBody(kind, body)
	if err != nil {
		panic(err)
	}
	return xdr.Operation{Body: b}
}

func craftedResult(kind xdr.OperationType, value any) xdr.OperationResult {
	tr, err := xdr.NewOperationResultTr(kind, value)
	if err != nil {
		panic(err)
	}
	return xdr.OperationResult{Code: xdr.OperationResultCodeOpInner, Tr: &tr}
}

// craftedPayments returns one transaction with count payments of first stroops and up.
func craftedPayments(to string, first, count int) (x craftedTx) {
	for i := range count {
		x.operations = append(x.operations, craftedOperation(xdr.OperationTypePayment, xdr.PaymentOp{
			Destination: xdr.MustMuxedAddress(to),
			Asset:       craftedNative,
			Amount:      xdr.Int64(first + i),
		}))
		x.results = append(x.results, craftedResult(xdr.OperationTypePayment, xdr.PaymentResult{}))
	}
	return x
}

// craftedEvent returns an event that an asset's contract emits. Its topics are its name, the
// addresses and the asset.
func craftedEvent(
	asset xdr.Asset, name string, data xdr.ScVal, parties ...string,
) xdr.ContractEvent {
	topics := []xdr.ScVal{craftedSymbol(name)}
	for _, party := range parties {
		topics = append(topics, craftedAddress(party))
	}
	topics = append(topics, craftedString(asset.StringCanonical()))
	id, err := asset.ContractID(craftedNetwork)
	if err != nil {
		panic(err)
	}
	return xdr.ContractEvent{
		ContractId: (*xdr.ContractId)(&id),
		Type:       xdr.ContractEventTypeContract,
		Body:       xdr.ContractEventBody{V0: &xdr.ContractEventV0{Topics: topics, Data: data}},
	}
}

func craftedSymbol(s string) xdr.ScVal {
	symbol := xdr.ScSymbol(s)
	return xdr.ScVal{Type: xdr.ScValTypeScvSymbol, Sym: &symbol}
}

func craftedString(s string) xdr.ScVal {
	text := xdr.ScString(s)
	return xdr.ScVal{Type: xdr.ScValTypeScvString, Str: &text}
}

func craftedAddress(s string) xdr.ScVal {
	id := xdr.MustAddress(s)
	return xdr.ScVal{Type: xdr.ScValTypeScvAddress, Address: &xdr.ScAddress{
		Type:      xdr.ScAddressTypeScAddressTypeAccount,
		AccountId: &id,
	}}
}

func craftedAmount(hi int64, lo uint64) xdr.ScVal {
	return xdr.ScVal{
		Type: xdr.ScValTypeScvI128,
		I128: &xdr.Int128Parts{Hi: xdr.Int64(hi), Lo: xdr.Uint64(lo)},
	}
}

func craftedMap(entries ...xdr.ScMapEntry) xdr.ScVal {
	m := xdr.ScMap(entries)
	all := &m
	return xdr.ScVal{Type: xdr.ScValTypeScvMap, Map: &all}
}

func craftedEntry(key string, value xdr.ScVal) xdr.ScMapEntry {
	return xdr.ScMapEntry{Key: craftedSymbol(key), Val: value}
}

func deep(levels int) xdr.ScVal {
	value := xdr.ScVal{Type: xdr.ScValTypeScvVoid}
	for range levels {
		within := &xdr.ScVec{value}
		value = xdr.ScVal{Type: xdr.ScValTypeScvVec, Vec: &within}
	}
	return value
}

// strangeMark begins an operation that stands for one of an unknown kind. Its lower 32 bits are
// left for a unique number.
const strangeMark = 0x11223344 << 32

// strangeKind is an operation type far beyond the existing ones.
const strangeKind = 99

// strangely adds an operation to a transaction and says which part of the transaction is strange.
func strangely(x craftedTx, number int, s strangeness) craftedTx {
	x.operations = append(slices.Clone(x.operations),
		craftedOperation(xdr.OperationTypeBumpSequence,
			xdr.BumpSequenceOp{BumpTo: xdr.SequenceNumber(strangeMark + number)}))
	x.results = append(slices.Clone(x.results), craftedResult(xdr.OperationTypeBumpSequence,
		xdr.BumpSequenceResult{}))
	x.strange = s
	return x
}

// estrange returns a function that makes a transaction strange in the same way in each part of its
// ledger.
func (c *craftedChain) estrange(x craftedTx, e xdr.TransactionEnvelope) func([]byte) []byte {
	c.t.Helper()
	last := len(x.operations) - 1
	operation := c.encode(x.operations[last])[4:]
	before := c.encode(e)
	after := bytes.Replace(before, operation,
		append([]byte{0, 0, 0, strangeKind}, bytes.Repeat(operation[4:], 5)...), 1)
	was, err := network.HashTransactionInEnvelope(e, craftedNetwork)
	if err != nil {
		c.t.Fatal(err)
	}
	id, noSignatures := network.ID(craftedNetwork), 4
	is := sha256.Sum256(append(id[:], after[:len(after)-noSignatures]...))
	result := c.encode(x.results[last])
	longer := append([]byte{0, 0, 0, 0, 0, 0, 0, strangeKind}, bytes.Repeat(result[8:], 5)...)
	return func(part []byte) []byte {
		part = bytes.ReplaceAll(bytes.Replace(part, before, after, 1), was[:], is[:])
		if x.strange == strangeResult {
			part = bytes.Replace(part, result, longer, 1)
		}
		return part
	}
}
