package ledger_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

// FuzzEvents checks that events of any contract are read without an error and as the SDK reads
// them, and that they count as payments only if they are from the contract of the paid asset.
func FuzzEvents(f *testing.F) {
	amount := amountValue(0, 5)
	for _, e := range []xdr.ContractEvent{
		event(usd, "transfer", amount, sender, receiver),
		event(usd, "transfer", amountWithID(5, 6), sender, receiver),
		event(native, "transfer", amountValue(1, 0), contract, receiver),
		event(native, "transfer", amountValue(-1, 5), contract, receiver),
		event(usd, "mint", amount, receiver), event(usd, "mint", amount, issuer, receiver),
		event(usd, "burn", amount, receiver), event(usd, "clawback", amount, issuer, receiver),
		event(longCode, "fee", amount, receiver), event(usd, "set_authorized", amount, receiver),
	} {
		f.Add(marshal(f, e))
	}
	e := newExtractor(f, passphrase)
	f.Fuzz(func(t *testing.T, encoded []byte) {
		var emitted xdr.ContractEvent
		if emitted.UnmarshalBinary(encoded) != nil {
			return
		}
		if again, err := emitted.MarshalBinary(); err != nil || !bytes.Equal(again, encoded) {
			return // more than an event
		}
		genuine := event(usd, "transfer", amountValue(0, 77), sender, receiver)
		called := call(metaV4(1, emitted, genuine), xdr.Memo{})
		withHash(t, &called)
		raw := closeLedger(t, 2, called, payOne(9))
		sameAsSDK(t, e, raw, passphrase)
		l := extract(t, passphrase, raw)
		checkPlausible(t, l)
		if len(l.Payments) == 0 || l.Payments[len(l.Payments)-1].AmountStroops != 9 {
			t.Fatalf("the other transaction's payment is not there: %+v", l)
		}
		own := ownAsset(&emitted)
		if len(l.Quarantined) > 0 && own == "" {
			t.Errorf("an event of another contract hides the payments of its call: %v", l.Quarantined)
		}
		for _, p := range l.Payments {
			if p.AmountStroops != 9 && p.AmountStroops != 77 && p.Asset.String() != own {
				t.Errorf("%+v is paid by the event of another contract than its asset's", p)
			}
		}
	})
}

// ownAsset returns the asset that an event names, if the event is from that asset's contract.
func ownAsset(e *xdr.ContractEvent) string {
	topics := e.Body.MustV0().Topics
	if len(topics) == 0 || e.ContractId == nil {
		return ""
	}
	name, _ := topics[len(topics)-1].GetStr()
	if name == "native" && contractOf(native) == *e.ContractId {
		return domain.NativeCode
	}
	for _, asset := range []xdr.Asset{usd, longCode} {
		if string(name) == asset.StringCanonical() && contractOf(asset) == *e.ContractId {
			return string(name)
		}
	}
	return ""
}

// newerLedgers returns ledgers of an unknown protocol with unknown forms.
func newerLedgers(t testing.TB) (all [][]byte) {
	called := call(metaV4(1, event(usd, "transfer", amountWithID(8, 5), sender, receiver)), xdr.Memo{})
	withHash(t, &called)
	every := everyOperation(metaV4(7))
	every.operations[1] = operation(xdr.OperationTypeBumpSequence,
		xdr.BumpSequenceOp{BumpTo: 1 << 40}) // does not look like a result
	txs := []testTx{payOne(1), marked(1), called, every, marked(2), payOne(3)}
	plain := closeLedger(t, 2, txs...)
	strange := func(part []byte) []byte {
		for i, n := range map[int]int64{1: 1, 4: 2} {
			if bytes.Contains(part, marshal(t, txs[i].envelope())) {
				part = makeUnknown(t, part, txs[i], n)
			}
			_, was, is := unknownForm(t, txs[i], n)
			part = bytes.ReplaceAll(part, was[:], is[:])
		}
		return part
	}
	result := []byte{0, 0, 0, 0, 0, 0, 0, byte(xdr.OperationTypeBumpSequence), 0, 0, 0, 0}
	longer := append([]byte{0, 0, 0, 0, 0, 0, 0, unknownKind}, bytes.Repeat([]byte{0}, 24)...)
	return [][]byte{
		sealed(t, plain, 31, nil), sealed(t, plain, 31, strange),
		sealed(t, plain, 31, func(part []byte) []byte {
			return bytes.ReplaceAll(strange(part), result, longer)
		}),
	}
}

// FuzzNewerForms checks that a modified ledger, in known or unknown forms, is either rejected or
// shows no payment that it did not have before.
func FuzzNewerForms(f *testing.F) {
	ledgers := newerLedgers(f)
	e := newExtractor(f, passphrase)
	paid := make([]map[string]bool, len(ledgers))
	for i, raw := range ledgers {
		paid[i] = viewed(f, e, raw)
		if len(paid[i]) < 3 {
			f.Fatalf("ledger %d tells of %d payments", i, len(paid[i]))
		}
		for step := range 8 {
			f.Add(uint8(i), uint32(step*len(raw)/8), []byte{byte(step)}, uint32(0))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint32, patch []byte, cut uint32) {
		i := int(which) % len(ledgers)
		mutated := bytes.Clone(ledgers[i])
		copy(mutated[int(at)%len(mutated):], patch)
		mutated = mutated[:len(mutated)-int(cut)%len(mutated)]
		if verify(mutated, passphrase) != nil {
			return
		}
		for p := range viewed(t, e, mutated) {
			if !paid[i][p] {
				t.Errorf("it tells of %s", p)
			}
		}
	})
}

// viewed returns the payments of a ledger that matches its hashes.
func viewed(t testing.TB, e *ledger.Extractor, raw []byte) map[string]bool {
	t.Helper()
	verified, err := ledger.Verify(ledger.Raw{XDR: raw}, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	l, err := e.Read(verified)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, p := range l.Payments {
		all[fmt.Sprintf("%+v", p)] = true
	}
	return all
}
