package client

import (
	"context"
	"time"
)

// Explanation says what became of the payments of one transaction. Outcome is a code, and Detail
// its meaning, with what to do.
type Explanation struct {
	TxHash         string             `json:"txHash"`
	Outcome        string             `json:"outcome"`
	Detail         string             `json:"detail"`
	Ledger         *uint32            `json:"ledger"`
	LedgerClosedAt *time.Time         `json:"ledgerClosedAt"`
	ReadThrough    *uint32            `json:"readThrough"` // the newest ledger that was read
	Payments       []ExplainedPayment `json:"payments"`
}

// ExplainedPayment is a payment, and what each watch of the account made of it.
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

// ExplainedWatch is a watch that made an event of a payment, or the reasons why it did not. A
// payment.rejected has reasons too. Its endpoint is nil if the watch was deleted.
type ExplainedWatch struct {
	WatchID        string            `json:"watchId"`
	EventID        *string           `json:"eventId"`
	EventType      *string           `json:"eventType"`
	EndpointID     *string           `json:"endpointId"`
	EndpointStatus *string           `json:"endpointStatus"`
	Reasons        []ExplainedReason `json:"reasons"`
}

// ExplainedReason is why a watch did not take a payment.
type ExplainedReason struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// ExplainTransaction says why the payments of a transaction have events, or none.
func (c *Client) ExplainTransaction(ctx context.Context, txHash string) (Explanation, error) {
	return read[Explanation](ctx, c, id("/v1/transactions", txHash))
}
