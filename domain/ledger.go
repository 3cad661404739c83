package domain

import (
	"errors"
	"fmt"
	"time"
)

// Ledger is a closed ledger, as returned by a source.
type Ledger struct {
	Sequence       uint32
	Hash           string // 64 lowercase hex characters
	ClosedAtMillis int64
	Transactions   int       // including failed ones
	Verified       bool      // checked against its hashes, so the source returned the complete ledger
	Payments       []Payment // in ledger order
	Quarantined    []QuarantinedTransaction
	// Moves reads the balance moves of watched wallets. It calls watched once per wallet and returns
	// only errors of watched. It is nil if the source doesn't report moves.
	Moves func(watched func(wallet string) (bool, error)) (LedgerMoves, error)
}

// Transaction is a transaction and, if it succeeded, its payments.
type Transaction struct {
	Ledger         uint32
	ClosedAtMillis int64
	Failed         bool
	Payments       []Payment // without payments to the sender itself
}

// ErrNoTransaction is returned if no server of the network knows the transaction.
var ErrNoTransaction = errors.New("no server of the network knows this transaction")

// QuarantinedTransaction is a successful transaction that could not be decoded. The ledger's
// Payments don't include the payments that it may contain.
type QuarantinedTransaction struct {
	TxHash string
	Order  int // position in which it was applied, from 1
	Reason string
}

// LedgerError is the reason why a ledger is unavailable. Waiting does not help.
type LedgerError string

// Reasons why a ledger is unavailable.
const (
	ErrForked          LedgerError = "the network was reset or forked"
	ErrBehindRetention LedgerError = "the source no longer keeps this ledger"
	ErrWrongNetwork    LedgerError = "the source serves another network"
	ErrUnreadable      LedgerError = "the ledger cannot be read by this program"
)

func (e LedgerError) Error() string { return string(e) }

// SourceBehind is the reason for excluding a source that no longer keeps a ledger.
const SourceBehind = "behind"

// SourceState is a reader's assessment of one of its ledger sources.
type SourceState string

// States of a ledger source.
const (
	SourceAlone   SourceState = "alone"  // the only source, so it can't be compared
	SourceAgrees  SourceState = "agrees" // returns the accepted ledgers
	SourceLags    SourceState = "lags"   // agrees, but others have more ledgers
	SourceLeftOut SourceState = "left"   // excluded for a while; see Reason
	SourceNone    SourceState = "none"   // has not returned a ledger yet
)

// SourceStatus is the state of one source.
type SourceStatus struct {
	Name   string      `json:"name"` // without secrets in its address
	State  SourceState `json:"state"`
	Ledger uint32      `json:"ledger,omitempty"` // newest accepted ledger; 0 if none yet
	Behind uint32      `json:"behind"`           // newer ledgers of others; 0 while Ledger is 0
	Left   *SourceLeft `json:"left,omitempty"`   // set if State is SourceLeftOut
}

// SourceLeft describes why and since when a source is excluded.
type SourceLeft struct {
	Reason  string    `json:"reason"` // one of quorum.Reasons
	Detail  string    `json:"detail,omitempty"`
	Ledger  uint32    `json:"ledger"` // the requested ledger
	Since   time.Time `json:"since"`
	AgainAt time.Time `json:"againAt,omitzero"` // zero while a request is in progress
}

// SourceStatuses are the states of all of a reader's sources.
type SourceStatuses struct {
	Need    int            `json:"need"`             // how many sources must report the same hash
	Ledger  uint32         `json:"ledger,omitempty"` // newest accepted ledger; 0 if none yet
	Sources []SourceStatus `json:"sources"`
}

// Fault returns an error that reports the excluded sources, and whether the others are enough, or
// nil. If one source is enough, a source that no longer keeps an old ledger is not reported.
func (s SourceStatuses) Fault() error {
	var first *SourceStatus
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
	waiting := ""
	if len(s.Sources)-left < s.Need {
		waiting = fmt.Sprintf("; %d must agree, so no ledger is read until then", s.Need)
	}
	return fmt.Errorf("%d of %d sources of ledgers are left out: %s since ledger %d (%s)%s", left,
		len(s.Sources), first.Name, first.Left.Ledger, first.Left.Reason, waiting)
}
