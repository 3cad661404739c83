package ledger_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// bumpTo marks the operation that becomes one of an unknown kind.
const bumpTo = 0x1122334455667788

// unknownKind is an operation type far beyond the current ones.
const unknownKind = 99

func marked(n int64) testTx {
	return testTx{
		operations: []xdr.Operation{
			operation(xdr.OperationTypeBumpSequence,
				xdr.BumpSequenceOp{BumpTo: xdr.SequenceNumber(bumpTo + n)}),
			payTo(receiver, native, 1),
		},
		results: []xdr.OperationResult{
			resultOf(xdr.OperationTypeBumpSequence,
				xdr.BumpSequenceResult{Code: xdr.BumpSequenceResultCodeBumpSequenceSuccess}),
			paid(),
		},
		meta: metaV4(2),
	}
}

func payOne(stroops int64) testTx {
	return testTx{
		operations: []xdr.Operation{payTo(receiver, native, stroops)},
		results:    []xdr.OperationResult{paid()},
		meta:       metaV4(1),
	}
}

// makeUnknown turns the marked operation of a transaction into one of an unknown
// kind, with more in it than it had, and names the transaction by its new hash.
func makeUnknown(t testing.TB, raw []byte, x testTx, n int64) []byte {
	t.Helper()
	before := marshal(t, x.envelope())
	after, old, hash := unknownForm(t, x, n)
	if bytes.Equal(before, after) || !bytes.Contains(raw, before) {
		t.Fatal("the marked transaction is not in the ledger")
	}
	raw = bytes.Replace(raw, before, after, 1)
	return bytes.ReplaceAll(raw, old[:], hash[:])
}

// renamed names a marked transaction by its new hash.
func renamed(t testing.TB, raw []byte, x testTx) []byte {
	t.Helper()
	_, old, hash := unknownForm(t, x, 0)
	return bytes.ReplaceAll(raw, old[:], hash[:])
}

func unknownForm(t testing.TB, x testTx, n int64) (after []byte, old, hash [32]byte) {
	t.Helper()
	envelope := x.envelope()
	old, err := network.HashTransactionInEnvelope(envelope, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	before := marshal(t, envelope)
	operation := binary.BigEndian.AppendUint64([]byte{0, 0, 0, byte(xdr.OperationTypeBumpSequence)},
		uint64(bumpTo+n))
	strange := append([]byte{0, 0, 0, unknownKind},
		bytes.Repeat([]byte{0, 0, 0, 0, 0xab, 0xcd, 0xef, byte(n)}, 9)...)
	after = bytes.Replace(before, operation, strange, 1)
	signaturesSizeBytes := 4 // none
	id := network.ID(passphrase)
	return after, old, sha256.Sum256(append(id[:], after[:len(after)-signaturesSizeBytes]...))
}

// unreadable checks that a ledger is refused because of an unknown form.
func unreadable(t testing.TB, raw []byte) {
	t.Helper()
	l, err := newExtractor(t, passphrase).Extract(raw)
	if err == nil || !strings.Contains(err.Error(), "upgrade lumenhook") {
		t.Errorf("got %d payments of %d transactions (%v)", len(l.Payments), l.Transactions, err)
	}
}

// A transaction of an unknown form may contain a payment, so its ledger is not read without it.
func TestALedgerWithAnUnknownFormIsNotRead(t *testing.T) {
	for version := range int32(3) {
		for place := range 5 {
			for _, bumped := range []bool{false, true} {
				txs := []testTx{payOne(1), payOne(2), payOne(3), payOne(4)}
				strange := marked(0)
				strange.feeBump = bumped
				txs = slices.Insert(txs, place, strange)
				unreadable(t, makeUnknown(t, closeLedger(t, version, txs...), strange, 0))
			}
		}
	}
}

// An unknown form of a result, or of an address in the meta, is in the applied part, while the
// envelope is unchanged.
func TestUnknownResultsAndEvents(t *testing.T) {
	strange := marked(0)
	raw := closeLedger(t, 2, payOne(1), strange, payOne(3))
	result := []byte{0, 0, 0, 0, 0, 0, 0, byte(xdr.OperationTypeBumpSequence), 0, 0, 0, 0, 0, 0, 0, 0}
	if bytes.Count(raw, result) != 1 {
		t.Fatal("the result is not there once")
	}
	unreadable(t, bytes.Replace(raw, result,
		[]byte{0, 0, 0, 0, 0, 0, 0, unknownKind, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0}, 1))

	// A muxed contract (CAP-84, W…) is an address of type 5 with an id.
	other := strkey.MustEncode(strkey.VersionByteContract, bytes.Repeat([]byte{0x5c}, 32))
	called := call(metaV4(1, event(usd, "transfer", amountValue(0, 5), other, receiver)), xdr.Memo{})
	raw = closeLedger(t, 2, payOne(1), called, payOne(3))
	address := marshal(t, *addressValue(other).Address)
	if bytes.Count(raw, address) != 1 {
		t.Fatal("the address is not there once")
	}
	muxed := slices.Concat([]byte{0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9}, address[4:])
	unreadable(t, bytes.Replace(raw, address, muxed, 1))
}
