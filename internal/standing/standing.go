package standing

import (
	"fmt"
	"time"
)

// ReasonBehind is why a source is left that no longer keeps a ledger.
const ReasonBehind = "behind"

// State is what whoever reads ledgers makes of one of their sources.
type State string

// States.
const (
	StateAlone  State = "alone"  // there is no other: nothing that it says is compared
	StateAgrees State = "agrees" // it gives the ledgers that count
	StateLags   State = "lags"   // it agrees as far as it goes, and others are further
	StateLeft   State = "left"   // it is left out for a while, for a Reason
	StateNone   State = "none"   // it has given no ledger yet
)

// Source is how one of the sources stands.
type Source struct {
	Name   string `json:"name"` // says nothing of what is secret in its address
	State  State  `json:"state"`
	Ledger uint32 `json:"ledger,omitempty"` // the newest that it gave and that counts; 0: none yet
	Behind uint32 `json:"behind"`           // ledgers that others gave since; 0 while Ledger is 0
	Left   *Left  `json:"left,omitempty"`   // with StateLeft
}

// Left says why a source is left out, and since when.
type Left struct {
	Reason  string    `json:"reason"` // one of quorum.Reasons
	Detail  string    `json:"detail,omitempty"`
	Ledger  uint32    `json:"ledger"` // that it was asked for
	Since   time.Time `json:"since"`
	AgainAt time.Time `json:"againAt,omitzero"` // zero: it is being waited for
}

// Standings are how all sources of a reader stand.
type Standings struct {
	Need    int      `json:"need"`             // how many must name the same hash
	Ledger  uint32   `json:"ledger,omitempty"` // the newest that counts; 0: none was read yet
	Sources []Source `json:"sources"`
}

// Fault names the sources that are left out; nil: none is. Where one that answers is enough, it is
// no fault of the first that it no longer keeps what another gives.
func (s Standings) Fault() error {
	var first *Source
	left := 0
	for i, one := range s.Sources {
		if one.State != StateLeft || s.Need == 1 && one.Left.Reason == ReasonBehind {
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

// Process is what a process answers operators.
type Process struct {
	Follower  bool `json:"follower"`  // the process has this role
	Following bool `json:"following"` // and is the one that reads ledgers; else it stands by
	Standings
}
