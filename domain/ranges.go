package domain

// Range is a closed range of ledger sequences: both ends belong to it.
type Range struct {
	From uint32
	To   uint32
}

// Ranges are sorted, disjoint and not adjacent: between two of them is a ledger that is in
// none. Nil is empty. Its methods modify and share nothing.
type Ranges []Range

// Add returns the ranges with another one added. An empty one adds nothing.
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

// Missing returns the parts of a range that are in none of these.
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
