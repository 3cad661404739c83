package domain

import (
	"errors"
	"fmt"
	"math"
)

// Counts are the objects of an account, or their maximum.
type Counts struct {
	Endpoints   uint64
	Watches     uint64
	Senders     uint64 // of all its watches
	Keys        uint64 // API keys that have not expired
	Reads       uint64 // reads and bulk operations at once, at a node
	Backfills   uint64 // in progress
	StoredBytes uint64 // of the rows of its endpoints and watches
}

// DefaultQuotas are the quotas of an account unless its operator sets others.
func DefaultQuotas() Counts {
	return Counts{
		Endpoints:   10_000,
		Watches:     1_000_000,
		Senders:     1_000_000,
		Keys:        MaxKeys,
		Reads:       8,
		Backfills:   1000,
		StoredBytes: 1 << 30,
	}
}

// Quota is one of an account's quotas.
type Quota struct {
	Name string // as the API and --quota name it
	Of   func(*Counts) *uint64
	Most uint64 // that an operator may set
}

var quotaOfKeys = Quota{"keys", func(c *Counts) *uint64 { return &c.Keys }, MaxKeys}

// Bounds of quotas.
const (
	mostObjects = math.MaxInt32
	mostReads   = 64
	mostBytes   = 1 << 50
)

// QuotaList has all of them, in display order.
func QuotaList() []Quota {
	return []Quota{
		{"endpoints", func(c *Counts) *uint64 { return &c.Endpoints }, mostObjects},
		{"watches", func(c *Counts) *uint64 { return &c.Watches }, mostObjects},
		{"senders", func(c *Counts) *uint64 { return &c.Senders }, mostObjects},
		quotaOfKeys,
		{"reads", func(c *Counts) *uint64 { return &c.Reads }, mostReads},
		{"backfills", func(c *Counts) *uint64 { return &c.Backfills }, mostObjects},
		{"storedBytes", func(c *Counts) *uint64 { return &c.StoredBytes }, mostBytes},
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
	c.Watches, c.Senders = 1, uint64(len(w.Rules.SenderAllowlist))
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

// CountsOf returns what an account's own row counts for.
func (a Account) CountsOf(nowMillis int64) Counts {
	return Counts{Keys: uint64(len(unexpired(a.Keys, nowMillis)))}
}

func (c Counts) wellFormed() (err error) {
	for _, q := range QuotaList() {
		if most := q.Most; *q.Of(&c) > most {
			err = errors.Join(err, fmt.Errorf("quota of %s: %d is more than %d", q.Name, *q.Of(&c), most))
		}
	}
	return err
}

// makesRoom says how an account gets below a quota. A watch that takes nothing more counts too: it
// still takes space.
var makesRoom = map[string]string{
	"endpoints":   "Delete some",
	"watches":     "Delete some: fulfilled and expired ones count until you delete them",
	"senders":     "Delete some, or watches: fulfilled and expired ones count until you delete them",
	"keys":        "Revoke some",
	"backfills":   "Let one end, or delete its watch",
	"storedBytes": "Delete endpoints or watches",
}

// Exceeded says that an account has as much as it may, how it makes room, and how its operator
// raises the quota.
func (q Quota) Exceeded(accountID string, has, most uint64) string {
	said := fmt.Sprintf("Your account has %d %s and may have %d. %s", has, q.Name, most,
		makesRoom[q.Name])
	if most >= q.Most {
		return said + "."
	}
	return said + fmt.Sprintf(", or ask the operator to raise the quota: "+
		"`lumenhook accounts update --account %s --quota %s=%d`.", accountID, q.Name,
		min(2*most, q.Most))
}
