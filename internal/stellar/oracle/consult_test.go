package oracle

import (
	"errors"
	"fmt"
	"io"

	"github.com/stellar/go-stellar-sdk/ingest"
	"github.com/stellar/go-stellar-sdk/processors/token_transfer"
	"github.com/stellar/go-stellar-sdk/xdr"
	"google.golang.org/protobuf/proto"
)

// told is an event from the processor, with its origin.
type told struct {
	*token_transfer.TokenTransferEvent
	tx    ingest.LedgerTransaction
	op    xdr.Operation
	index int                // of the operation, beginning at 0
	last  bool               // whether it is the operation's last event
	raw   *xdr.ContractEvent // the contract event, if a contract emitted it
	n     int                // for contracts: number of the balance change within the operation
}

// consult runs the processor on a ledger. It returns the events without the fees, and the number
// of fees.
func consult(lcm xdr.LedgerCloseMeta, passphrase string) (all []told, fees int, err error) {
	processor := token_transfer.NewEventsProcessor(passphrase)
	events, err := processor.EventsFromLedger(lcm)
	if err != nil {
		return nil, 0, err
	}
	reader, err := ingest.NewLedgerTransactionReaderFromLedgerCloseMeta(passphrase, lcm)
	if err != nil {
		return nil, 0, err
	}
	for {
		tx, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		some, err := consultTransaction(processor, tx)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, some...)
	}
	fees, err = account(events, all)
	return all, fees, err
}

// account checks that processing the events separately yields everything that the processor
// reports for the whole ledger.
func account(events []*token_transfer.TokenTransferEvent, all []told) (fees int, err error) {
	rest := all
	for _, event := range events {
		if event.GetFee() != nil {
			fees++
			continue
		}
		if len(rest) == 0 || !proto.Equal(event, rest[0].TokenTransferEvent) {
			return 0, fmt.Errorf("asked event by event the processor leaves out %v", event)
		}
		rest = rest[1:]
	}
	if len(rest) > 0 {
		return 0, fmt.Errorf("asked event by event the processor adds %v", rest[0])
	}
	return fees, nil
}

func consultTransaction(
	processor *token_transfer.EventsProcessor, tx ingest.LedgerTransaction,
) (all []told, err error) {
	if !tx.Result.Successful() {
		return nil, nil
	}
	results, _ := tx.Result.OperationResults()
	for i, op := range tx.Envelope.Operations() {
		ask := consultOperation
		if op.Body.Type == xdr.OperationTypeInvokeHostFunction {
			ask = consultContract
		}
		some, err := ask(processor, told{tx: tx, op: op, index: i}, results[i])
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func consultOperation(
	processor *token_transfer.EventsProcessor, of told, result xdr.OperationResult,
) (all []told, err error) {
	events, err := processor.EventsFromOperation(of.tx, uint32(of.index), of.op, result)
	for i, event := range events {
		of.TokenTransferEvent, of.last = event, i == len(events)-1
		all = append(all, of)
	}
	return all, err
}

// consultContract processes each event of a contract separately, to know what each event became.
// The processor skips events that it does not consider a token's, and sets the asset for events
// of an asset's contract.
func consultContract(
	processor *token_transfer.EventsProcessor, of told, result xdr.OperationResult,
) (all []told, err error) {
	raws, err := of.tx.GetContractEventsForOperation(uint32(of.index))
	if err != nil {
		return nil, err
	}
	n := 0
	for i := range raws {
		alone := of.tx
		alone.UnsafeMeta = withEvent(of.tx.UnsafeMeta, of.index, raws[i])
		events, err := processor.EventsFromOperation(alone, uint32(of.index), of.op, result)
		if err != nil {
			return nil, err
		}
		for _, event := range events {
			of.TokenTransferEvent, of.raw, of.n = event, &raws[i], n
			all = append(all, of)
			if event.GetAsset() != nil {
				n++
			}
		}
	}
	return all, nil
}

func withEvent(
	meta xdr.TransactionMeta, operation int, event xdr.ContractEvent,
) xdr.TransactionMeta {
	if meta.V == 3 {
		v3, soroban := *meta.V3, *meta.V3.SorobanMeta
		soroban.Events, v3.SorobanMeta = []xdr.ContractEvent{event}, &soroban
		return xdr.TransactionMeta{V: 3, V3: &v3}
	}
	v4 := *meta.V4
	v4.Operations = append([]xdr.OperationMetaV2(nil), v4.Operations...)
	v4.Operations[operation].Events = []xdr.ContractEvent{event}
	return xdr.TransactionMeta{V: 4, V4: &v4}
}
