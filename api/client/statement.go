package client

import (
	"context"
	"net/url"
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
	Operation      *int               `json:"operation"` // nil: beside the operations, as fees are
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

// StatementFilter selects moves. Of each bound one form is set, or none.
type StatementFilter struct {
	Asset                string // XLM, CODE:ISSUER, or pool:ID; empty: all
	FromLedger, ToLedger uint32 // both included
	From, To             time.Time
}

// GetStatement reads a page of a wallet's statement.
func (c *Client) GetStatement(
	ctx context.Context, wallet string, f StatementFilter, p Page,
) (answer Statement, err error) {
	query := url.Values{}
	for name, value := range map[string]string{
		"asset": f.Asset, "cursor": p.Cursor, "from": bound(f.FromLedger, f.From),
		"to": bound(f.ToLedger, f.To), "limit": count(uint64(max(p.Limit, 0))),
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	path := id("/v1/wallets", wallet, "statement")
	err = c.do(ctx, call{method: get, path: path, query: query, into: &answer})
	return answer, err
}

// bound is a ledger, or a time; empty: neither.
func bound(ledger uint32, at time.Time) string {
	if ledger != 0 {
		return count(uint64(ledger))
	}
	return instant(at)
}

func count(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}
