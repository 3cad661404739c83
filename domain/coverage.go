package domain

// coverageMax bounds a Coverage. Following continues where it ended, so a deployment has one range,
// and another for each change between a source whose ledgers are verified and one whose ledgers
// cannot be.
const coverageMax = 100

// LedgersRead is a range of ledgers that were read in order.
type LedgersRead struct {
	Range
	Verified bool // each was checked against its hashes, and contains the hash of the previous one
}

// Coverage lists the ledgers that were read, oldest first. Its methods modify and share nothing.
type Coverage []LedgersRead

// Read returns the coverage with the next ledger. A ledger that was read before adds nothing. It
// keeps the newest 100 ranges.
func (c Coverage) Read(sequence uint32, verified bool) Coverage {
	if len(c) > 0 && sequence <= c[len(c)-1].To {
		return c
	}
	next := append(make(Coverage, 0, len(c)+1), c...)
	if last := len(next) - 1; last >= 0 && next[last].To+1 == sequence &&
		next[last].Verified == verified {
		next[last].To = sequence
		return next
	}
	next = append(next, LedgersRead{Range: Range{From: sequence, To: sequence}, Verified: verified})
	return next[max(0, len(next)-coverageMax):]
}

// Gaps returns the ledgers between the first and the last one that were not read. There are no gaps
// before the first ledger that was read of another chain of the network.
func (c Coverage) Gaps() (gaps Ranges) {
	for i := 1; i < len(c); i++ {
		if from, to := c[i-1].To+1, c[i].From-1; from <= to && ChainBase(from) == ChainBase(to) {
			gaps = append(gaps, Range{From: from, To: to})
		}
	}
	return gaps
}

// Since returns the first ledger since the last gap; 0: nothing was read.
func (c Coverage) Since() uint32 {
	for i := len(c) - 1; i >= 0; i-- {
		if i == 0 || c[i-1].To+1 != c[i].From {
			return c[i].From
		}
	}
	return 0
}

// Range is a closed range of ledger sequences: both ends belong to it.
type Range struct {
	From uint32
	To   uint32
}

// Ranges are sorted, disjoint and not adjacent. Nil is empty. Its methods modify and share nothing.
type Ranges []Range

// Add returns the ranges with another one added.
func (r Ranges) Add(x Range) Ranges {
	if x.From > x.To {
		return r
	}
	sum := make(Ranges, 0, len(r)+1)
	i := 0
	for ; i < len(r) && r[i].To < x.From && r[i].To+1 < x.From; i++ {
		sum = append(sum, r[i])
	}
	for ; i < len(r) && (r[i].From <= x.To || r[i].From-1 == x.To); i++ {
		x.From, x.To = min(x.From, r[i].From), max(x.To, r[i].To)
	}
	return append(append(sum, x), r[i:]...)
}

// Missing returns the parts of a range that these ranges do not cover.
func (r Ranges) Missing(x Range) (gaps Ranges) {
	for _, c := range r {
		if c.To < x.From {
			continue
		}
		if c.From > x.To {
			break
		}
		if c.From > x.From {
			gaps = append(gaps, Range{x.From, c.From - 1})
		}
		if c.To >= x.To {
			return gaps
		}
		x.From = c.To + 1
	}
	if x.From <= x.To {
		gaps = append(gaps, x)
	}
	return gaps
}

// LedgersPerChain is how many ledger numbers each chain of a network has. When a test network is
// reset, the new chain counts its ledgers from 1 again. To keep numbers unique, we add this to
// those of the second chain that is followed, twice this to those of the third, and so on. Ids that
// are derived from a number, such as those of payments and events, therefore differ between chains.
//
// The public network, which is never reset, has fewer ledgers than this until about 2048.
const LedgersPerChain = 200_000_000

// ChainsMax is how many chains can be followed, one after the other.
const ChainsMax = 1<<32/LedgersPerChain - 1

// ChainBase returns the offset of the numbers in the chain of a ledger; 0 for the first chain.
func ChainBase(ledger uint32) uint32 { return ledger - ledger%LedgersPerChain }

// OnChain returns the number of a ledger on its own chain.
func OnChain(ledger uint32) uint32 { return ledger % LedgersPerChain }
