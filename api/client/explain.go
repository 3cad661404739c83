package client

import (
	"context"
	"time"
)

// Explanation explains the payments of one transaction. Outcome is a code. Detail explains the code
// and says what to do.
type Explanation struct {
	TxHash         string             `json:"txHash"`
	Outcome        string             `json:"outcome"`
	Detail         string             `json:"detail"`
	Ledger         *uint32            `json:"ledger"`
	LedgerClosedAt *time.Time         `json:"ledgerClosedAt"`
	ReadThrough    *uint32            `json:"readThrough"` // the latest ledger read so far
	Payments       []ExplainedPayment `json:"payments"`
}

// ExplainedPayment is a payment and its result for each of the account's watches.
type ExplainedPayment struct {
	ID       string           `json:"id"`
	From     string           `json:"from"`
	To       string           `json:"to"`
	Asset    string           `json:"asset"`
	Amount   string           `json:"amount"`
	MemoType *string          `json:"memoType"`
	Memo     *string          `json:"memo"`
	Watches  []ExplainedWatch `json:"watches"`
}

// ExplainedWatch is a watch and the event that it created for a payment, or the reasons why it
// created none. A payment.rejected event also has reasons. The endpoint is nil if the watch was
// deleted.
type ExplainedWatch struct {
	WatchID        string            `json:"watchId"`
	EventID        *string           `json:"eventId"`
	EventType      *string           `json:"eventType"`
	EndpointID     *string           `json:"endpointId"`
	EndpointStatus *string           `json:"endpointStatus"`
	Reasons        []ExplainedReason `json:"reasons"`
}

// ExplainedReason is one reason why a watch did not accept a payment.
type ExplainedReason struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// ExplainTransaction returns why the payments of a transaction have events or have none.
func (c *Client) ExplainTransaction(ctx context.Context, txHash string) (Explanation, error) {
	return read[Explanation](ctx, c, id("/v1/transactions", txHash))
}
