package follower

import (
	"fmt"
	"math"
	"strconv"
)

// Start is where to begin when there is no cursor. Its zero value is "latest": payments
// count from the ledger after the newest one.
type Start struct {
	Sequence uint32 // the first ledger to read; 0 is latest
}

const startLatest = "latest"

// ParseStart parses latest, or a ledger's sequence.
func ParseStart(s string) (Start, error) {
	if s == startLatest {
		return Start{}, nil
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == 0 || n > math.MaxInt32 {
		return Start{}, fmt.Errorf("the start %q is neither %q nor the sequence of a ledger (1 to %d)", s,
			startLatest, math.MaxInt32)
	}
	return Start{Sequence: uint32(n)}, nil
}

// String returns the form that ParseStart reads.
func (s Start) String() string {
	if s.Sequence == 0 {
		return startLatest
	}
	return strconv.FormatUint(uint64(s.Sequence), 10)
}
