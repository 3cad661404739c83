package ledger_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// bumpTo marks the operation that will become unknown.
const bumpTo = 0x1122334455667788

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

// makeUnknown changes the marked operation of a transaction to an unknown kind with a longer
// body, and gives the transaction its new hash.
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

// renamed gives a marked transaction its new hash.
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

func TestAnUnknownOperationQuarantinesItsTransactionAlone(t *testing.T) {
	for version := range int32(3) {
		for place := range 5 {
			for _, bumped := range []bool{false, true} {
				txs := []testTx{payOne(1), payOne(2), payOne(3), payOne(4)}
				strange := marked(0)
				strange.feeBump = bumped
				txs = slices.Insert(txs, place, strange)
				l := extract(t, passphrase, makeUnknown(t, closeLedger(t, version, txs...), strange, 0))
				var want []string
				for i, x := range txs {
					if i != place {
						want = append(want,
							in100(i+1, 1)+" payment sender>receiver "+string(
								'0'+byte(x.operations[0].Body.PaymentOp.Amount),
							)+" XLM")
					}
				}
				checkPayments(t, l, want...)
				checkQuarantined(t, l, "a form that this program does not know")
				if l.Quarantined[0].Order != place+1 || l.Transactions != 5 {
					t.Errorf("version %d: transaction %d of %d is quarantined, want %d of 5", version,
						l.Quarantined[0].Order, l.Transactions, place+1)
				}
			}
		}
	}
}

func TestSeveralUnknownTransactions(t *testing.T) {
	txs := []testTx{marked(1), marked(2), payOne(1), everyOperation(metaV4(7)), marked(3), marked(4)}
	txs[4].failed = true // its contents do not matter then
	raw := closeLedger(t, 2, txs...)
	for i, n := range map[int]int64{0: 1, 1: 2, 4: 3, 5: 4} {
		raw = makeUnknown(t, raw, txs[i], n)
	}
	l := extract(t, passphrase, raw)
	checkPayments(t, l,
		append([]string{in100(3, 1) + " payment sender>receiver 1 XLM"}, wantEveryOperation(4)...)...)
	checkQuarantined(t, l, "does not know", "does not know", "does not know")
}

// An unknown form of a result, or of an address in the meta, is in the applied part, and the
// envelope is unchanged.
func TestUnknownResultsAndEvents(t *testing.T) {
	strange := marked(0)
	raw := closeLedger(t, 2, payOne(1), strange, payOne(3))
	result := []byte{0, 0, 0, 0, 0, 0, 0, byte(xdr.OperationTypeBumpSequence), 0, 0, 0, 0, 0, 0, 0, 0}
	if bytes.Count(raw, result) != 1 {
		t.Fatal("the result is not there once")
	}
	l := extract(t, passphrase,
		bytes.Replace(raw, result,
			[]byte{0, 0, 0, 0, 0, 0, 0, unknownKind, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0}, 1))
	checkPayments(t, l, in100(1, 1)+" payment sender>receiver 1 XLM",
		in100(3, 1)+" payment sender>receiver 3 XLM")
	checkQuarantined(t, l, "discriminant")

	other := strkey.MustEncode(strkey.VersionByteContract, bytes.Repeat([]byte{0x5c}, 32))
	called := call(metaV4(1, event(usd, "transfer", amountValue(0, 5), other, receiver)), xdr.Memo{})
	raw = closeLedger(t, 2, payOne(1), called, payOne(3))
	address := marshal(t, *addressValue(other).Address)
	if bytes.Count(raw, address) != 1 {
		t.Fatal("the address is not there once")
	}
	l = extract(t, passphrase, bytes.Replace(raw, address, append([]byte{0, 0, 0, 77}, address...), 1))
	checkPayments(t, l, in100(1, 1)+" payment sender>receiver 1 XLM",
		in100(3, 1)+" payment sender>receiver 3 XLM")
	checkQuarantined(t, l, "discriminant")
}

// If a client manages to have the hash of a transaction written elsewhere in the ledger, it might
// forge the transaction's effects, so the whole ledger must be rejected.
func TestAHashInTwoPlacesLeavesTheLedgerUnread(t *testing.T) {
	strange, victim := marked(0), payOne(9)
	hash, err := network.HashTransactionInEnvelope(victim.envelope(), passphrase)
	if err != nil {
		t.Fatal(err)
	}
	forged := event(usd, "transfer", amountValue(0, 1), sender, receiver)
	contents := xdr.ScBytes(append([]byte{0, 0, 0, 0}, marshal(t, victim.result(hash))...))
	forged.Body.V0.Data = xdr.ScVal{Type: xdr.ScValTypeScvBytes, Bytes: &contents}
	strange.meta = metaV4(2, forged)
	raw := makeUnknown(t, closeLedger(t, 2, strange, victim), strange, 0)
	if l, err := newExtractor(t, passphrase).Extract(raw); err == nil {
		t.Errorf("it was read: %+v", l)
	}
}

func TestUnknownFormsOnAnotherNetworkAndCutShort(t *testing.T) {
	strange := marked(0)
	raw := makeUnknown(t, closeLedger(t, 2, payOne(1), strange, payOne(3)), strange, 0)
	if _, err := newExtractor(t, publicNetwork).Extract(raw); err == nil {
		t.Error("a ledger of another network passed")
	}
	e := newExtractor(t, passphrase)
	for size := range len(raw) / 4 {
		l, err := e.Extract(raw[:size*4])
		if err == nil {
			checkPayments(t, l, in100(1, 1)+" payment sender>receiver 1 XLM",
				in100(3, 1)+" payment sender>receiver 3 XLM")
		}
	}
}
