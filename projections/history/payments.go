package history

import (
	"context"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
)

const (
	selectTxPayments = `
SELECT payment_id, operation, from_address, to_muxed_id, memo, memo_type, asset_code, asset_issuer,
    amount_stroops, ledger, ledger_closed_at, tx_hash, to_address
FROM {database:Identifier}.payments
WHERE tx_hash = {transaction:String}
ORDER BY payment_id
LIMIT 1 BY payment_id
LIMIT 1000`

	selectTxEvents = `
SELECT event_id, watch_id, payment_id, type,
    JSONExtract(body, 'data', 'verification', 'reasons', 'Array(String)')
FROM {database:Identifier}.events
WHERE account_id = {account:String} AND tx_hash = {transaction:String} AND moves = 0
ORDER BY created_at, event_id
LIMIT 1 BY event_id
LIMIT 1000`
)

// Payments returns a transaction's payments to watched wallets, with the account's events for each
// of them. It waits, for a limited time, for everything that was in the topics at the time of the
// call. It returns ErrBehind, ErrUnavailable or the context's error.
func (h *History) Payments(
	ctx context.Context, accountID, txHash string,
) (paid []readmodel.Paid, err error) {
	which := writer.Parameters{"account": accountID, "transaction": txHash}
	err = h.onMoves(ctx, func(ctx context.Context, db tables) (err error) {
		paid, err = db.paid(ctx, selectTxPayments, selectTxEvents, which)
		return err
	})
	return paid, err
}

// paid reads payments and their events by two queries, whose columns are those of selectTxPayments
// and selectTxEvents.
func (db tables) paid(
	ctx context.Context, payments, events string, which writer.Parameters,
) (paid []readmodel.Paid, err error) {
	at := map[string]int{} // index in paid by payment id
	err = db.Query(ctx, payments, which, func(read func(...any) error) error {
		p, err := readPaidRow(read)
		at[p.ID] = len(paid)
		paid = append(paid, readmodel.Paid{Payment: p})
		return err
	})
	if err != nil {
		return nil, err
	}
	err = db.Query(ctx, events, which, func(read func(...any) error) error {
		var e readmodel.PaidEvent
		var paymentID, kind string
		err := read(&e.ID, &e.WatchID, &paymentID, &kind, &e.Reasons)
		e.Type = domain.EventType(kind)
		if i, known := at[paymentID]; known {
			paid[i].Events = append(paid[i].Events, e)
		}
		return err
	})
	return paid, err
}
