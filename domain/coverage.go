package domain

// coverageMax bounds a Coverage. Following goes on where it ended, so that a deployment has one
// range, and another for each change between a source whose ledgers are verified and one that
// gives nothing to verify.
const coverageMax = 100

// LedgersRead are ledgers that were read one after the other, each once the one before it was
// done with.
type LedgersRead struct {
	Range
	Verified bool // each was held against its hashes, and names the hash of the one before it
}

// Coverage says which ledgers were read, oldest first. A ledger between two ranges was not.
// Its methods modify and share nothing.
type Coverage []LedgersRead

// Read returns the coverage with the next ledger. One that was read before adds nothing. Of more
// than 100 ranges the oldest are forgotten: what is there is true all the same.
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

// Gaps returns the ledgers between the first and the last one that were not read. Before the
// first one that was read of another chain of the network there is none.
func (c Coverage) Gaps() (gaps Ranges) {
	for i := 1; i < len(c); i++ {
		if from, to := c[i-1].To+1, c[i].From-1; from <= to && ChainBase(from) == ChainBase(to) {
			gaps = append(gaps, Range{From: from, To: to})
		}
	}
	return gaps
}

// Since returns the first ledger of the last ranges that have no gap between them; 0: none.
func (c Coverage) Since() uint32 {
	for i := len(c) - 1; i >= 0; i-- {
		if i == 0 || c[i-1].To+1 != c[i].From {
			return c[i].From
		}
	}
	return 0
}
