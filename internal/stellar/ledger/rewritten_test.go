package ledger_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

// rewrittenCall returns a call that contains rewritten events, but the hash of the original
// events. The given number of contracts signed it.
func rewrittenCall(t testing.TB, signers int, were, are []xdr.ContractEvent) testTx {
	t.Helper()
	x := call(metaV4(1, were...), xdr.Memo{})
	withHash(t, &x)
	x.meta.V4.Operations[0].Events = are
	body := x.operations[0].Body.MustInvokeHostFunctionOp()
	for i := range signers {
		body.Auth = append(body.Auth, xdr.SorobanAuthorizationEntry{
			Credentials: xdr.SorobanCredentials{
				Type: xdr.SorobanCredentialsTypeSorobanCredentialsAddress,
				Address: &xdr.SorobanAddressCredentials{
					Address:   *addressValue(signerOf(i)).Address,
					Signature: xdr.ScVal{Type: xdr.ScValTypeScvVoid},
				},
			},
			RootInvocation: xdr.SorobanAuthorizedInvocation{
				Function: xdr.SorobanAuthorizedFunction{
					Type: xdr.SorobanAuthorizedFunctionTypeSorobanAuthorizedFunctionTypeContractFn,
					ContractFn: &xdr.InvokeContractArgs{
						ContractAddress: *addressValue(contract).Address,
						FunctionName:    "mint",
					},
				},
			},
		})
	}
	x.operations = []xdr.Operation{operation(xdr.OperationTypeInvokeHostFunction, body)}
	return x
}

func signerOf(i int) string {
	id := make([]byte, 32)
	binary.BigEndian.PutUint32(id[4:], uint32(i+1))
	return strkey.MustEncode(strkey.VersionByteContract, id)
}

func issuedAsset(i int) xdr.Asset {
	return xdr.MustNewCreditAsset(fmt.Sprintf("A%d", i), issuer)
}

// The ledger that upgrades the network to protocol 23 already has that version, but its calls ran
// before the upgrade.
func TestRewrittenEventsAreProvedUpToTheUpgrade(t *testing.T) {
	one := amountValue(0, 1)
	foreign := event(usd, "mint", one, receiver)
	foreign.ContractId = &xdr.ContractId{7}
	x := rewrittenCall(t, 3, []xdr.ContractEvent{
		event(usd, "mint", one, signerOf(1), receiver),
		event(longCode, "transfer", one, issuer, receiver),
		foreign,
		event(usd, "burn", one, sender),
		event(longCode, "transfer", one, sender, issuer),
		event(usd, "clawback", one, sender, receiver),
		event(native, "transfer", one, sender, receiver),
	}, []xdr.ContractEvent{
		event(usd, "mint", one, receiver),
		event(longCode, "mint", one, receiver),
		foreign,
		event(usd, "burn", one, sender),
		event(longCode, "burn", one, sender),
		event(usd, "clawback", one, receiver),
		event(native, "transfer", one, sender, receiver),
	})
	for protocol := range xdr.Uint32(8) {
		protocol += 18
		err := verify(sealed(t, closeLedger(t, 1, x), protocol, nil), passphrase)
		if may := protocol >= 20 && protocol <= 23; (err == nil) != may ||
			err != nil && !errors.Is(err, ledger.ErrNotProved) {
			t.Errorf("protocol %d: %v", protocol, err)
		}
	}
}

// Many possible administrators of many assets must not prevent the proof of the issuers'
// payments.
func TestPaymentsOfManyIssuersInOneRewrittenCall(t *testing.T) {
	var were, are []xdr.ContractEvent
	for i := range 6 {
		were = append(were, event(issuedAsset(i), "transfer", amountValue(0, 1), issuer, receiver))
		are = append(are, event(issuedAsset(i), "mint", amountValue(0, 1), receiver))
	}
	x := rewrittenCall(t, 40, were, are)
	if err := verify(sealed(t, closeLedger(t, 1, x), 22, nil), passphrase); err != nil {
		t.Error(err)
	}
}

// A source must not be able to block the processor with a ledger that takes many attempts to
// prove. Calls up to the network's limits are proved, and calls of four times that size are not.
func TestWhatProvingCostsIsBounded(t *testing.T) {
	var were, are []xdr.ContractEvent
	for i := range 13 { // 8,192 combinations, and the last one is right
		were = append(were, event(issuedAsset(i), "transfer", amountValue(0, 1), sender, issuer))
		are = append(are, event(issuedAsset(i), "burn", amountValue(0, 1), sender))
	}
	for _, sizeBytes := range []int{13 << 10, 60 << 10} {
		filling := xdr.ScBytes(make([]byte, sizeBytes))
		large := event(usd, "anything", xdr.ScVal{Type: xdr.ScValTypeScvBytes, Bytes: &filling})
		x := rewrittenCall(t, 0, append(were[:13:13], large), append(are[:13:13], large))
		err := verify(sealed(t, closeLedger(t, 1, x), 22, nil), passphrase)
		if proved := sizeBytes < 16<<10; proved && err != nil ||
			!proved && !errors.Is(err, ledger.ErrNotProved) {
			t.Errorf("%d bytes: %v", sizeBytes, err)
		}
	}
}

// In a newer protocol, the meta may have a newer version as well. No hash covers the part before
// the events, so the call is not proved, but the rest of the ledger is read.
func TestANewerMetaQuarantinesCallsAlone(t *testing.T) {
	called := call(metaV4(1, event(usd, "transfer", amountValue(0, 5), sender, receiver)),
		xdr.Memo{})
	withHash(t, &called)
	version := func(n byte, meta xdr.TransactionMeta) []byte {
		raw := marshal(t, meta)
		raw[3] = n
		return raw
	}
	newer := func(part []byte) []byte {
		return bytes.Replace(part, version(4, called.meta), version(5, called.meta), 1)
	}
	plain := closeLedger(t, 2, payOne(1), called, payOne(3))
	read, err := ledger.Verify(ledger.Raw{XDR: sealed(t, plain, 31, newer)}, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newExtractor(t, passphrase).Read(read)
	if err != nil || len(l.Payments) != 2 || len(l.Quarantined) != 1 {
		t.Errorf("got %d payments, %d quarantined (%v)", len(l.Payments), len(l.Quarantined), err)
	}
	err = verify(sealed(t, plain, 26, newer), passphrase)
	if !errors.Is(err, ledger.ErrNotProved) {
		t.Errorf("in protocol 26: %v", err)
	}
}
