package readmodel

import "github.com/lumenhook/lumenhook/domain"

// StatementFilter selects balance moves of a wallet. All but Balance and the times must be set.
type StatementFilter struct {
	AccountID string // whose events are named
	Wallet    string
	Balance   string // domain.BalanceMove.BalanceName; empty: all

	// RecordSince is the first ledger that is read; from it on, a move before the statement shows
	// the opening balance.
	RecordSince uint32
	FirstLedger uint32 // of the statement
	LastLedger  uint32 // of the statement, included
	FromMillis  int64  // closed at or after; 0: no bound
	ToMillis    int64  // closed before; 0: no bound
	// OpenMillis is when LastLedger closed, if the statement ends there only because no later
	// ledger counts yet; 0: it has an end of its own.
	OpenMillis int64
	OpenUntil  uint32 // the last ledger to look at beyond LastLedger, if OpenMillis; 0: any
}

// StatementPosition is the move that was returned last. Zero is the beginning.
type StatementPosition struct {
	Ledger uint32
	Place  uint64
	MoveID string
}

// Statement is a page of moves; its balances are those of all pages.
type Statement struct {
	Balances        []Balance         // by name
	Moves           []Move            // oldest first
	Next            StatementPosition // zero at the end
	KeptSinceMillis int64             // moves of ledgers that closed earlier are not kept; 0: all are
	// Uncounted is the newest ledger beyond an open statement that has recorded moves; 0: none.
	Uncounted uint32
}

// Balance is one balance over a statement.
type Balance struct {
	Balance            string
	Moves              uint64
	OpeningStroops     int64
	ClosingStroops     int64
	UnexplainedStroops int64 // of all gaps, each without its sign; at most what an int64 holds
}

// Move is a balance move with its payments.
type Move struct {
	domain.BalanceMove        // Asset and Pool are empty: Balance names it
	Balance            string // names the asset or the pool
	UnexplainedStroops int64  // distance from the end of the balance's last move to this one's start
	Payments           []Paid
}

// Paid is a payment to the wallet, with the account's events of it.
type Paid struct {
	Payment domain.Payment
	Events  []PaidEvent
}

// PaidEvent is an event that reports a payment.
type PaidEvent struct{ ID, WatchID string }
