package client

import (
	"context"
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"
)

// Statement is a page of a wallet's balance changes. Balances covers all pages.
type Statement struct {
	WalletAddress string             `json:"walletAddress"`
	Asset         *string            `json:"asset"`         // nil: all balances
	RecordedSince *uint32            `json:"recordedSince"` // ledger; nil: none seen by a watch yet
	KeptSince     *time.Time         `json:"keptSince"`     // nil: unlimited retention
	BeginsLater   bool               `json:"beginsLater"`   // recording started after From
	ThroughLedger *uint32            `json:"throughLedger"` // all moves up to this ledger are included
	Balances      []BalanceStatement `json:"balances"`
	Data          []BalanceMove      `json:"data"` // oldest first
	NextCursor    *string            `json:"nextCursor"`
}

// BalanceStatement is one balance over a statement. It is complete if Unexplained is 0.0000000.
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
	Operation      *int               `json:"operation"` // nil: outside the operations, such as fees
	Before         string             `json:"before"`
	After          string             `json:"after"`
	Change         string             `json:"change"`
	Unexplained    string             `json:"unexplained"`
	Payments       []StatementPayment `json:"payments"`
}

// StatementPayment is a payment in a move: its events, or why each watch did not accept it.
type StatementPayment struct {
	ID       string     `json:"id"`
	From     string     `json:"from"`
	Amount   string     `json:"amount"`
	EventIDs []string   `json:"eventIds"`
	NotTaken []NotTaken `json:"notTaken"`
}

// NotTaken holds the reasons why a watch created no event for a payment.
type NotTaken struct {
	WatchID string   `json:"watchId"`
	Reasons []string `json:"reasons"`
}

// StatementFilter filters moves. Empty fields don't filter.
type StatementFilter struct {
	Asset string `json:"asset,omitempty" help:"only this balance: XLM, CODE:ISSUER, or pool:ID for shares in a liquidity pool"`
	From  Bound  `json:"from,omitzero" help:"start of the statement: a ledger, a timestamp, or how long ago"`
	To    Bound  `json:"to,omitzero" help:"end of the statement: the last ledger, a timestamp that it must close before, or how long ago"`
}

// Bound is a ledger, which is included, or a time. The zero value is no bound.
type Bound struct {
	Ledger uint32
	Time   time.Time
}

// String returns the bound in the API's format.
func (b Bound) String() string {
	if b.Ledger != 0 {
		return strconv.FormatUint(uint64(b.Ledger), 10)
	}
	return b.Time.UTC().Format(time.RFC3339Nano)
}

// GetStatement returns a page of a wallet's statement.
func (c *Client) GetStatement(
	ctx context.Context, wallet string, f StatementFilter, p Page,
) (Statement, error) {
	return read[Statement](ctx, c, id("/v1/wallets", wallet, "statement"), f, p)
}

// EventIDs are the events of a move's payments.
func (m BalanceMove) EventIDs() (all []string) {
	for _, p := range m.Payments {
		all = append(all, p.EventIDs...)
	}
	return all
}

// NotTaken lists the watches that did not accept a payment, as watch=REASON+REASON.
func (m BalanceMove) NotTaken() (all []string) {
	for _, p := range m.Payments {
		for _, n := range p.NotTaken {
			all = append(all, n.WatchID+"="+strings.Join(n.Reasons, "+"))
		}
	}
	return all
}

// WriteCSV writes the moves as CSV (RFC 4180).
func (s Statement) WriteCSV(w io.Writer) error {
	rows := [][]string{{
		"ledger", "ledgerClosedAt", "txHash", "operation", "asset", "kind", "before", "change", "after",
		"unexplained", "payments", "eventIds", "notTaken",
	}}
	for _, m := range s.Data {
		var operation string
		if m.Operation != nil {
			operation = strconv.Itoa(*m.Operation)
		}
		var payments []string
		for _, p := range m.Payments {
			payments = append(payments, p.ID)
		}
		rows = append(rows, []string{
			strconv.FormatUint(uint64(m.Ledger), 10),
			m.LedgerClosedAt.UTC().Format("2006-01-02T15:04:05.000Z"), m.TxHash, operation, m.Asset, m.Kind,
			m.Before, m.Change, m.After, m.Unexplained, strings.Join(payments, " "),
			strings.Join(m.EventIDs(), " "), strings.Join(m.NotTaken(), " "),
		})
	}
	return csv.NewWriter(w).WriteAll(rows)
}
