package ledger_test

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"testing"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// The SDK does not know muxed contract addresses (CAP-84, W…). The tests replace this contract's
// address with a muxed one wherever it occurs.
var marker = strkey.MustEncode(strkey.VersionByteContract, bytes.Repeat([]byte{0x57}, 32))

// withW replaces each marker in raw with a muxed contract: type 5, an id, and the contract.
func withW(t testing.TB, raw []byte) []byte {
	t.Helper()
	address := marshal(t, *addressValue(marker).Address)
	muxed := slices.Concat([]byte{0, 0, 0, 5}, []byte{0, 0, 0, 0, 0, 0, 0, 9}, address[4:])
	return bytes.ReplaceAll(raw, address, muxed)
}

func callW(meta xdr.TransactionMeta, memo xdr.Memo) testTx {
	args := &xdr.ScVec{addressValue(sender), addressValue(marker), amountValue(0, 5)}
	x := call(meta, memo)
	x.operations = []xdr.Operation{
		operation(xdr.OperationTypeInvokeHostFunction, xdr.InvokeHostFunctionOp{
			HostFunction: xdr.HostFunction{
				Type: xdr.HostFunctionTypeHostFunctionTypeInvokeContract,
				InvokeContract: &xdr.InvokeContractArgs{
					ContractAddress: *addressValue(contract).Address,
					FunctionName:    "split",
					Args:            xdr.ScVec{{Type: xdr.ScValTypeScvVec, Vec: &args}},
				},
			},
		}),
	}
	return x
}

// closeWithW closes a ledger in which the markers are muxed contracts, which changes the hashes
// of their transactions.
func closeWithW(t testing.TB, version int32, txs ...testTx) []byte {
	t.Helper()
	raw := withW(t, closeLedger(t, version, txs...))
	for _, x := range txs {
		before := marshal(t, x.envelope())
		after := withW(t, before)
		if bytes.Equal(before, after) {
			continue
		}
		old, err := network.HashTransactionInEnvelope(x.envelope(), passphrase)
		if err != nil {
			t.Fatal(err)
		}
		id, signatures := network.ID(passphrase), 4 // none
		hash := sha256.Sum256(append(id[:], after[:len(after)-signatures]...))
		raw = bytes.ReplaceAll(raw, old[:], hash[:])
	}
	return raw
}

// A W address among the arguments must not hide the payments of its own or other transactions,
// because the parts that contain the payments are known.
func TestAMuxedContractAmongTheArguments(t *testing.T) {
	paysG := metaV4(
		1,
		event(usd, "transfer", amountValue(0, 5), contract, receiver),
		event(usd, "transfer", amountWithID(6, 9), contract, contract),
		event(usd, "mint", amountWithID(7, 1), receiver),
	)
	paysNoG := metaV4(1, event(usd, "transfer", amountWithID(5, 9), sender, contract))
	memo := xdr.MemoText("order 8")
	for version := range int32(3) {
		for _, bumped := range []bool{false, true} {
			second, third := callW(paysG, memo), callW(paysNoG, xdr.MemoID(1))
			second.feeBump, third.feeBump = bumped, bumped
			gone := callW(paysG, xdr.MemoID(2))
			gone.failed = true
			l := extract(
				t,
				passphrase,
				closeWithW(t, version, payOne(1), second, third, gone, payOne(3)),
			)
			checkQuarantined(t, l)
			checkPayments(
				t,
				l,
				in100(1, 1)+" payment sender>receiver 1 XLM",
				in100(2, 1)+"-0 invoke_host_function contract>receiver 5 USD:issuer text order 8",
				in100(2, 1)+"-2 invoke_host_function issuer>receiver 7 USD:issuer muxed 1 text order 8",
				in100(5, 1)+" payment sender>receiver 3 XLM",
			)
		}
	}
}

// The meta is read only up to the unknown part. Parts after the operation's events, such as a
// diagnostic event that repeats the arguments, are not needed for payments.
func TestAMuxedContractInTheMeta(t *testing.T) {
	pays := event(usd, "transfer", amountValue(0, 5), contract, receiver)
	names := event(usd, "note", amountValue(0, 1), marker)
	returned := metaV4(1, pays)
	returned.V4.SorobanMeta = &xdr.SorobanTransactionMetaV2{ReturnValue: new(addressValue(marker))}
	diagnosed := metaV4(1, pays)
	diagnosed.V4.DiagnosticEvents = []xdr.DiagnosticEvent{{Event: names}}
	emitted := metaV4(1, pays, names)
	kept := metaV4(1, pays)
	kept.V4.Operations[0].Changes = xdr.LedgerEntryChanges{
		{Type: xdr.LedgerEntryChangeTypeLedgerEntryCreated,
			Created: &xdr.LedgerEntry{
				Data: xdr.LedgerEntryData{
					Type: xdr.LedgerEntryTypeContractData,
					ContractData: &xdr.ContractDataEntry{
						Contract: *addressValue(contract).Address,
						Key:      symbol("to"),
						Val:      addressValue(marker)},
				},
			}},
	}
	paid := in100(2, 1) + "-0 invoke_host_function contract>receiver 5 USD:issuer"
	for name, c := range map[string]struct {
		meta        xdr.TransactionMeta
		want        []string
		quarantined []string
	}{
		"in what is returned":            {returned, []string{paid}, nil},
		"in a diagnostic event":          {diagnosed, []string{paid}, nil},
		"in an event of the operation":   {emitted, nil, []string{"discriminant"}},
		"in an entry that was stored":    {kept, nil, []string{"discriminant"}},
		"nowhere but in the transaction": {metaV4(1, pays), []string{paid}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for version := range int32(3) {
				l := extract(
					t,
					passphrase,
					closeWithW(t, version, payOne(1), callW(c.meta, xdr.Memo{}), payOne(3)),
				)
				want := slices.Concat(
					[]string{in100(1, 1) + " payment sender>receiver 1 XLM"},
					c.want,
					[]string{in100(3, 1) + " payment sender>receiver 3 XLM"},
				)
				checkPayments(t, l, want...)
				checkQuarantined(t, l, c.quarantined...)
			}
		})
	}
}

// The payments of a classic operation are read without the meta.
func TestAnUnknownMetaHidesNoClassicPayment(t *testing.T) {
	x := payOne(2)
	x.meta.V4.DiagnosticEvents = []xdr.DiagnosticEvent{
		{Event: event(usd, "note", amountValue(0, 1), marker)},
	}
	l := extract(t, passphrase, closeWithW(t, 2, payOne(1), x, payOne(3)))
	checkPayments(
		t,
		l,
		in100(1, 1)+" payment sender>receiver 1 XLM",
		in100(2, 1)+" payment sender>receiver 2 XLM",
		in100(3, 1)+" payment sender>receiver 3 XLM",
	)
	checkQuarantined(t, l)
}
