package devnet

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// What a simulated transfer is said to need. Nothing is metered here, so it is the same for each.
const (
	simulatedResourceFee  = 50_000
	simulatedInstructions = 1_000_000
	simulatedBytes        = 1_000
)

// simulateTransaction carries out a transfer of an asset contract on a layer that is thrown away,
// and returns what its transaction must say.
func (n *Network) simulateTransaction(
	req protocol.SimulateTransactionRequest,
) (answer protocol.SimulateTransactionResponse, err error) {
	if err := checkFormat(req.Format); err != nil {
		return answer, err
	}
	tx, err := decodeTransaction(req.Transaction, n.cfg.Passphrase)
	if err != nil {
		return answer, &rpcError{codeInvalidParams, err.Error()}
	}
	err = n.read(func(t tip, r pebble.Reader) error {
		answer, err = n.simulate(t, diskState{r}, tx)
		return err
	})
	return answer, err
}

func (n *Network) simulate(
	t tip, s diskState, tx *transaction,
) (answer protocol.SimulateTransactionResponse, err error) {
	defer catchReadFault(&err)
	answer.LatestLedger = t.latest
	if !tx.isContractCall() || isNoTransfer(tx.tx.Operations[0].Body) {
		answer.Error = "the development network simulates one operation: a call of an asset contract's " +
			"transfer function"
		return answer, nil
	}
	body, source := tx.tx.Operations[0].Body, tx.opSource(0)
	l := newLayer(s, t.latest+1)
	l.rules = n.cfg.rules()
	if account(l, source) == nil {
		answer.Error = fmt.Sprintf("account %s does not exist", source.Address())
		return answer, nil
	}
	if _, ok := checkTransfer(source, body); !ok {
		answer.Error = "the transfer must be from the account that calls it: others' leave is not " +
			"taken here"
		return answer, nil
	}
	if _, ok := applyTransfer(l, source, body); !ok {
		answer.Error = "HostError: Error(Contract, #10): the transfer fails: a balance, a trustline or " +
			"an account is missing"
		return answer, nil
	}
	return n.simulated(answer, l, *body.InvokeHostFunctionOp)
}

// simulated fills in the answer for a transfer that goes through.
func (n *Network) simulated(
	answer protocol.SimulateTransactionResponse, l *layer, op xdr.InvokeHostFunctionOp,
) (protocol.SimulateTransactionResponse, error) {
	call := *op.HostFunction.InvokeContract
	data := xdr.SorobanTransactionData{
		ResourceFee: simulatedResourceFee,
		Resources: xdr.SorobanResources{
			Instructions:  simulatedInstructions,
			DiskReadBytes: simulatedBytes,
			WriteBytes:    simulatedBytes,
			Footprint:     xdr.LedgerFootprint{ReadOnly: []xdr.LedgerKey{instanceKey(call.ContractAddress)}},
		},
	}
	for _, key := range l.order {
		var changed xdr.LedgerKey
		if err := xdr.SafeUnmarshal([]byte(key), &changed); err != nil {
			return answer, fmt.Errorf("decode a ledger key: %w", err)
		}
		data.Resources.Footprint.ReadWrite = append(data.Resources.Footprint.ReadWrite, changed)
	}
	auth := xdr.SorobanAuthorizationEntry{
		Credentials: xdr.SorobanCredentials{
			Type: xdr.SorobanCredentialsTypeSorobanCredentialsSourceAccount,
		},
		RootInvocation: xdr.SorobanAuthorizedInvocation{Function: xdr.SorobanAuthorizedFunction{
			Type:       xdr.SorobanAuthorizedFunctionTypeSorobanAuthorizedFunctionTypeContractFn,
			ContractFn: &call,
		}},
	}
	parts := make([]string, 3)
	for i, part := range []any{data, auth, nothing} {
		text, err := xdr.MarshalBase64(part)
		if err != nil {
			return answer, fmt.Errorf("encode what was simulated: %w", err)
		}
		parts[i] = text
	}
	answer.TransactionDataXDR, answer.MinResourceFee = parts[0], simulatedResourceFee
	answer.Results = []protocol.SimulateHostFunctionResult{
		{AuthXDR: &[]string{parts[1]}, ReturnValueXDR: &parts[2]},
	}
	for _, event := range l.events {
		text, err := xdr.MarshalBase64(
			xdr.DiagnosticEvent{InSuccessfulContractCall: true, Event: event},
		)
		if err != nil {
			return answer, fmt.Errorf("encode an event: %w", err)
		}
		answer.EventsXDR = append(answer.EventsXDR, text)
	}
	return answer, nil
}

func instanceKey(contract xdr.ScAddress) xdr.LedgerKey {
	return xdr.LedgerKey{
		Type: xdr.LedgerEntryTypeContractData,
		ContractData: &xdr.LedgerKeyContractData{
			Contract:   contract,
			Key:        xdr.ScVal{Type: xdr.ScValTypeScvLedgerKeyContractInstance},
			Durability: xdr.ContractDataDurabilityPersistent,
		},
	}
}
