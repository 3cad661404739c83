package ledger_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

func sameAsSDK(t *testing.T, e *ledger.Extractor, raw []byte, network string) {
	t.Helper()
	got, err := e.Extract(raw)
	want, wantErr := ledger.ReadBySDK(raw, network)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("our error is %v, and the SDK's %v", err, wantErr)
	}
	withoutReasons(&got)
	withoutReasons(&want)
	if err == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("we read\n%+v\nand the SDK reads\n%+v", got, want)
	}
}

func withoutReasons(l *domain.Ledger) {
	for i := range l.Quarantined {
		l.Quarantined[i].Reason = ""
	}
}

func TestRealLedgersAreReadAsBySDK(t *testing.T) {
	e := newExtractor(t, publicNetwork)
	for _, sequence := range slices.Concat(realLedgers, otherLedgers) {
		sameAsSDK(t, e, readReal(t, sequence), publicNetwork)
	}
}

// plainLedgers returns ledgers with every form that payments are read from.
func plainLedgers(t testing.TB) (all [][]byte) {
	called := call(metaV4(1, event(usd, "transfer", amountWithID(1, 5), sender, receiver),
		event(usd, "approve", amountValue(0, 1), sender, receiver)), xdr.Memo{})
	withHash(t, &called)
	old := call(metaV3(event(usd, "mint", amountValue(0, 1), issuer, receiver)), xdr.Memo{})
	withHash(t, &old)
	bumped := payOne(4)
	bumped.feeBump = true
	bumped.source = muxed(sender, 9)
	v0 := payOne(5)
	v0.v0, v0.source = true, xdr.MustMuxedAddress(sender)
	failed := payOne(6)
	failed.failed = true
	v0.memo = xdr.MemoText("hello")
	id := xdr.Uint64(77)
	bumped.memo = xdr.Memo{Type: xdr.MemoTypeMemoId, Id: &id}
	for version := range int32(3) {
		txs := []testTx{payOne(1), bumped, v0, failed, everyOperation(metaV4(7)),
			everyOperation(metaV2())}
		if version > 0 {
			txs = append(txs, called, old)
		}
		all = append(all, closeLedger(t, version, txs...))
	}
	return all
}

func TestChangedLedgersAreReadAsBySDK(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 2))
	e := newExtractor(t, passphrase)
	for _, raw := range plainLedgers(t) {
		sameAsSDK(t, e, raw, passphrase)
		for range 4000 {
			mutated := bytes.Clone(raw)
			for range 1 + random.IntN(2) {
				change(random, mutated)
			}
			sameAsSDK(t, e, renamedAll(mutated), passphrase)
		}
	}
}

func change(random *rand.Rand, raw []byte) {
	at := random.IntN(len(raw)) &^ 3
	switch random.IntN(3) {
	case 0:
		raw[at+random.IntN(4)] ^= 1 << random.IntN(8)
	case 1:
		binary.BigEndian.PutUint32(raw[at:], uint32(random.IntN(16)))
	case 2:
		number := binary.BigEndian.Uint32(raw[at:])
		binary.BigEndian.PutUint32(raw[at:], number+uint32(random.IntN(5))-2)
	}
}

// renamedAll updates the hashes in the results to the envelopes' new hashes, so that modified
// envelopes are found.
func renamedAll(raw []byte) []byte {
	renamed, err := ledger.Renamed(raw, passphrase)
	if err != nil {
		return raw
	}
	return renamed
}

func FuzzExtractAsSDK(f *testing.F) {
	ledgers := plainLedgers(f)
	for i := range ledgers {
		f.Add(uint8(i), uint32(900), []byte{1}, uint32(0))
	}
	e := newExtractor(f, passphrase)
	f.Fuzz(func(t *testing.T, which uint8, at uint32, patch []byte, cut uint32) {
		mutated := bytes.Clone(ledgers[int(which)%len(ledgers)])
		copy(mutated[int(at)%len(mutated):], patch)
		mutated = mutated[:len(mutated)-int(cut)%len(mutated)]
		sameAsSDK(t, e, renamedAll(mutated), passphrase)
	})
}
