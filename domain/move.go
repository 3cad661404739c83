package domain

import "strconv"

// MoveKind is the cause of a balance change.
type MoveKind string

// Causes of balance changes; see docs/decisions/statements.md.
const (
	MovePaymentIn MoveKind = "payment_in" // payments to the wallet, exact to the stroop
	MoveOutgoing  MoveKind = "outgoing"   // the wallet paid
	MoveCreate    MoveKind = "create"     // the wallet created another account
	MoveMerge     MoveKind = "merge"      // the wallet's account was merged into another
	MoveFee       MoveKind = "fee"        // a fee or its refund
	MoveTrade     MoveKind = "trade"      // an offer, or a path payment that takes one
	MoveClaim     MoveKind = "claim"      // a claimable balance was created or claimed
	MovePool      MoveKind = "pool"       // a liquidity pool or its shares
	MoveClawback  MoveKind = "clawback"   // a clawback by the issuer
	MoveContract  MoveKind = "contract"   // a contract call
	MoveOther     MoveKind = "other"
)

// BalanceMove is a change of a wallet's balance, which is either its lumens or a trust line.
type BalanceMove struct {
	ID             string
	Wallet         string // G address
	Ledger         uint32
	ClosedAtMillis int64
	Place          uint64 // orders the moves within a ledger, otherwise meaningless
	TxHash         string // 64 lowercase hex characters
	Operation      int    // from 1; 0 for changes outside operations, such as fees
	Kind           MoveKind
	Asset          Asset    // zero if Pool is set
	Pool           string   // liquidity pool ID of the shares: 64 lowercase hex characters
	BeforeStroops  int64    // 0 if there was no account or trust line
	AfterStroops   int64    // 0 if the balance no longer exists
	PaymentIDs     []string // payments to the wallet in this operation and asset
}

// ChangeStroops returns the change of the balance.
func (m BalanceMove) ChangeStroops() int64 { return m.AfterStroops - m.BeforeStroops }

// BalanceName returns the name of the balance: XLM, CODE:ISSUER, or pool:ID.
func (m BalanceMove) BalanceName() string {
	if m.Pool != "" {
		return "pool:" + m.Pool
	}
	return m.Asset.String()
}

// MoveID derives the ID of the n-th move, from 0, of a balance in one step of a transaction. Steps
// are the fee, the changes before and after the operations, each operation, and the fee's refund.
func MoveID(wallet, balance, txHash, step string, operation, n int) string {
	return DeriveID(MovePrefix, "move", wallet, balance, txHash, step, strconv.Itoa(operation),
		strconv.Itoa(n))
}

// LedgerMoves are a ledger's balance moves of selected wallets, in order. Unread are the
// transactions whose changes could not be read.
type LedgerMoves struct {
	Moves  []BalanceMove
	Unread []QuarantinedTransaction
}
