package devnet

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/toid"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// Lists of transactions and events, and what fees were paid. They are read from the records of the
// transactions, a bounded number of ledgers at a time.
const (
	maxTransactionsPerPage     = 200
	defaultTransactionsPerPage = 50
	maxEventsPerPage           = 10_000
	defaultEventsPerPage       = 100
	maxLedgersScanned          = 10_000 // by one request for events
	feeWindowLedgers           = 50
)

func (n *Network) getTransactions(
	req protocol.GetTransactionsRequest,
) (answer protocol.GetTransactionsResponse, err error) {
	if err := checkFormat(req.Format); err != nil {
		return answer, err
	}
	err = n.read(func(t tip, r pebble.Reader) error {
		available := protocol.LedgerSeqRange{FirstLedger: t.oldest, LastLedger: t.latest}
		if err := req.IsValid(maxTransactionsPerPage, available); err != nil {
			return &rpcError{codeInvalidRequest, err.Error()}
		}
		start, after, limit, err := transactionPage(req)
		if err != nil {
			return &rpcError{codeInvalidParams, err.Error()}
		}
		answer = protocol.GetTransactionsResponse{
			Transactions:          []protocol.TransactionInfo{},
			LatestLedger:          t.latest,
			LatestLedgerCloseTime: t.latestClose,
			OldestLedger:          t.oldest,
			OldestLedgerCloseTime: t.oldestClose,
		}
		sizeBytes := 0
		for s := max(start, t.oldest); s <= t.latest && len(answer.Transactions) < limit &&
			sizeBytes < maxPageBytes; s++ {
			err := eachTransaction(r, s, func(tx *txRecord) error {
				id := toid.New(int32(tx.ledger), int32(tx.order), 1).ToInt64()
				if id <= after || len(answer.Transactions) == limit {
					return nil
				}
				details, err := tx.details()
				if err != nil {
					return err
				}
				sizeBytes += len(tx.envelope) + len(tx.meta) + len(tx.result)
				answer.Cursor = strconv.FormatInt(id, 10)
				answer.Transactions = append(
					answer.Transactions,
					protocol.TransactionInfo{TransactionDetails: details, LedgerCloseTime: tx.closeTime},
				)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return answer, err
}

// transactionPage reads where a page begins: at a ledger, or after a transaction's identifier.
func transactionPage(
	req protocol.GetTransactionsRequest,
) (start uint32, after int64, limit int, err error) {
	start, limit = req.StartLedger, defaultTransactionsPerPage
	if req.Pagination == nil {
		return start, 0, limit, nil
	}
	if req.Pagination.Limit > 0 {
		limit = int(req.Pagination.Limit)
	}
	if req.Pagination.Cursor == "" {
		return start, 0, limit, nil
	}
	after, err = strconv.ParseInt(req.Pagination.Cursor, 10, 64)
	if err != nil || after < 0 {
		return 0, 0, 0, fmt.Errorf("cursor %q is not that of a transaction", req.Pagination.Cursor)
	}
	return uint32(after >> 32), after, limit, nil
}

// details is a transaction as the lists tell it.
func (t *txRecord) details() (d protocol.TransactionDetails, err error) {
	d = protocol.TransactionDetails{
		Status:           protocol.TransactionStatusFailed,
		TransactionHash:  t.hash.HexString(),
		ApplicationOrder: int32(t.order),
		FeeBump:          t.feeBump,
		Ledger:           t.ledger,
		EnvelopeXDR:      base64.StdEncoding.EncodeToString(t.envelope),
		ResultXDR:        base64.StdEncoding.EncodeToString(t.result),
		ResultMetaXDR:    base64.StdEncoding.EncodeToString(t.meta),
	}
	if !t.success {
		return d, nil
	}
	d.Status = protocol.TransactionStatusSuccess
	operations, err := t.events()
	for _, events := range operations {
		texts := []string{}
		for _, event := range events {
			text, err := xdr.MarshalBase64(event)
			if err != nil {
				return d, fmt.Errorf("encode an event: %w", err)
			}
			texts = append(texts, text)
		}
		d.Events.ContractEventsXDR = append(d.Events.ContractEventsXDR, texts)
	}
	return d, err
}

// events are those of each operation.
func (t *txRecord) events() (all [][]xdr.ContractEvent, err error) {
	var meta xdr.TransactionMeta
	if err := xdr.SafeUnmarshal(t.meta, &meta); err != nil {
		return nil, fmt.Errorf("decode the meta of transaction %x: %w", t.hash, err)
	}
	for _, operation := range meta.MustV4().Operations {
		all = append(all, operation.Events)
	}
	return all, nil
}

func (n *Network) getEvents(
	req protocol.GetEventsRequest,
) (answer protocol.GetEventsResponse, err error) {
	if err := checkFormat(req.Format); err != nil {
		return answer, err
	}
	if err := req.Valid(maxEventsPerPage); err != nil {
		return answer, &rpcError{codeInvalidParams, err.Error()}
	}
	err = n.read(func(t tip, r pebble.Reader) error {
		answer = protocol.GetEventsResponse{
			Events:                []protocol.EventInfo{},
			LatestLedger:          t.latest,
			LatestLedgerCloseTime: t.latestClose,
			OldestLedger:          t.oldest,
			OldestLedgerCloseTime: t.oldestClose,
		}
		after, limit := protocol.Cursor{Ledger: req.StartLedger}, defaultEventsPerPage
		if p := req.Pagination; p != nil && p.Limit > 0 {
			limit = int(p.Limit)
		}
		if p := req.Pagination; p != nil && p.Cursor != nil {
			after = *p.Cursor
		}
		if after.Ledger < t.oldest || after.Ledger > t.latest {
			return &rpcError{
				codeInvalidRequest,
				fmt.Sprintf("startLedger must be within the ledger range: %d - %d", t.oldest, t.latest),
			}
		}
		last := min(t.latest, after.Ledger+maxLedgersScanned-1)
		if req.EndLedger > 0 {
			last = min(last, req.EndLedger-1) // the end is not part of the range
		}
		return scanEvents(r, req, after, last, limit, &answer)
	})
	return answer, err
}

// scanEvents collects what the filters let through, and the place to go on from.
func scanEvents(
	r pebble.Reader,
	req protocol.GetEventsRequest,
	after protocol.Cursor,
	last uint32,
	limit int,
	answer *protocol.GetEventsResponse,
) error {
	byCursor := req.Pagination != nil && req.Pagination.Cursor != nil
	for s := after.Ledger; s <= last && len(answer.Events) < limit; s++ {
		err := eachTransaction(r, s, func(tx *txRecord) error {
			if !tx.success {
				return nil
			}
			found, err := eventInfos(tx, req)
			for _, event := range found {
				if byCursor && event.ID <= after.String() || len(answer.Events) == limit {
					continue
				}
				answer.Events = append(answer.Events, event)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if len(answer.Events) == limit {
		answer.Cursor = answer.Events[limit-1].ID
		return nil
	}
	answer.Cursor = protocol.Cursor{
		Ledger: last,
		Tx:     toid.TransactionMask,
		Op:     toid.OperationMask,
		Event:  math.MaxUint32 - 1,
	}.String()
	return nil
}

func eventInfos(
	tx *txRecord, req protocol.GetEventsRequest,
) (found []protocol.EventInfo, err error) {
	operations, err := tx.events()
	if err != nil {
		return nil, err
	}
	for op, events := range operations {
		for i, event := range events {
			if !req.Matches(xdr.DiagnosticEvent{InSuccessfulContractCall: true, Event: event}) {
				continue
			}
			info, err := eventInfo(tx, op, i, event)
			if err != nil {
				return nil, err
			}
			found = append(found, info)
		}
	}
	return found, nil
}

func eventInfo(
	tx *txRecord, op, i int, event xdr.ContractEvent,
) (info protocol.EventInfo, err error) {
	info = protocol.EventInfo{
		EventType:      protocol.EventTypeContract,
		Ledger:         int32(tx.ledger),
		LedgerClosedAt: time.Unix(tx.closeTime, 0).UTC().Format(time.RFC3339),
		ID: protocol.Cursor{
			Ledger: tx.ledger,
			Tx:     tx.order,
			Op:     uint32(op),
			Event:  uint32(i),
		}.String(),
		TxIndex:         tx.order,
		OpIndex:         uint32(op),
		TransactionHash: tx.hash.HexString(),
	}
	info.ContractID, err = strkey.Encode(strkey.VersionByteContract, event.ContractId[:])
	if err != nil {
		return info, fmt.Errorf("name a contract: %w", err)
	}
	for _, topic := range event.Body.V0.Topics {
		text, err := xdr.MarshalBase64(topic)
		if err != nil {
			return info, fmt.Errorf("encode a topic: %w", err)
		}
		info.TopicXDR = append(info.TopicXDR, text)
	}
	if info.ValueXDR, err = xdr.MarshalBase64(event.Body.V0.Data); err != nil {
		return info, fmt.Errorf("encode an event: %w", err)
	}
	return info, nil
}

// getFeeStats describes the last ledgers. Every operation costs the base fee here.
func (n *Network) getFeeStats() (answer protocol.GetFeeStatsResponse, err error) {
	err = n.read(func(t tip, r pebble.Reader) error {
		answer = protocol.GetFeeStatsResponse{LatestLedger: t.latest}
		first := t.oldest
		if t.latest >= feeWindowLedgers {
			first = max(first, t.latest-feeWindowLedgers+1)
		}
		classic, calls := uint32(0), uint32(0)
		for s := first; s <= t.latest; s++ {
			err := eachTransaction(r, s, func(tx *txRecord) error {
				var envelope xdr.TransactionEnvelope
				if err := xdr.SafeUnmarshal(tx.envelope, &envelope); err != nil {
					return fmt.Errorf("decode a transaction of ledger %d: %w", s, err)
				}
				if envelope.Operations()[0].Body.Type == xdr.OperationTypeInvokeHostFunction {
					calls++
				} else {
					classic++
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		answer.InclusionFee, answer.SorobanInclusionFee = atBaseFee(
			classic,
			t.latest-first+1,
		), atBaseFee(calls, t.latest-first+1)
		return nil
	})
	return answer, err
}

func atBaseFee(transactions, ledgers uint32) protocol.FeeDistribution {
	const fee = BaseFeeStroops
	return protocol.FeeDistribution{
		Max:              fee,
		Min:              fee,
		Mode:             fee,
		P10:              fee,
		P20:              fee,
		P30:              fee,
		P40:              fee,
		P50:              fee,
		P60:              fee,
		P70:              fee,
		P80:              fee,
		P90:              fee,
		P95:              fee,
		P99:              fee,
		TransactionCount: transactions,
		LedgerCount:      ledgers,
	}
}

// eachTransaction calls f with the transactions of a ledger in the order in which they were
// applied.
func eachTransaction(r pebble.Reader, sequence uint32, f func(*txRecord) error) error {
	index, ok, err := get(r, sequenceKey(keyTxIndex, sequence))
	if err != nil || !ok {
		return err
	}
	for ; len(index) >= len(xdr.Hash{}); index = index[len(xdr.Hash{}):] {
		tx, err := readTx(r, xdr.Hash(index[:len(xdr.Hash{})]))
		if err != nil {
			return err
		}
		if tx == nil {
			return fmt.Errorf("a transaction of ledger %d is missing from the devnet folder", sequence)
		}
		if err := f(tx); err != nil {
			return err
		}
	}
	return nil
}
