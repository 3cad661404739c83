package readmodel

import "github.com/lumenhook/lumenhook/domain"

// StatementFilter selects balance moves of a wallet. All fields except Balance and the times are
// required.
type StatementFilter struct {
	AccountID string // the account whose events are listed
	Wallet    string
	Balance   string // domain.BalanceMove.BalanceName; empty for all

	// RecordSince is the first ledger that is read. Moves between it and the statement determine the
	// opening balance.
	RecordSince uint32
	FirstLedger uint32 // of the statement
	LastLedger  uint32 // of the statement, inclusive
	FromMillis  int64  // closed at or after; 0 means no limit
	ToMillis    int64  // closed before; 0 means no limit
	// OpenMillis is when LastLedger closed, if the statement only ends there because no later ledger
	// counts yet. It is 0 if the statement has an end of its own.
	OpenMillis int64
	OpenUntil  uint32 // last ledger to read after LastLedger if OpenMillis is set; 0 means any
}

// StatementPosition is the last move that was returned. The zero value is the beginning.
type StatementPosition struct {
	Ledger uint32
	Place  uint64
	MoveID string
}

// Statement is a page of moves. Its balances cover all pages.
type Statement struct {
	Balances        []Balance         // by name
	Moves           []Move            // oldest first
	Next            StatementPosition // zero at the end
	KeptSinceMillis int64             // older moves have been deleted; 0 if none have
	// Uncounted is the newest ledger after an open statement that has recorded moves, or 0.
	Uncounted uint32
}

// Balance is a balance over the period of a statement.
type Balance struct {
	Balance            string
	Moves              uint64
	OpeningStroops     int64
	ClosingStroops     int64
	UnexplainedStroops int64 // sum of the absolute values of all gaps, capped at math.MaxInt64
}

// Move is a balance move with its payments.
type Move struct {
	domain.BalanceMove        // without Asset and Pool: see Balance
	Balance            string // names the asset or the pool
	UnexplainedStroops int64  // gap between the balance's last move and this one
	Payments           []Paid
}

// Paid is a payment to the wallet with the account's events for it.
type Paid struct {
	Payment domain.Payment
	Events  []PaidEvent
}

// PaidEvent is an event that reports a payment. Type and Reasons, why a watch rejected the payment,
// are only set for payments of a transaction.
type PaidEvent struct {
	ID, WatchID string
	Type        domain.EventType
	Reasons     []string
}
