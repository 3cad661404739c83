package domain

import (
	"errors"
	"fmt"
	"time"
)

// Ledger is a closed ledger of the network, as a source returns it.
type Ledger struct {
	Sequence       uint32
	Hash           string // 64 lowercase hex characters
	ClosedAtMillis int64
	Transactions   int       // failed ones too
	Verified       bool      // it was checked against its hashes: its source returns the whole ledger
	Payments       []Payment // in ledger order
	Quarantined    []QuarantinedTransaction
	// Moves reads the balance moves of watched wallets, and calls watched once for each wallet. It
	// returns only errors of watched. nil: the source reports no moves.
	Moves func(watched func(wallet string) (bool, error)) (LedgerMoves, error)
}

// Transaction is a transaction of the network, with what it paid if it succeeded.
type Transaction struct {
	Ledger         uint32
	ClosedAtMillis int64
	Failed         bool
	Payments       []Payment // without those to oneself
}

// ErrNoTransaction means that no server of the network knows a transaction.
var ErrNoTransaction = errors.New("no server of the network knows this transaction")

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

// SourceBehind is the reason for leaving out a source that no longer has a ledger.
const SourceBehind = "behind"

// SourceState is a reader's assessment of one of its sources of ledgers.
type SourceState string

// States.
const (
	SourceAlone   SourceState = "alone"  // the only source: nothing to compare it with
	SourceAgrees  SourceState = "agrees" // it returns the ledgers that count
	SourceLags    SourceState = "lags"   // it agrees, but others have more ledgers
	SourceLeftOut SourceState = "left"   // it is left out for a while, for a Reason
	SourceNone    SourceState = "none"   // it has returned no ledger yet
)

// SourceStanding is the state of one source.
type SourceStanding struct {
	Name   string      `json:"name"` // without the secrets in its address
	State  SourceState `json:"state"`
	Ledger uint32      `json:"ledger,omitempty"` // its newest ledger that counts; 0: none yet
	Behind uint32      `json:"behind"`           // newer ledgers of others; 0 while Ledger is 0
	Left   *SourceLeft `json:"left,omitempty"`   // with StateLeft
}

// SourceLeft says why a source is left out, and since when.
type SourceLeft struct {
	Reason  string    `json:"reason"` // one of quorum.Reasons
	Detail  string    `json:"detail,omitempty"`
	Ledger  uint32    `json:"ledger"` // the requested one
	Since   time.Time `json:"since"`
	AgainAt time.Time `json:"againAt,omitzero"` // zero: a request is in progress
}

// SourceStandings are the states of all sources of a reader.
type SourceStandings struct {
	Need    int              `json:"need"`             // how many must name the same hash
	Ledger  uint32           `json:"ledger,omitempty"` // the newest that counts; 0: none was read yet
	Sources []SourceStanding `json:"sources"`
}

// Fault returns an error that names the sources that are left out, or nil. If one source is enough,
// a source that no longer has an old ledger is not a fault.
func (s SourceStandings) Fault() error {
	var first *SourceStanding
	left := 0
	for i, one := range s.Sources {
		if one.State != SourceLeftOut || s.Need == 1 && one.Left.Reason == SourceBehind {
			continue
		}
		if left++; first == nil {
			first = &s.Sources[i]
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("%d of %d sources of ledgers are left out: %s since ledger %d (%s)", left,
		len(s.Sources), first.Name, first.Left.Ledger, first.Left.Reason)
}
