package ledger_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

const publicNetwork = network.PublicNetworkPassphrase

var realLedgers = []uint32{51000294, 57500008, 63092988}

// otherLedgers are from protocols 2, 9, 11, 17, 19, 21 and 22. There is no list of their
// payments.
var otherLedgers = []uint32{
	6154623, 16154623, 26154623, 36154623, 46154623, 53312000, 58752000,
}

func readReal(t testing.TB, sequence uint32) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", fmt.Sprintf("pubnet-%d.xdr.gz", sequence)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func newExtractor(t testing.TB, passphrase string) *ledger.Extractor {
	t.Helper()
	e, err := ledger.NewExtractor(passphrase)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func extract(t testing.TB, passphrase string, raw []byte) domain.Ledger {
	t.Helper()
	l, err := newExtractor(t, passphrase).Extract(raw)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func readExpected(t *testing.T) map[uint32][]string {
	t.Helper()
	f, err := os.Open("testdata/expected-payments.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	expected := map[uint32][]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		var head struct{ Ledger uint32 }
		if err := json.Unmarshal(s.Bytes(), &head); err != nil {
			t.Fatal(err)
		}
		expected[head.Ledger] = append(expected[head.Ledger], s.Text())
	}
	return expected
}

// show formats a payment as a line of expected-payments.jsonl, with the keys in the same order,
// so that every field is compared.
func show(t *testing.T, p domain.Payment) string {
	t.Helper()
	v := domain.ViewPayment(p)
	amount, stroops := &v.Amount, &v.AmountStroops
	if p.Operation == "account_merge" { // missing in Horizon's list
		amount, stroops = nil, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(struct {
		ID             string           `json:"id"`
		Operation      string           `json:"operation"`
		TxHash         string           `json:"txHash"`
		Ledger         uint32           `json:"ledger"`
		LedgerClosedAt string           `json:"ledgerClosedAt"`
		From           string           `json:"from"`
		To             string           `json:"to"`
		ToMuxedID      *string          `json:"toMuxedId"`
		Memo           *string          `json:"memo"`
		MemoType       *domain.MemoType `json:"memoType"`
		Asset          domain.AssetView `json:"asset"`
		Amount         *string          `json:"amount"`
		AmountStroops  *string          `json:"amountStroops"`
	}{
		v.ID, p.Operation, v.TxHash, v.Ledger, v.LedgerClosedAt, v.From, v.To, v.ToMuxedID,
		v.Memo, v.MemoType, v.Asset, amount, stroops,
	}); err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(b.Bytes()))
}

func TestRealLedgersAgreeWithHorizon(t *testing.T) {
	expected := readExpected(t)
	for _, sequence := range realLedgers {
		l := extract(t, publicNetwork, readReal(t, sequence))
		if l.Sequence != sequence || len(l.Quarantined) > 0 {
			t.Errorf("ledger %d: got sequence %d and quarantined %v", sequence, l.Sequence, l.Quarantined)
		}
		if len(l.Payments) != len(expected[sequence]) {
			t.Fatalf("ledger %d: got %d payments, want %d", sequence, len(l.Payments),
				len(expected[sequence]))
		}
		for i, p := range l.Payments {
			if got := show(t, p); got != expected[sequence][i] {
				t.Errorf("ledger %d payment %d:\n got %s\nwant %s", sequence, i, got, expected[sequence][i])
			}
		}
	}
}

// TestRealMergeAmount compares the amounts of merges with the SDK's decoder.
func TestRealMergeAmount(t *testing.T) {
	raw := readReal(t, 57500008)
	var whole xdr.LedgerCloseMeta
	if err := whole.UnmarshalBinary(raw); err != nil {
		t.Fatal(err)
	}
	var want []int64
	for i := range whole.CountTransactions() {
		result := whole.TransactionResultPair(i)
		if !result.Successful() {
			continue
		}
		operations, _ := result.OperationResults()
		for _, o := range operations {
			if merge, ok := o.MustTr().GetAccountMergeResult(); ok {
				want = append(want, int64(merge.MustSourceAccountBalance()))
			}
		}
	}
	var got []int64
	for _, p := range extract(t, publicNetwork, raw).Payments {
		if p.Operation == "account_merge" {
			got = append(got, p.AmountStroops)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(want) != 1 {
		t.Errorf("got merges of %v stroops, want %v", got, want)
	}
}

func TestRealHeaders(t *testing.T) {
	for _, sequence := range realLedgers {
		raw := readReal(t, sequence)
		var whole xdr.LedgerCloseMeta
		if err := whole.UnmarshalBinary(raw); err != nil {
			t.Fatal(err)
		}
		l := extract(t, publicNetwork, raw)
		header := checkHeader(t, raw[:1000], l)
		if want := whole.LedgerHash().HexString(); l.Hash != want {
			t.Errorf("ledger %d: hash %s, want %s", sequence, l.Hash, want)
		}
		if want := whole.PreviousLedgerHash().HexString(); header.PreviousHash != want {
			t.Errorf("ledger %d: previous hash %s, want %s", sequence, header.PreviousHash, want)
		}
		if want := whole.ClosedAt().UnixMilli(); l.ClosedAtMillis != want {
			t.Errorf("ledger %d: closed at %d, want %d", sequence, l.ClosedAtMillis, want)
		}
		if l.Transactions != whole.CountTransactions() {
			t.Errorf("ledger %d: %d transactions, want %d", sequence, l.Transactions,
				whole.CountTransactions())
		}
	}
}

// checkHeader checks that ReadHeader returns the same header as the whole ledger.
func checkHeader(t *testing.T, raw []byte, l domain.Ledger) ledger.Header {
	t.Helper()
	h, err := ledger.ReadHeader(raw)
	if err != nil || h.Sequence != l.Sequence || h.Hash != l.Hash ||
		h.ClosedAtMillis != l.ClosedAtMillis {
		t.Errorf("the header alone is read as %+v (%v), want that of ledger %d, hash %s, closed at %d",
			h, err, l.Sequence, l.Hash, l.ClosedAtMillis)
	}
	return h
}

func TestDamagedLedgersAreErrors(t *testing.T) {
	raw := readReal(t, 63092988)
	e := newExtractor(t, publicNetwork)
	for _, size := range []int{0, 3, 4, 7, 40, 100, 400, len(raw) / 3, len(raw) / 2, len(raw) - 1} {
		if _, err := e.Extract(raw[:size]); err == nil {
			t.Errorf("the first %d bytes of %d passed for a ledger", size, len(raw))
		}
	}
	if _, err := e.Extract(append(bytes.Clone(raw), 0, 0, 0, 0)); err == nil {
		t.Error("a ledger with four bytes too many passed")
	}
	version := bytes.Clone(raw)
	version[3] = 9
	if _, err := e.Extract(version); err == nil {
		t.Error("a LedgerCloseMeta of version 9 passed")
	}
	if _, err := newExtractor(t, network.TestNetworkPassphrase).Extract(raw); err == nil {
		t.Error("a ledger of another network passed")
	}
	if _, err := ledger.NewExtractor(" "); err == nil {
		t.Error("an empty passphrase passed")
	}
}

func BenchmarkExtractReal(b *testing.B) {
	for _, sequence := range realLedgers {
		b.Run(strconv.Itoa(int(sequence)),
			func(b *testing.B) { benchmark(b, publicNetwork, readReal(b, sequence)) })
	}
}

func BenchmarkExtractThousandPayments(b *testing.B) {
	var txs []testTx
	for i := range 1000 {
		txs = append(txs,
			testTx{
				operations: []xdr.Operation{payTo(receiver, native, int64(i+1))},
				results:    []xdr.OperationResult{paid()},
				meta:       metaV4(1),
			})
	}
	benchmark(b, passphrase, closeLedger(b, 2, txs...))
}

func benchmark(b *testing.B, passphrase string, raw []byte) {
	e := newExtractor(b, passphrase)
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := e.Extract(raw); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ledgers/s")
}

func FuzzExtract(f *testing.F) {
	for _, sequence := range realLedgers {
		raw := readReal(f, sequence)
		for step := range 8 {
			f.Add(sequence, uint32(step*len(raw)/8), []byte{byte(step)}, uint32(0))
		}
	}
	reals := map[uint32][]byte{}
	for _, sequence := range realLedgers {
		reals[sequence] = readReal(f, sequence)
	}
	e := newExtractor(f, publicNetwork)
	f.Fuzz(func(t *testing.T, sequence, at uint32, patch []byte, cut uint32) {
		raw, ok := reals[sequence]
		if !ok {
			sequence = realLedgers[sequence%3]
			raw = reals[sequence]
		}
		mutated := bytes.Clone(raw)
		copy(mutated[int(at)%len(mutated):], patch)
		mutated = mutated[:len(mutated)-int(cut)%len(mutated)]
		l, err := e.Extract(mutated)
		if err != nil {
			return
		}
		checkPlausible(t, l)
		checkSucceeded(t, l, mutated)
	})
}

func checkPlausible(t *testing.T, l domain.Ledger) {
	t.Helper()
	for _, p := range l.Payments {
		if p.AmountStroops < 0 || len(p.To) != 56 || p.To[0] != 'G' || len(p.From) != 56 ||
			p.Asset.Code == "" && p.Asset.IsNative() {
			t.Errorf("an impossible payment: %+v", p)
		}
	}
}

// checkSucceeded checks with the SDK's decoder that the transactions of the payments succeeded.
func checkSucceeded(t *testing.T, l domain.Ledger, raw []byte) {
	t.Helper()
	var whole xdr.LedgerCloseMeta
	if err := whole.UnmarshalBinary(raw); err != nil {
		return // the SDK is stricter about parts that we do not read
	}
	succeeded := map[string]bool{}
	for i := range whole.CountTransactions() {
		result := whole.TransactionResultPair(i)
		succeeded[result.TransactionHash.HexString()] = result.Successful()
	}
	for _, p := range l.Payments {
		if !succeeded[p.TxHash] {
			t.Errorf("payment %s comes from a transaction that failed", p.ID)
		}
	}
}

func closedAt() time.Time { return time.Date(2026, 11, 1, 12, 0, 5, 0, time.UTC) }

// A panic while reading must fail only the ledger, not the process.
func TestAPanicInReadingIsAnError(t *testing.T) {
	raw, err := ledger.Verify(ledger.Raw{XDR: readReal(t, realLedgers[0])}, publicNetwork)
	if err != nil {
		t.Fatal(err)
	}
	var none *ledger.Extractor // a nil extractor panics
	if _, err := none.Read(raw); err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("got %v", err)
	}
}
