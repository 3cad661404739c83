package ledger_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

func verify(raw []byte, passphrase string) error {
	_, err := ledger.Verify(ledger.Raw{XDR: raw}, passphrase)
	return err
}

func TestRealLedgersAreWhatTheirHashesSay(t *testing.T) {
	for _, sequence := range slices.Concat(realLedgers, otherLedgers) {
		raw := readReal(t, sequence)
		if err := verify(raw, publicNetwork); err != nil {
			t.Errorf("ledger %d: %v", sequence, err)
		}
		// Only transactions belong to a network. A ledger without any could belong to every
		// network.
		if empty := sequence == 6154623; (verify(raw, passphrase) == nil) != empty {
			t.Errorf("ledger %d passes for one of another network", sequence)
		}
	}
}

// span is a part of a ledger that a hash covers.
type span struct{ from, to int }

// hashCovered finds the bytes that the hashes of a ledger cover, using the SDK's decoder.
func hashCovered(t testing.TB, raw []byte) map[string][]span {
	t.Helper()
	var whole xdr.LedgerCloseMeta
	if err := whole.UnmarshalBinary(raw); err != nil {
		t.Fatal(err)
	}
	at, spans := 0, map[string][]span{}
	find := func(kind string, v interface{ MarshalBinary() ([]byte, error) }) {
		t.Helper()
		part := marshal(t, v)
		place := bytes.Index(raw[at:], part)
		if place < 0 {
			t.Fatalf("the ledger's %s is not found", kind)
		}
		at += place
		spans[kind] = append(spans[kind], span{at, at + len(part)})
		at += len(part)
	}
	entry := whole.LedgerHeaderHistoryEntry()
	find("header", xdr.LedgerHeaderHistoryEntry{Hash: entry.Hash, Header: entry.Header})
	spans["header"][0].to -= 4 // an extension that is not a part of the header
	find("transaction set", setIn(whole))
	for i := range whole.CountTransactions() {
		pair := whole.TransactionResultPair(i)
		find("result", pair)
		results, _ := pair.Result.OperationResults()
		if !pair.Result.Successful() || len(results) != 1 ||
			results[0].Tr.Type != xdr.OperationTypeInvokeHostFunction {
			continue
		}
		meta := whole.TxApplyProcessing(i)
		image := xdr.InvokeHostFunctionSuccessPreImage{
			ReturnValue: xdr.ScVal{Type: xdr.ScValTypeScvVoid},
			Events:      meta.MustV4().Operations[0].Events,
		}
		find("events", encoded(marshal(t, image)[4:]))
		v4 := *meta.V4
		whole := marshal(t, v4)
		v4.Events, v4.DiagnosticEvents = nil, nil
		end := bytes.Index(raw[spans["result"][i].to:], whole) + spans["result"][i].to
		end += len(marshal(t, v4)) - 8 // two empty lists
		spans["return value"] = append(spans["return value"],
			span{end - len(marshal(t, v4.SorobanMeta.ReturnValue)), end})
	}
	return spans
}

type encoded []byte

func (e encoded) MarshalBinary() ([]byte, error) { return e, nil }

func setIn(whole xdr.LedgerCloseMeta) interface{ MarshalBinary() ([]byte, error) } {
	switch whole.V {
	case 0:
		return whole.V0.TxSet
	case 1:
		return whole.V1.TxSet
	}
	return whole.V2.TxSet
}

// changes is the number of changed bytes in all ledgers together.
const changes = 10_000

// Changing any byte that a hash covers must make verification fail. Half of the changes flip one
// bit.
func TestNoChangeOfWhatAHashCoversPasses(t *testing.T) {
	random := rand.New(rand.NewPCG(16, 1))
	var kinds []string
	tried := map[string]int{}
	for n, sequence := range realLedgers {
		raw := readReal(t, sequence)
		spans := hashCovered(t, raw)
		kinds = kinds[:0]
		for kind := range spans {
			kinds = append(kinds, kind)
		}
		slices.Sort(kinds)
		for range (changes + n) / len(realLedgers) {
			kind := kinds[random.IntN(len(kinds))]
			part := spans[kind][random.IntN(len(spans[kind]))]
			at := part.from + random.IntN(part.to-part.from)
			before, change := raw[at], byte(1)<<random.IntN(8)
			if random.IntN(2) == 0 {
				change = byte(1 + random.IntN(255))
			}
			raw[at] ^= change
			if err := verify(raw, publicNetwork); err == nil {
				t.Fatalf("ledger %d: byte %d of its %s, %#x instead of %#x, passed", sequence, at, kind,
					raw[at], before)
			}
			raw[at] = before
			tried[kind]++
		}
	}
	total := 0
	for _, n := range tried {
		total += n
	}
	if t.Logf("%d changes were refused: %v", total, tried); total != changes || len(tried) != 5 {
		t.Errorf("%d changes were tried, want %d in 5 kinds of parts", total, changes)
	}
}

// sealed gives a ledger the hashes that it should have. In every part, change may add forms that
// the SDK cannot encode.
func sealed(
	t testing.TB, raw []byte, protocol xdr.Uint32, change func(part []byte) []byte,
) []byte {
	t.Helper()
	var whole xdr.LedgerCloseMeta
	if err := whole.UnmarshalBinary(raw); err != nil {
		t.Fatal(err)
	}
	if change == nil {
		change = bytes.Clone
	}
	set := change(marshal(t, setIn(whole)))
	if whole.V == 0 {
		set = slices.Concat(set[:32], set[36:]) // without the number of transactions
	}
	var results xdr.TransactionResultSet
	for i := range whole.CountTransactions() {
		results.Results = append(results.Results, whole.TransactionResultPair(i))
	}
	was := whole.LedgerHeaderHistoryEntry()
	is := was
	is.Header.LedgerVersion = protocol
	is.Header.ScpValue.TxSetHash = sha256.Sum256(set)
	is.Header.TxSetResultHash = sha256.Sum256(change(marshal(t, results)))
	is.Hash = sha256.Sum256(marshal(t, is.Header))
	return bytes.Replace(change(raw), marshal(t, was), marshal(t, is), 1)
}

// Every form of ledger must be verified, and rejected if its set, its results or its header
// belong to another ledger.
func TestLedgersOfEveryForm(t *testing.T) {
	called := call(metaV4(1, event(usd, "transfer", amountValue(0, 1), sender, receiver)), xdr.Memo{})
	withHash(t, &called)
	old := call(metaV3(event(usd, "mint", amountValue(0, 1), issuer, receiver)), xdr.Memo{})
	withHash(t, &old)
	bumped := payOne(4)
	bumped.feeBump = true
	v0 := payOne(5)
	v0.v0, v0.source = true, xdr.MustMuxedAddress(sender)
	for version := range int32(3) {
		txs := []testTx{payOne(1), payOne(2), bumped, v0, everyOperation(metaV4(7))}
		if version > 0 {
			txs = append(txs, called, old)
		}
		raw := sealed(t, closeLedger(t, version, txs...), 23, nil)
		if err := verify(raw, passphrase); err != nil {
			t.Errorf("version %d: %v", version, err)
		}
		if err := verify(sealed(t, closeLedger(t, version), 23, nil), passphrase); err != nil {
			t.Errorf("version %d without transactions: %v", version, err)
		}
		others := map[string][]testTx{"an amount": slices.Clone(txs), "a failure": slices.Clone(txs)}
		others["an amount"][0] = payOne(9)
		others["a failure"][1].failed = true
		for what, other := range others {
			entry := func(raw []byte) []byte {
				var whole xdr.LedgerCloseMeta
				if err := whole.UnmarshalBinary(raw); err != nil {
					t.Fatal(err)
				}
				return marshal(t, whole.LedgerHeaderHistoryEntry())
			}
			false1 := closeLedger(t, version, other...)
			false1 = bytes.Replace(false1, entry(false1), entry(raw), 1)
			if err := verify(false1, passphrase); !errors.Is(err, ledger.ErrNotProved) {
				t.Errorf("version %d: a ledger in which %s differs: %v", version, what, err)
			}
		}
	}
}

// withHash puts the hash of a call's events into its result.
func withHash(t testing.TB, x *testTx) {
	t.Helper()
	image := xdr.InvokeHostFunctionSuccessPreImage{ReturnValue: xdr.ScVal{Type: xdr.ScValTypeScvVoid}}
	if x.meta.V == 3 {
		x.meta.V3.SorobanMeta.ReturnValue = image.ReturnValue
		image.Events = x.meta.V3.SorobanMeta.Events
	} else {
		x.meta.V4.SorobanMeta = &xdr.SorobanTransactionMetaV2{ReturnValue: &image.ReturnValue}
		image.Events = x.meta.V4.Operations[0].Events
	}
	hash := xdr.Hash(sha256.Sum256(marshal(t, image)))
	x.results = []xdr.OperationResult{resultOf(xdr.OperationTypeInvokeHostFunction,
		xdr.InvokeHostFunctionResult{Success: &hash})}
}

// A call must be rejected if its events differ from those in the result, or are missing.
func TestFalseEventsAreRefused(t *testing.T) {
	amount := func(n uint64) xdr.TransactionMeta {
		return metaV4(1, event(usd, "transfer", amountValue(0, n), sender, receiver))
	}
	right := call(amount(1), xdr.Memo{})
	withHash(t, &right)
	other := call(amount(2), xdr.Memo{})
	withHash(t, &other)
	older := metaV3(event(usd, "transfer", amountValue(0, 2), sender, receiver))
	none := right.meta
	v4 := *none.V4
	v4.SorobanMeta, none.V4 = nil, &v4
	for name, meta := range map[string]xdr.TransactionMeta{
		"another amount": other.meta, "another version": older, "no return value": none,
		"no events": metaV0(), "events of two operations": metaV4(2),
	} {
		false1 := right
		false1.meta = meta
		raw := sealed(t, closeLedger(t, 2, payOne(1), false1), 23, nil)
		if err := verify(raw, passphrase); !errors.Is(err, ledger.ErrNotProved) {
			t.Errorf("%s: %v", name, err)
		}
	}
	right.failed = true // a failed call has no payments, and no hash covers it
	right.meta = metaV0()
	raw := sealed(t, closeLedger(t, 2, right), 23, nil)
	if err := verify(raw, passphrase); err != nil {
		t.Error(err)
	}
}

// A newer protocol may have unknown forms. The proved parts around them are read. A known
// protocol has no unknown forms.
func TestUnknownFormsAreProvedOrRefused(t *testing.T) {
	strange := marked(0)
	plain := closeLedger(t, 2, payOne(1), strange, payOne(3))
	makeStrange := func(part []byte) []byte {
		if !bytes.Contains(part, marshal(t, strange.envelope())) { // the results
			return renamed(t, part, strange)
		}
		return makeUnknown(t, part, strange, 0)
	}
	raw := sealed(t, plain, 31, makeStrange)
	read, err := ledger.Verify(ledger.Raw{XDR: raw}, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newExtractor(t, passphrase).Read(read)
	if err != nil || len(l.Payments) != 2 || len(l.Quarantined) != 1 {
		t.Errorf("got %d payments, %d quarantined (%v)", len(l.Payments), len(l.Quarantined), err)
	}
	raw = sealed(t, plain, 23, makeStrange)
	if err := verify(raw, passphrase); !errors.Is(err, ledger.ErrNotProved) {
		t.Errorf("an unknown form in protocol 23: %v", err)
	}
	result := []byte{0, 0, 0, 0, 0, 0, 0, byte(xdr.OperationTypeBumpSequence), 0, 0, 0, 0}
	longer := append([]byte{0, 0, 0, 0, 0, 0, 0, unknownKind}, bytes.Repeat([]byte{9}, 24)...)
	raw = sealed(t, plain, 31, func(part []byte) []byte {
		return bytes.Replace(makeStrange(part), result, longer, 1)
	})
	if err := verify(raw, passphrase); err != nil {
		t.Errorf("a result of an unknown form: %v", err)
	}
	raw = bytes.Replace(raw, longer, append(longer[:8:8], bytes.Repeat([]byte{8}, 24)...), 1)
	if err := verify(raw, passphrase); !errors.Is(err, ledger.ErrNotProved) {
		t.Errorf("another result of an unknown form: %v", err)
	}
}

// The hash of a set that the network replaced with an empty one is all zeros (CAP-83).
func TestEmptySets(t *testing.T) {
	empty := func(txs ...testTx) []byte {
		var whole xdr.LedgerCloseMeta
		raw := sealed(t, closeLedger(t, 2, txs...), 28, nil)
		if err := whole.UnmarshalBinary(raw); err != nil {
			t.Fatal(err)
		}
		entry := &whole.V2.LedgerHeader
		entry.Header.ScpValue.TxSetHash = xdr.Hash{}
		entry.Header.ScpValue.Ext = xdr.StellarValueExt{
			V: xdr.StellarValueTypeStellarValueEmptyTxSet,
			ProposedValue: &xdr.StellarValueProposedValue{LcValueSignature: xdr.LedgerCloseValueSignature{
				NodeId: xdr.NodeId(xdr.MustAddress(sender)),
			}},
		}
		entry.Hash = sha256.Sum256(marshal(t, entry.Header))
		return marshal(t, whole)
	}
	if err := verify(empty(), passphrase); err != nil {
		t.Error(err)
	}
	if err := verify(empty(payOne(1)), passphrase); !errors.Is(err, ledger.ErrNotProved) {
		t.Errorf("a transaction in an empty set: %v", err)
	}
}

// BenchmarkVerify measures how much longer extraction takes with verification. Both alternate, so
// that other work on the machine affects them equally. The figures are processor time. The
// baseline is SHA-256 over the covered bytes alone.
func BenchmarkVerify(b *testing.B) {
	for _, sequence := range realLedgers {
		raw := readReal(b, sequence)
		e := newExtractor(b, publicNetwork)
		b.Run(fmt.Sprint(sequence), func(b *testing.B) {
			var extracting, verifying, hashing time.Duration
			spans := hashCovered(b, raw)
			for b.Loop() {
				began := testkit.ProcessorTime(b)
				if _, err := e.Extract(raw); err != nil {
					b.Fatal(err)
				}
				between := testkit.ProcessorTime(b)
				verified, err := ledger.Verify(ledger.Raw{XDR: raw}, publicNetwork)
				if err == nil {
					_, err = e.Read(verified)
				}
				if err != nil {
					b.Fatal(err)
				}
				after := testkit.ProcessorTime(b)
				digest := sha256.New()
				for _, covered := range spans {
					for _, part := range covered {
						digest.Write(raw[part.from:part.to])
					}
				}
				extracting += between - began
				verifying += after - between
				hashing += testkit.ProcessorTime(b) - after
			}
			per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.N) }
			b.ReportMetric(per(extracting), "extract-us")
			b.ReportMetric(per(verifying), "verify+extract-us")
			b.ReportMetric(per(hashing), "bare-hash-us")
			b.ReportMetric(100*(float64(verifying)/float64(extracting)-1), "verify-%")
		})
	}
}

// Damage must never pass for a newer form, because then it would not be requested again: neither
// in a ledger of a newer protocol nor in any header.
func TestDamageIsAskedForAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 3))
	newer := sealed(t, closeLedger(t, 2, payOne(1), everyOperation(metaV4(7)), payOne(3)), 27, nil)
	known := readReal(t, 63092988)
	headEnd := hashCovered(t, known)["header"][0].to
	refused := 0
	for n := range 3000 {
		raw, network, until := newer, passphrase, len(newer)
		if n%3 == 0 {
			raw, network, until = known, publicNetwork, headEnd
		}
		const versionSizeBytes = 4
		at := versionSizeBytes + random.IntN(until-versionSizeBytes)
		before := raw[at]
		raw[at] ^= 1 << random.IntN(8)
		if n%10 == 0 {
			raw = raw[:at]
		}
		err := verify(raw, network)
		if err != nil && !errors.Is(err, ledger.ErrNotProved) {
			t.Errorf("byte %d of %d, %#x instead of %#x: %v", at, until, raw[:at+1][at], before, err)
		}
		if err != nil {
			refused++
		}
		raw[:at+1][at] = before
	}
	if refused < 2000 {
		t.Errorf("%d were refused", refused)
	}
}

// A newer form with a matching hash must be reported as such. Otherwise it would be requested
// again and again.
func TestProvedNewerFormsAreNotDamage(t *testing.T) {
	plain := closeLedger(t, 2, payOne(1), payOne(2))
	phase := func(part []byte) []byte {
		two := []byte{0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}
		return bytes.Replace(part, two, append(two[:7:7], append([]byte{9}, two[8:]...)...), 1)
	}
	raw := sealed(t, plain, 31, phase)
	if err := verify(raw, passphrase); err == nil || errors.Is(err, ledger.ErrNotProved) {
		t.Errorf("a set of a newer form: %v", err)
	}
	raw[len(raw)/4] ^= 1
	if err := verify(raw, passphrase); !errors.Is(err, ledger.ErrNotProved) {
		t.Errorf("a damaged set of a newer form: %v", err)
	}
	version := bytes.Clone(plain)
	version[3] = 3
	if err := verify(version, passphrase); err == nil || errors.Is(err, ledger.ErrNotProved) {
		t.Errorf("a newer LedgerCloseMeta: %v", err)
	}
	version[0] = 1
	if err := verify(version, passphrase); !errors.Is(err, ledger.ErrNotProved) {
		t.Errorf("a LedgerCloseMeta of a version that there will not be: %v", err)
	}
}
