package domain

// Ledger is a closed ledger of the network, as a source returns it.
type Ledger struct {
	Sequence       uint32
	Hash           string // 64 lowercase hex characters
	ClosedAtMillis int64
	Transactions   int       // failed ones too
	Verified       bool      // it was held against its hashes: its source gives the whole of it
	Payments       []Payment // in ledger order
	Quarantined    []QuarantinedTransaction
	// Moves reads the balance moves of the wallets that it is told are watched, and asks of each
	// once. It fails only as watched does. nil: the source gives none, or was not asked to.
	Moves func(watched func(wallet string) (bool, error)) (LedgerMoves, error)
}

// QuarantinedTransaction is a successful transaction that could not be decoded: it may
// contain payments, which are missing in the ledger's.
type QuarantinedTransaction struct {
	TxHash string
	Order  int // 1 is the first transaction that was applied
	Reason string
}

// LedgerError is why a ledger is unavailable, however long one waits.
type LedgerError string

// The reasons why a ledger is unavailable.
const (
	ErrForked          LedgerError = "the network was reset or forked"
	ErrBehindRetention LedgerError = "the source no longer keeps this ledger"
	ErrWrongNetwork    LedgerError = "the source serves another network"
	ErrUnreadable      LedgerError = "the ledger cannot be read by this program"
)

func (e LedgerError) Error() string { return string(e) }
