package readmodel

import "github.com/lumenhook/lumenhook/domain"

// StatementFilter selects balance moves of a wallet. All but Balance and the times must be set.
type StatementFilter struct {
	AccountID string // whose events are named
	Wallet    string
	Balance   string // domain.BalanceMove.BalanceName; empty: all

	// RecordSince is the first ledger that is read. A move from it on but before the statement
	// determines the opening balance.
	RecordSince uint32
	FirstLedger uint32 // of the statement
	LastLedger  uint32 // of the statement, included
	FromMillis  int64  // closed at or after; 0: no bound
	ToMillis    int64  // closed before; 0: no bound
	// OpenMillis is when LastLedger closed, if the statement ends there only because no later
	// ledger counts yet; 0: it has its own end.
	OpenMillis int64
	OpenUntil  uint32 // the last ledger to read after LastLedger, if OpenMillis; 0: any
}

// StatementPosition is the last move that was returned. Zero is the beginning.
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
	KeptSinceMillis int64             // moves of ledgers that closed earlier are deleted; 0: none are
	// Uncounted is the newest ledger after an open statement that has recorded moves; 0: no such
	// ledger.
	Uncounted uint32
}

// Balance is one balance over a statement.
type Balance struct {
	Balance            string
	Moves              uint64
	OpeningStroops     int64
	ClosingStroops     int64
	UnexplainedStroops int64 // sum of the absolute values of all gaps, capped at the largest int64
}

// Move is a balance move with its payments.
type Move struct {
	domain.BalanceMove        // Asset and Pool are empty: Balance names it
	Balance            string // names the asset or the pool
	UnexplainedStroops int64  // distance from the end of the balance's last move to this one's start
	Payments           []Paid
}

// Paid is a payment to the wallet, with the account's events for it.
type Paid struct {
	Payment domain.Payment
	Events  []PaidEvent
}

// PaidEvent is an event that reports a payment. The payments of a transaction also have its type,
// and why a watch rejected it.
type PaidEvent struct {
	ID, WatchID string
	Type        domain.EventType
	Reasons     []string
}
