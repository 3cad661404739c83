package domain

// coverageMax limits a Coverage. A deployment normally has one range, because the follower resumes
// where it stopped. Each change between a verified and an unverified source adds another.
const coverageMax = 100

// LedgersRead is a range of ledgers that were read in sequence.
type LedgersRead struct {
	Range
	Verified bool // hashes were checked, including the link to the previous ledger
}

// Coverage lists the ledgers that were read, oldest first. Its methods return copies.
type Coverage []LedgersRead

// Read returns the coverage with a ledger added, limited to the newest 100 ranges.
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

// Gaps returns the unread ledgers between the first and the last one. After a network reset, the
// ledgers before the new chain's first one are not a gap.
func (c Coverage) Gaps() (gaps Ranges) {
	for i := 1; i < len(c); i++ {
		if from, to := c[i-1].To+1, c[i].From-1; from <= to && ChainBase(from) == ChainBase(to) {
			gaps = append(gaps, Range{From: from, To: to})
		}
	}
	return gaps
}

// Since returns the first ledger after the last gap, or 0 if nothing was read.
func (c Coverage) Since() uint32 {
	for i := len(c) - 1; i >= 0; i-- {
		if i == 0 || c[i-1].To+1 != c[i].From {
			return c[i].From
		}
	}
	return 0
}

// Range is a range of ledger sequence numbers, including both ends.
type Range struct {
	From uint32
	To   uint32
}

// Ranges is a sorted list of disjoint, non-adjacent ranges. Its methods return copies.
type Ranges []Range

// Add returns the ranges with x added.
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

// Missing returns the parts of x that the ranges don't cover.
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

// LedgersPerChain is the number of ledger sequence numbers reserved for each chain of a network.
// When a test network is reset, its new chain starts again at 1. To keep sequence numbers unique,
// we add LedgersPerChain to those of the second chain, twice that to those of the third, and so on.
// IDs derived from a sequence number, such as payment and event IDs, therefore differ between
// chains.
//
// The public network is never reset and won't reach this number until about 2048.
const LedgersPerChain = 200_000_000

// ChainsMax is the maximum number of chains that can be followed one after the other.
const ChainsMax = 1<<32/LedgersPerChain - 1

// ChainBase returns the offset of the chain that contains the ledger: 0 for the first chain.
func ChainBase(ledger uint32) uint32 { return ledger - ledger%LedgersPerChain }

// OnChain returns the sequence number of a ledger on its own chain.
func OnChain(ledger uint32) uint32 { return ledger % LedgersPerChain }
