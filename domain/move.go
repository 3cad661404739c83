package domain

import "strconv"

// MoveKind is the cause of a balance change.
type MoveKind string

// Kinds of balance move. What each is made of: docs/decisions/statements.md.
const (
	MovePaymentIn MoveKind = "payment_in" // payments to the wallet, to the stroop
	MoveOutgoing  MoveKind = "outgoing"   // the wallet paid
	MoveCreate    MoveKind = "create"     // the wallet created another account
	MoveMerge     MoveKind = "merge"      // the wallet's account was merged into another
	MoveFee       MoveKind = "fee"        // a fee, or the refund of one
	MoveTrade     MoveKind = "trade"      // an offer, or a path payment that takes one
	MoveClaim     MoveKind = "claim"      // a claimable balance was made or claimed
	MovePool      MoveKind = "pool"       // a liquidity pool, and shares in one
	MoveClawback  MoveKind = "clawback"   // the issuer took it back
	MoveContract  MoveKind = "contract"   // a contract call
	MoveOther     MoveKind = "other"
)

// BalanceMove is one change of one balance of a wallet's account: of its lumens or a trust line.
type BalanceMove struct {
	ID             string
	Wallet         string // G address
	Ledger         uint32
	ClosedAtMillis int64
	Place          uint64 // orders the moves of a ledger; it says nothing else
	TxHash         string // 64 lowercase hex characters
	Operation      int    // 1 is the first; 0 is outside the operations, as fees are
	Kind           MoveKind
	Asset          Asset    // the zero asset where Pool is set
	Pool           string   // 64 lowercase hex characters: shares in this liquidity pool
	BeforeStroops  int64    // 0 where there was no account or trust line
	AfterStroops   int64    // 0 if the balance no longer exists
	PaymentIDs     []string // of payments to the wallet in this operation and asset
}

// ChangeStroops returns the difference of the balance.
func (m BalanceMove) ChangeStroops() int64 { return m.AfterStroops - m.BeforeStroops }

// BalanceName names the balance that moved: XLM, CODE:ISSUER, or pool:ID.
func (m BalanceMove) BalanceName() string {
	if m.Pool != "" {
		return "pool:" + m.Pool
	}
	return m.Asset.String()
}

// MoveID derives the identifier of the n-th move, from 0, of one balance in one step of a
// transaction. The steps are the fee, the changes before and after the operations, each operation,
// and the refund of the fee.
func MoveID(wallet, balance, txHash, step string, operation, n int) string {
	return DeriveID(MovePrefix, "move", wallet, balance, txHash, step, strconv.Itoa(operation),
		strconv.Itoa(n))
}

// LedgerMoves are the balance moves of chosen wallets in a ledger, in order. Unread are
// transactions with unreadable changes.
type LedgerMoves struct {
	Moves  []BalanceMove
	Unread []QuarantinedTransaction
}
