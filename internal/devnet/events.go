package devnet

import (
	"fmt"
	"math"
	"strconv"
	"time"

	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/toid"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// Lists of transactions and events, and fees, from the stored transactions of a bounded number of
// ledgers.
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
	if err := req.IsValid(maxTransactionsPerPage, n.available()); err != nil {
		return answer, &rpcError{codeInvalidRequest, err.Error()}
	}
	after, limit, err := page(req.Pagination, defaultTransactionsPerPage)
	if err != nil {
		return answer, &rpcError{codeInvalidParams, err.Error()}
	}
	start := req.StartLedger
	if after >= 0 {
		start = uint32(after >> 32) // a cursor is the identifier of a transaction
	}
	answer = protocol.GetTransactionsResponse{
		Transactions:          []protocol.TransactionInfo{},
		LatestLedger:          n.tip.latest,
		LatestLedgerCloseTime: n.tip.latestClose,
		OldestLedger:          n.tip.oldest,
		OldestLedgerCloseTime: n.tip.oldestClose,
	}
	size := 0
	err = n.store.transactions(max(start, n.tip.oldest), n.tip.latest,
		func(tx protocol.TransactionInfo) (more bool, err error) {
			id := toid.New(int32(tx.Ledger), tx.ApplicationOrder, 1).ToInt64()
			if id <= after {
				return true, nil
			}
			size += len(tx.EnvelopeXDR) + len(tx.ResultMetaXDR) + len(tx.ResultXDR)
			answer.Cursor = strconv.FormatInt(id, 10)
			answer.Transactions = append(answer.Transactions, tx)
			return len(answer.Transactions) < limit && size < maxPageBytes, nil
		})
	return answer, err
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
	answer = protocol.GetEventsResponse{
		Events:                []protocol.EventInfo{},
		LatestLedger:          n.tip.latest,
		LatestLedgerCloseTime: n.tip.latestClose,
		OldestLedger:          n.tip.oldest,
		OldestLedgerCloseTime: n.tip.oldestClose,
	}
	start, after, limit := req.StartLedger, "", defaultEventsPerPage
	if p := req.Pagination; p != nil {
		if p.Limit > 0 {
			limit = int(p.Limit)
		}
		if p.Cursor != nil {
			start, after = p.Cursor.Ledger, p.Cursor.String()
		}
	}
	if start < n.tip.oldest || start > n.tip.latest {
		return answer, &rpcError{codeInvalidRequest, fmt.Sprintf(
			"startLedger must be within the ledger range: %d - %d", n.tip.oldest, n.tip.latest)}
	}
	last := min(n.tip.latest, start+maxLedgersScanned-1)
	if req.EndLedger > 0 {
		last = min(last, req.EndLedger-1) // the end is not part of the range
	}
	answer.Cursor = protocol.Cursor{
		Ledger: last,
		Tx:     toid.TransactionMask,
		Op:     toid.OperationMask,
		Event:  math.MaxUint32 - 1,
	}.String()
	err = n.store.transactions(start, last,
		func(tx protocol.TransactionInfo) (more bool, err error) {
			found, err := eventsOf(tx, req)
			for _, event := range found {
				if event.ID <= after || len(answer.Events) == limit {
					continue
				}
				if answer.Events = append(answer.Events, event); len(answer.Events) == limit {
					answer.Cursor = event.ID
				}
			}
			return len(answer.Events) < limit, err
		})
	return answer, err
}

// eventsOf are the events of a transaction that the filters let through.
func eventsOf(
	tx protocol.TransactionInfo, req protocol.GetEventsRequest,
) (found []protocol.EventInfo, err error) {
	for op, texts := range tx.Events.ContractEventsXDR {
		for i, text := range texts {
			var event xdr.ContractEvent
			if err := xdr.SafeUnmarshalBase64(text, &event); err != nil {
				return nil, fmt.Errorf("decode an event of transaction %s: %w", tx.TransactionHash, err)
			}
			if !req.Matches(xdr.DiagnosticEvent{InSuccessfulContractCall: true, Event: event}) {
				continue
			}
			contract, err := strkey.Encode(strkey.VersionByteContract, event.ContractId[:])
			if err != nil {
				return nil, err
			}
			order := uint32(tx.ApplicationOrder)
			info := protocol.EventInfo{
				EventType:      protocol.EventTypeContract,
				Ledger:         int32(tx.Ledger),
				LedgerClosedAt: time.Unix(tx.LedgerCloseTime, 0).UTC().Format(time.RFC3339),
				ContractID:     contract,
				ID: protocol.Cursor{
					Ledger: tx.Ledger, Tx: order, Op: uint32(op), Event: uint32(i),
				}.String(),
				TxIndex:         order,
				OpIndex:         uint32(op),
				TransactionHash: tx.TransactionHash,
				ValueXDR:        base64XDR(event.Body.V0.Data),
			}
			for _, topic := range event.Body.V0.Topics {
				info.TopicXDR = append(info.TopicXDR, base64XDR(topic))
			}
			found = append(found, info)
		}
	}
	return found, nil
}

// getFeeStats describes the last ledgers. Every operation costs the base fee here.
func (n *Network) getFeeStats(struct{}) (answer protocol.GetFeeStatsResponse, err error) {
	const fee = BaseFeeStroops
	first := n.tip.oldest
	if n.tip.latest >= feeWindowLedgers {
		first = max(first, n.tip.latest-feeWindowLedgers+1)
	}
	stats := protocol.FeeDistribution{
		Max: fee, Min: fee, Mode: fee, P10: fee, P20: fee, P30: fee, P40: fee, P50: fee, P60: fee,
		P70: fee, P80: fee, P90: fee, P95: fee, P99: fee, LedgerCount: n.tip.latest - first + 1,
	}
	answer = protocol.GetFeeStatsResponse{
		LatestLedger:        n.tip.latest,
		InclusionFee:        stats,
		SorobanInclusionFee: stats,
	}
	err = n.store.transactions(first, n.tip.latest,
		func(tx protocol.TransactionInfo) (more bool, err error) {
			sent, err := decodeTransaction(tx.EnvelopeXDR, n.cfg.Passphrase)
			if err != nil {
				return false, fmt.Errorf("decode transaction %s: %w", tx.TransactionHash, err)
			}
			if sent.isContractCall() {
				answer.SorobanInclusionFee.TransactionCount++
			} else {
				answer.InclusionFee.TransactionCount++
			}
			return true, nil
		})
	return answer, err
}
