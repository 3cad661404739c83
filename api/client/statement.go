package client

import (
	"context"
	"strconv"
	"time"
)

// Statement is a page of the moves of a wallet's balances. Balances are those of all pages.
type Statement struct {
	WalletAddress string             `json:"walletAddress"`
	Asset         *string            `json:"asset"`         // nil: all balances
	RecordedSince *uint32            `json:"recordedSince"` // ledger; nil: no watch has seen one yet
	KeptSince     *time.Time         `json:"keptSince"`     // nil: everything is kept
	BeginsLater   bool               `json:"beginsLater"`   // the record begins after From
	ThroughLedger *uint32            `json:"throughLedger"` // every move up to it is there
	Balances      []BalanceStatement `json:"balances"`
	Data          []BalanceMove      `json:"data"` // oldest first
	NextCursor    *string            `json:"nextCursor"`
}

// BalanceStatement is one balance over a statement. One whose Unexplained is 0.0000000 is complete.
type BalanceStatement struct {
	Asset       string `json:"asset"` // XLM, CODE:ISSUER, or pool:ID
	Opening     string `json:"opening"`
	Closing     string `json:"closing"`
	Moves       uint64 `json:"moves"`
	Unexplained string `json:"unexplained"`
}

// BalanceMove is one change of a balance.
type BalanceMove struct {
	ID             string             `json:"id"`
	Asset          string             `json:"asset"`
	Kind           string             `json:"kind"`
	Ledger         uint32             `json:"ledger"`
	LedgerClosedAt time.Time          `json:"ledgerClosedAt"`
	TxHash         string             `json:"txHash"`
	Operation      *int               `json:"operation"` // nil: outside the operations, as fees are
	Before         string             `json:"before"`
	After          string             `json:"after"`
	Change         string             `json:"change"`
	Unexplained    string             `json:"unexplained"`
	Payments       []StatementPayment `json:"payments"`
}

// StatementPayment is a payment in a move: its events, or why each watch took it not.
type StatementPayment struct {
	ID       string     `json:"id"`
	From     string     `json:"from"`
	Amount   string     `json:"amount"`
	EventIDs []string   `json:"eventIds"`
	NotTaken []NotTaken `json:"notTaken"`
}

// NotTaken is why a watch made no event of a payment.
type NotTaken struct {
	WatchID string   `json:"watchId"`
	Reasons []string `json:"reasons"`
}

// StatementFilter selects moves; empty fields do not filter.
type StatementFilter struct {
	Asset string `json:"asset,omitempty" help:"only this balance: XLM, CODE:ISSUER, or pool:ID for shares in a liquidity pool"`
	From  Bound  `json:"from,omitzero" help:"start of the statement: a ledger, a timestamp, or how long ago"`
	To    Bound  `json:"to,omitzero" help:"end of the statement: the last ledger, a timestamp that it must close before, or how long ago"`
}

// Bound is a ledger, which is included, or a time; neither: there is no bound.
type Bound struct {
	Ledger uint32
	Time   time.Time
}

// String returns the bound as the API takes it.
func (b Bound) String() string {
	if b.Ledger != 0 {
		return strconv.FormatUint(uint64(b.Ledger), 10)
	}
	return b.Time.UTC().Format(time.RFC3339Nano)
}

// GetStatement reads a page of a wallet's statement.
func (c *Client) GetStatement(
	ctx context.Context, wallet string, f StatementFilter, p Page,
) (Statement, error) {
	return read[Statement](ctx, c, id("/v1/wallets", wallet, "statement"), f, p)
}
