package ledger_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

func batchOf(first, last uint32, ledgers ...[]byte) []byte {
	raw := binary.BigEndian.AppendUint32(nil, first)
	raw = binary.BigEndian.AppendUint32(raw, last)
	raw = binary.BigEndian.AppendUint32(raw, uint32(len(ledgers)))
	return append(raw, bytes.Join(ledgers, nil)...)
}

func renumbered(t testing.TB, raw []byte, sequence uint32) []byte {
	t.Helper()
	var whole xdr.LedgerCloseMeta
	if err := whole.UnmarshalBinary(raw); err != nil {
		t.Fatal(err)
	}
	whole.V2.LedgerHeader.Header.LedgerSeq = xdr.Uint32(sequence)
	whole.V2.LedgerHeader.Hash = xdr.Hash{byte(sequence)}
	whole.V2.LedgerHeader.Header.PreviousLedgerHash = xdr.Hash{byte(sequence - 1)}
	return marshal(t, whole)
}

func TestBatchesAndLedgers(t *testing.T) {
	a, b := readReal(t, 63092988), readReal(t, 57500008)
	for name, c := range map[string]struct {
		file []byte
		want [][]byte
	}{
		"a ledger":     {a, [][]byte{a}},
		"batch of one": {batchOf(5, 5, a), [][]byte{a}},
		"batch of two": {batchOf(5, 6, a, b), [][]byte{a, b}},
	} {
		got, err := ledger.SplitBatch(c.file)
		if err != nil || !slices.EqualFunc(got, c.want, bytes.Equal) {
			t.Errorf("%s: got %d ledgers (%v), want %d", name, len(got), err, len(c.want))
		}
	}
	for want, file := range map[string][]byte{
		"ledger 2 of a batch of 2":  batchOf(5, 6, a, b[:1000]),
		"4 bytes are left over":     append(batchOf(5, 6, a, b), 0, 0, 0, 0),
		"a ledger that is damaged ": batchOf(5, 5, a[:len(a)-1]),
	} {
		if _, err := ledger.SplitBatch(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A batch must be split even if a ledger has an unknown form, and with the headers of CAP-88.
func TestBatchesOfTomorrow(t *testing.T) {
	strange := marked(0)
	plain := closeLedger(t, 2, payOne(1), strange, payOne(3))
	one := renumbered(t, plain, 101)
	two := makeUnknown(t, renumbered(t, plain, 102), strange, 0)
	three := forge(t, 2,
		xdr.StellarValue{Ext: xdr.StellarValueExt{
			V:                1,
			LcValueSignature: &xdr.LedgerCloseValueSignature{NodeId: xdr.NodeId(xdr.MustAddress(payer))},
		}},
		7)
	three = bytes.Replace(three, append([]byte{0xbb}, make([]byte, 31)...),
		append([]byte{102}, make([]byte, 31)...), 1)
	three = bytes.Replace(three, []byte{0, 0, 0, 100}, []byte{0, 0, 0, 103}, -1)
	four := makeUnknown(t, renumbered(t, plain, 104), strange, 0)
	got, err := ledger.SplitBatch(batchOf(101, 104, one, two, three, four))
	if err != nil || !slices.EqualFunc(got, [][]byte{one, two, three, four}, bytes.Equal) {
		t.Fatalf("got %d ledgers (%v)", len(got), err)
	}
}

// A ledger with milliseconds in its header is measured in a limited part of the file first. This
// one is longer than that.
func TestALongLedgerOfTomorrowInABatch(t *testing.T) {
	long := xdr.ScBytes(make([]byte, 9<<20))
	big := event(usd, "note", xdr.ScVal{Type: xdr.ScValTypeScvBytes, Bytes: &long})
	form := xdr.StellarValueExt{
		V:                1,
		LcValueSignature: &xdr.LedgerCloseValueSignature{NodeId: xdr.NodeId(xdr.MustAddress(payer))},
	}
	one, two := forgeOf(t, 2, xdr.StellarValue{Ext: form}, 7, call(metaV4(1, big), xdr.Memo{})),
		forge(t, 2, xdr.StellarValue{Ext: form}, 8)
	got, err := ledger.SplitBatch(batchOf(7, 9, one, two, one))
	if err != nil || !slices.EqualFunc(got, [][]byte{one, two, one}, bytes.Equal) {
		t.Fatalf("got %d ledgers (%v)", len(got), err)
	}
}

// FuzzSplitBatch checks that splitting a batch always ends, without a panic.
func FuzzSplitBatch(f *testing.F) {
	strange := marked(0)
	plain := closeLedger(f, 2, payOne(1), strange, payOne(3))
	batch := batchOf(101, 103, renumbered(f, plain, 101),
		makeUnknown(f, renumbered(f, plain, 102), strange, 0), renumbered(f, plain, 103))
	for _, seed := range [][]byte{
		plain, batch, batchOf(101, 101, plain),
	} {
		f.Add(seed)
	}
	e := newExtractor(f, passphrase)
	f.Fuzz(func(t *testing.T, file []byte) {
		ledgers, err := ledger.SplitBatch(file)
		if err != nil {
			return
		}
		for _, raw := range ledgers {
			if l, err := e.Extract(raw); err == nil {
				checkPlausible(t, l)
				checkSucceeded(t, l, raw)
			}
		}
	})
}
