package devnet

import (
	"fmt"

	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// What a simulated transfer is said to need. Nothing is metered here, so it is the same for each.
const (
	simulatedResourceFee  = 50_000
	simulatedInstructions = 1_000_000
	simulatedBytes        = 1_000
)

// simulateTransaction applies a transfer of an asset contract to a layer that is dropped, and
// returns what its transaction must say.
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
	answer.LatestLedger = n.tip.latest
	l := newLayer(n.state, n.nextClosing())
	if answer.Error = simulated(l, tx); answer.Error != "" {
		return answer, nil
	}
	call := *tx.tx.Operations[0].Body.InvokeHostFunctionOp.HostFunction.InvokeContract
	footprint := xdr.LedgerFootprint{ReadOnly: []xdr.LedgerKey{instanceKey(call.ContractAddress)}}
	for _, key := range l.order {
		footprint.ReadWrite = append(footprint.ReadWrite, key.decode())
	}
	answer.MinResourceFee = simulatedResourceFee
	answer.TransactionDataXDR = base64XDR(xdr.SorobanTransactionData{
		ResourceFee: simulatedResourceFee,
		Resources: xdr.SorobanResources{
			Instructions:  simulatedInstructions,
			DiskReadBytes: simulatedBytes,
			WriteBytes:    simulatedBytes,
			Footprint:     footprint,
		},
	})
	auth := base64XDR(xdr.SorobanAuthorizationEntry{
		Credentials: xdr.SorobanCredentials{
			Type: xdr.SorobanCredentialsTypeSorobanCredentialsSourceAccount,
		},
		RootInvocation: xdr.SorobanAuthorizedInvocation{Function: xdr.SorobanAuthorizedFunction{
			Type:       xdr.SorobanAuthorizedFunctionTypeSorobanAuthorizedFunctionTypeContractFn,
			ContractFn: &call,
		}},
	})
	returned := base64XDR(nothing)
	answer.Results = []protocol.SimulateHostFunctionResult{
		{AuthXDR: &[]string{auth}, ReturnValueXDR: &returned},
	}
	for _, event := range l.events {
		answer.EventsXDR = append(answer.EventsXDR,
			base64XDR(xdr.DiagnosticEvent{InSuccessfulContractCall: true, Event: event}))
	}
	return answer, nil
}

// simulated applies the transfer, or says why it cannot.
func simulated(l *layer, tx *transaction) string {
	if !tx.isContractCall() {
		return "the development network simulates calls of an asset contract's transfer function only"
	}
	body, source := tx.tx.Operations[0].Body, tx.opSource(0)
	o := checkTransfer(source, body)
	switch {
	case account(l, source) == nil:
		return fmt.Sprintf("account %s does not exist", source.Address())
	case o.general == xdr.OperationResultCodeOpNotSupported:
		return "the development network knows the transfer function of asset contracts only"
	case !o.ok():
		return "the transfer must be from the account that calls it"
	case !applyTransfer(l, source, body).ok():
		return "HostError: Error(Contract, #10): the transfer fails: a balance, a trustline or an " +
			"account is missing"
	}
	return ""
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
