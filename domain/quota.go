package domain

// Counts are the objects of an account, or their maximum.
type Counts struct {
	Endpoints uint32
	Watches   uint32
	Senders   uint32 // of all its watches
	Backfills uint32 // in progress
}

// DefaultQuotas are the quotas of an account unless its operator sets others.
func DefaultQuotas() Counts {
	return Counts{Endpoints: 10_000, Watches: 1_000_000, Senders: 1_000_000, Backfills: 1000}
}

// Quota is one of an account's quotas.
type Quota struct {
	Name string // as --quota takes it
	Of   func(*Counts) *uint32
}

// QuotaList has all of them, in display order.
func QuotaList() []Quota {
	return []Quota{
		{"endpoints", func(c *Counts) *uint32 { return &c.Endpoints }},
		{"watches", func(c *Counts) *uint32 { return &c.Watches }},
		{"senders", func(c *Counts) *uint32 { return &c.Senders }},
		{"backfills", func(c *Counts) *uint32 { return &c.Backfills }},
	}
}

// Or returns the counts with others in place of those that are 0.
func (c Counts) Or(others Counts) Counts {
	for _, q := range QuotaList() {
		if of := q.Of(&c); *of == 0 {
			*of = *q.Of(&others)
		}
	}
	return c
}

// Plus returns the counts plus added and minus taken.
func (c Counts) Plus(added, taken Counts) Counts {
	for _, q := range QuotaList() {
		*q.Of(&c) += *q.Of(&added) - *q.Of(&taken)
	}
	return c
}

// CountsOf returns the counts of one watch.
func (w Watch) CountsOf() (c Counts) {
	if !w.Exists() || w.Deleted() {
		return c
	}
	c.Watches, c.Senders = 1, uint32(len(w.Rules.SenderAllowlist)) // #nosec G115 -- bounded
	if w.AwaitsFollower() {
		c.Backfills = 1
	}
	return c
}

// CountsOf returns the counts of one endpoint.
func (e Endpoint) CountsOf() (c Counts) {
	if e.Exists() && !e.Deleted() {
		c.Endpoints = 1
	}
	return c
}
