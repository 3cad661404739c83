package ledger_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

// in100 returns the TOID of an operation in ledger 100.
func in100(order, operation int) string {
	return fmt.Sprint(uint64(100)<<32 | uint64(order)<<12 | uint64(operation))
}

// brief formats a payment without the fields of its ledger and transaction.
func brief(p domain.Payment) string {
	s := fmt.Sprintf("%s %s %s>%s %d %s", p.ID, p.Operation, short(p.From), short(p.To),
		p.AmountStroops, p.Asset.Code)
	if p.Asset.Issuer != "" {
		s += ":" + short(p.Asset.Issuer)
	}
	if p.ToMuxedID != "" {
		s += " muxed " + p.ToMuxedID
	}
	if p.Memo.Type != domain.MemoNone {
		s += fmt.Sprintf(" %s %s", p.Memo.Type, p.Memo)
	}
	return s
}

func short(address string) string {
	names := map[string]string{
		sender:   "sender",
		receiver: "receiver",
		issuer:   "issuer",
		payer:    "payer",
		contract: "contract",
	}
	if name := names[address]; name != "" {
		return name
	}
	return address
}

func checkPayments(t *testing.T, l domain.Ledger, want ...string) {
	t.Helper()
	var got []string
	for _, p := range l.Payments {
		got = append(got, brief(p))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got payments\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func checkQuarantined(t *testing.T, l domain.Ledger, reasons ...string) {
	t.Helper()
	if len(l.Quarantined) != len(reasons) {
		t.Fatalf("quarantined %v, want %d", l.Quarantined, len(reasons))
	}
	for i, want := range reasons {
		if !strings.Contains(l.Quarantined[i].Reason, want) {
			t.Errorf("quarantined because %q, want %q", l.Quarantined[i].Reason, want)
		}
	}
}

// everyOperation contains each classic operation that pays, and some that do not.
func everyOperation(meta xdr.TransactionMeta) testTx {
	bump := operation(xdr.OperationTypeBumpSequence, xdr.BumpSequenceOp{BumpTo: 9})
	bumped := resultOf(xdr.OperationTypeBumpSequence,
		xdr.BumpSequenceResult{Code: xdr.BumpSequenceResultCodeBumpSequenceSuccess})
	return testTx{
		memo: xdr.MemoText("Thank you"),
		operations: []xdr.Operation{
			createAccount(receiver, 10), bump, payTo(receiver, usd, 20), strictReceive(receiver, 30),
			strictSend(receiver, 1),
			by(xdr.MustMuxedAddress(payer), mergeInto(receiver)),
			by(muxed(payer, 77), payMuxed(muxed(receiver, 1<<63), native, 60)),
		},
		results: []xdr.OperationResult{
			created(), bumped, paid(), received(30), sent(40), merged(50), paid(),
		},
		meta: meta,
	}
}

func wantEveryOperation(order int) []string {
	return []string{
		in100(order, 1) + " create_account sender>receiver 10 XLM text Thank you",
		in100(order, 3) + " payment sender>receiver 20 USD:issuer text Thank you",
		in100(order, 4) + " path_payment_strict_receive sender>receiver 30 USD:issuer text Thank you",
		in100(order, 5) + " path_payment_strict_send sender>receiver 40 LUMENHOOK:issuer text Thank you",
		in100(order, 6) + " account_merge payer>receiver 50 XLM text Thank you",
		in100(order, 7) + " payment payer>receiver 60 XLM muxed 9223372036854775808 text Thank you",
	}
}

func TestEveryClassicOperation(t *testing.T) {
	metas := []xdr.TransactionMeta{metaV1(), metaV2(), metaV3(), metaV4(7)}
	for version := range int32(3) {
		var txs []testTx
		var want []string
		for i, meta := range metas {
			txs = append(txs, everyOperation(meta))
			want = append(want, wantEveryOperation(i+1)...)
		}
		// Equal transactions have equal hashes, so give each a different sequence.
		for i := range txs {
			txs[i].operations[1] = operation(xdr.OperationTypeBumpSequence,
				xdr.BumpSequenceOp{BumpTo: xdr.SequenceNumber(i)})
		}
		raw := closeLedger(t, version, txs...)
		l := extract(t, passphrase, raw)
		checkPayments(t, l, want...)
		checkQuarantined(t, l)
		header, err := ledger.ReadHeader(raw)
		if l.Sequence != 100 || l.Transactions != 4 || l.ClosedAtMillis != closedAt().UnixMilli() ||
			l.Hash[:2] != "aa" || err != nil || header.PreviousHash[:2] != "bb" {
			t.Errorf("version %d: header read as %+v, %+v (%v)", version, l, header, err)
		}
	}
}

func TestFailedTransactionsPayNothing(t *testing.T) {
	failed := everyOperation(metaV4(7))
	failed.failed = true
	failedBump := everyOperation(metaV4(7))
	failedBump.failed, failedBump.feeBump = true, true
	failedCall := testTx{
		failed:     true,
		operations: []xdr.Operation{invoke()},
		results:    []xdr.OperationResult{invoked()},
		meta:       metaV4(1, event(usd, "transfer", amountValue(0, 5), sender, receiver)),
	}
	l := extract(t, passphrase, closeLedger(t, 2, failed, failedBump, failedCall))
	checkPayments(t, l)
	checkQuarantined(t, l)
}

func TestFeeBump(t *testing.T) {
	x := testTx{
		feeBump:    true,
		memo:       xdr.MemoID(42),
		operations: []xdr.Operation{payTo(receiver, native, 5), mergeInto(receiver)},
		results:    []xdr.OperationResult{paid(), merged(6)},
		meta:       metaV4(2),
	}
	l := extract(t, passphrase, closeLedger(t, 1, x))
	checkPayments(t, l, in100(1, 1)+" payment sender>receiver 5 XLM id 42",
		in100(1, 2)+" account_merge sender>receiver 6 XLM id 42")
	if len(l.Payments) == 2 && strings.HasPrefix(l.Payments[0].TxHash, "09") {
		t.Error("the inner hash was given, want the outer one")
	}
}

func TestMemosAndOldEnvelopes(t *testing.T) {
	pay := func(memo xdr.Memo, old bool) testTx {
		return testTx{
			memo:       memo,
			v0:         old,
			source:     xdr.MustMuxedAddress(sender),
			operations: []xdr.Operation{payTo(receiver, native, 1)},
			results:    []xdr.OperationResult{paid()},
			meta:       metaV1(),
		}
	}
	l := extract(t, passphrase, closeLedger(t, 0,
		pay(xdr.Memo{}, false), pay(xdr.MemoText(""), true), pay(xdr.MemoText("a\xffb"), true),
		pay(xdr.MemoID(1<<64-1), true),
		pay(xdr.MemoHash(xdr.Hash{0xab}), true), pay(xdr.MemoRetHash(xdr.Hash{0xcd}), false)))
	zeros := strings.Repeat("00", 31)
	var want []string
	for i, memo := range []string{
		"", " text ", " text a\uFFFDb", " id 18446744073709551615", " hash ab" + zeros,
		" return cd" + zeros,
	} {
		want = append(want, in100(i+1, 1)+" payment sender>receiver 1 XLM"+memo)
	}
	checkPayments(t, l, want...)
	if len(l.Payments) == 6 && string(l.Payments[2].Memo.Raw) != "a\xffb" {
		t.Errorf("the memo's bytes are %q: rules compare them", l.Payments[2].Memo.Raw)
	}
}

var contract = strkey.MustEncode(strkey.VersionByteContract, make([]byte, 32))

func call(meta xdr.TransactionMeta, memo xdr.Memo) testTx {
	return testTx{
		memo:       memo,
		operations: []xdr.Operation{invoke()},
		results:    []xdr.OperationResult{invoked()},
		meta:       meta,
	}
}

// The form of an event shows its layout, because no hash covers the version of the meta.
func TestContractTransfersInBothLayouts(t *testing.T) {
	one := amountValue(0, 1)
	old := metaV3(
		event(usd, "transfer", one, contract, receiver),
		event(usd, "approve", one, sender, receiver),  // no balance change, not counted
		event(usd, "clawback", one, issuer, sender),   // counted
		event(usd, "burn", one, sender),               // counted
		event(usd, "transfer", one, sender, contract), // counted
		event(usd, "mint", one, receiver),
		event(usd, "transfer", amountWithID(1, 2), sender, receiver),
		event(longCode, "mint", amountValue(0, 8), contract, receiver),
	)
	l := extract(t, passphrase, closeLedger(t, 1, call(old, xdr.Memo{})))
	checkPayments(t, l, in100(1, 1)+"-0 invoke_host_function contract>receiver 1 USD:issuer",
		in100(1, 1)+"-4 invoke_host_function issuer>receiver 1 USD:issuer",
		in100(1, 1)+"-5 invoke_host_function sender>receiver 1 USD:issuer muxed 2",
		in100(1, 1)+"-6 invoke_host_function issuer>receiver 8 LUMENHOOK:issuer")

	recent := metaV4(1,
		event(usd, "clawback", one, sender),
		event(usd, "mint", one, issuer, receiver),
		event(native, "transfer", amountWithID(7, 42), contract, receiver),
		event(usd, "mint", amountValue(0, 9), receiver),
		event(usd, "set_authorized", one, receiver),
		event(usd, "transfer", amountValue(0, 1<<63-1), sender, receiver),
	)
	l = extract(t, passphrase, closeLedger(t, 2, call(recent, xdr.MemoID(5))))
	checkPayments(t, l,
		in100(1, 1)+"-1 invoke_host_function issuer>receiver 1 USD:issuer id 5",
		in100(1, 1)+"-2 invoke_host_function contract>receiver 7 XLM muxed 42 id 5",
		in100(1, 1)+"-3 invoke_host_function issuer>receiver 9 USD:issuer id 5",
		in100(1, 1)+"-4 invoke_host_function sender>receiver 9223372036854775807 USD:issuer id 5")
	checkQuarantined(t, l)
}

func TestForgedContractEvents(t *testing.T) {
	genuine := event(usd, "transfer", amountValue(0, 1), sender, receiver)
	otherContract := event(usd, "transfer", amountValue(0, 2), sender, receiver)
	otherContract.ContractId = &xdr.ContractId{1}
	otherNetwork := event(usd, "transfer", amountValue(0, 3), sender, receiver)
	foreign, err := usd.ContractID("another network")
	if err != nil {
		t.Fatal(err)
	}
	otherNetwork.ContractId = (*xdr.ContractId)(&foreign)
	noContract := event(usd, "transfer", amountValue(0, 4), sender, receiver)
	noContract.ContractId = nil
	diagnostic := event(usd, "transfer", amountValue(0, 5), sender, receiver)
	diagnostic.Type = xdr.ContractEventTypeDiagnostic
	strange := event(usd, "transfer", amountValue(0, 6), sender, receiver)
	name := xdr.ScString(strings.Repeat("x", 500))
	strange.Body.V0.Topics[3].Str = &name
	noAsset := event(usd, "transfer", amountValue(0, 7), sender, receiver)
	noAsset.Body.V0.Topics = noAsset.Body.V0.Topics[:3]
	noAmount := event(usd, "transfer", symbol("much"), sender, receiver)
	noTopics := event(usd, "transfer", amountValue(0, 8))
	noTopics.Body.V0.Topics = nil

	events := []xdr.ContractEvent{
		otherContract, otherNetwork, noContract, diagnostic, strange, noAsset, noAmount,
		noTopics, genuine,
	}
	l := extract(t, passphrase, closeLedger(t, 2, call(metaV4(1, events...), xdr.Memo{})))
	checkPayments(t, l, in100(1, 1)+"-0 invoke_host_function sender>receiver 1 USD:issuer")
	checkQuarantined(t, l)
}

// Events of classic operations repeat the operation (CAP-67).
func TestEventsOfClassicOperationsAreNotCounted(t *testing.T) {
	x := testTx{
		operations: []xdr.Operation{payTo(receiver, usd, 5)},
		results:    []xdr.OperationResult{paid()},
		meta:       metaV4(1, event(usd, "transfer", amountValue(0, 5), sender, receiver)),
	}
	checkPayments(t, extract(t, passphrase, closeLedger(t, 2, x)),
		in100(1, 1)+" payment sender>receiver 5 USD:issuer")
}

func TestOneUnreadableTransactionIsQuarantinedAlone(t *testing.T) {
	good := func(stroops int64) testTx {
		return testTx{
			operations: []xdr.Operation{payTo(receiver, native, stroops)},
			results:    []xdr.OperationResult{paid()},
			meta:       metaV4(1),
		}
	}
	tooFew := testTx{
		operations: []xdr.Operation{payTo(receiver, native, 2), payTo(receiver, native, 3)},
		results:    []xdr.OperationResult{paid()},
		meta:       metaV4(2),
	}
	wrongResult := testTx{
		operations: []xdr.Operation{payTo(receiver, native, 4), mergeInto(receiver)},
		results:    []xdr.OperationResult{paid(), paid()},
		meta:       metaV4(2),
	}
	tooMuch := call(metaV4(1, event(usd, "transfer", amountValue(1, 0), contract, receiver)),
		xdr.Memo{})
	burned := call(metaV4(1, event(usd, "transfer", amountValue(1, 0), contract, issuer),
		event(usd, "transfer", amountValue(0, 5), contract, issuer)), xdr.Memo{})
	minted := call(metaV4(1, event(native, "mint", amountValue(0, 1), receiver)), xdr.Memo{})
	noCode := usd
	noCode.AlphaNum4 = &xdr.AlphaNum4{
		AssetCode: xdr.AssetCode4{'U', 0xff},
		Issuer:    xdr.MustAddress(issuer),
	}
	badCode := testTx{
		operations: []xdr.Operation{payTo(receiver, noCode, 1)},
		results:    []xdr.OperationResult{paid()},
		meta:       metaV4(1),
	}
	l := extract(t, passphrase,
		closeLedger(t, 2, good(1), tooFew, wrongResult, tooMuch, burned, minted, good(6), badCode))
	checkPayments(t, l, in100(1, 1)+" payment sender>receiver 1 XLM",
		in100(5, 1)+"-1 invoke_host_function contract>issuer 5 USD:issuer",
		in100(7, 1)+" payment sender>receiver 6 XLM")
	checkQuarantined(t, l, "2 operations and 1 results", "operation 2: its transaction succeeded, but",
		"does not fit", "has no issuer", "invalid asset code")
	if l.Quarantined[0].Order != 2 || len(l.Quarantined[0].TxHash) != 64 {
		t.Errorf("the quarantined transaction is not named: %+v", l.Quarantined[0])
	}
}

// forge rewrites the header of a ledger to a form of CAP-88. The number of the form increases by
// two, and a close time in milliseconds follows it.
func forge(t *testing.T, version int32, x xdr.StellarValue, closeTimeMillis uint64) []byte {
	t.Helper()
	return forgeOf(t, version, x, closeTimeMillis, everyOperation(metaV4(7)))
}

func forgeOf(
	t *testing.T, version int32, x xdr.StellarValue, closeTimeMillis uint64, txs ...testTx,
) []byte {
	t.Helper()
	raw := closeLedger(t, version, txs...)
	var whole xdr.LedgerCloseMeta
	if err := whole.UnmarshalBinary(raw); err != nil {
		t.Fatal(err)
	}
	header := map[int32]func() *xdr.LedgerHeaderHistoryEntry{
		0: func() *xdr.LedgerHeaderHistoryEntry { return &whole.V0.LedgerHeader },
		1: func() *xdr.LedgerHeaderHistoryEntry { return &whole.V1.LedgerHeader },
		2: func() *xdr.LedgerHeaderHistoryEntry { return &whole.V2.LedgerHeader },
	}[version]()
	x.CloseTime, x.Upgrades = header.Header.ScpValue.CloseTime, header.Header.ScpValue.Upgrades
	header.Header.ScpValue = x
	raw = marshal(t, whole)
	ext := marshal(t, x.Ext)
	at := strings.Index(string(raw), string(ext))
	if at < 0 || strings.Contains(string(raw[at+1:]), string(ext)) {
		t.Fatal("the header's form is not to be found")
	}
	forged := binary.BigEndian.AppendUint32(slices.Clone(raw[:at]), uint32(x.Ext.V)+2)
	forged = binary.BigEndian.AppendUint64(forged, closeTimeMillis)
	return append(forged, raw[at+4:]...)
}

func TestHeadersOfCAP88(t *testing.T) {
	signature := xdr.LedgerCloseValueSignature{
		NodeId:    xdr.NodeId(xdr.MustAddress(payer)),
		Signature: []byte("signature"),
	}
	forms := map[string]xdr.StellarValueExt{
		"signed": {V: xdr.StellarValueTypeStellarValueSigned, LcValueSignature: &signature},
		"empty set": {
			V: xdr.StellarValueTypeStellarValueEmptyTxSet,
			ProposedValue: &xdr.StellarValueProposedValue{
				PreviousLedgerVersion: 30,
				LcValueSignature:      signature,
			},
		},
	}
	exact := uint64(closedAt().UnixMilli()) + 321
	for name, form := range forms {
		for version := range int32(3) {
			raw := forge(t, version, xdr.StellarValue{Ext: form}, exact)
			before := slices.Clone(raw)
			l := extract(t, passphrase, raw)
			checkPayments(t, l, wantEveryOperation(1)...)
			checkHeader(t, raw, l)
			if l.ClosedAtMillis != int64(exact) {
				t.Errorf("%s, version %d: closed at %d, want %d", name, version, l.ClosedAtMillis, exact)
			}
			if !slices.Equal(raw, before) {
				t.Errorf("%s, version %d: the ledger that was passed in has changed", name, version)
			}
		}
		l := extract(t, passphrase, forge(t, 2, xdr.StellarValue{Ext: form}, 17))
		if l.ClosedAtMillis != closedAt().UnixMilli() {
			t.Errorf("%s: closed at %d although the milliseconds are of another second", name,
				l.ClosedAtMillis)
		}
	}
}

// The real ledgers must be readable as if they had been closed in protocol 30.
func TestRealLedgersInTheFormOfCAP88(t *testing.T) {
	expected := readExpected(t)
	for _, sequence := range realLedgers {
		raw := readReal(t, sequence)
		var whole xdr.LedgerCloseMeta
		if err := whole.UnmarshalBinary(raw); err != nil {
			t.Fatal(err)
		}
		ext := marshal(t, whole.LedgerHeaderHistoryEntry().Header.ScpValue.Ext)
		at := strings.Index(string(raw), string(ext))
		if at < 0 || ext[3] != 1 {
			t.Fatalf("ledger %d has a header of form %d", sequence, ext[3])
		}
		forged := binary.BigEndian.AppendUint32(slices.Clone(raw[:at]), 3)
		forged = binary.BigEndian.AppendUint64(forged, uint64(whole.LedgerCloseTime())*1000+1)
		forged = append(forged, raw[at+4:]...)
		l := extract(t, publicNetwork, forged)
		checkHeader(t, forged, l)
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
