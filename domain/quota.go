package domain

import (
	"errors"
	"fmt"
	"math"
)

// Counts are the numbers of objects of an account, or their limits.
type Counts struct {
	Endpoints   uint64
	Watches     uint64
	Senders     uint64 // in all of its watches
	Keys        uint64 // unexpired API keys
	Reads       uint64 // concurrent reads and bulk operations per node
	Backfills   uint64 // in progress
	StoredBytes uint64 // size of the rows of its endpoints and watches
}

// DefaultQuotas returns the quotas of accounts for which the operator has set none.
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

// Quota describes one quota.
type Quota struct {
	Name string // name in the API and in --quota
	Of   func(*Counts) *uint64
	Most uint64 // highest value that an operator can set
}

var quotaOfKeys = Quota{"keys", func(c *Counts) *uint64 { return &c.Keys }, MaxKeys}

const (
	mostObjects = math.MaxInt32
	mostReads   = 64
	mostBytes   = 1 << 50
)

// QuotaList returns all quotas in display order.
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

// Or returns the counts with zeros replaced by the values of others.
func (c Counts) Or(others Counts) Counts {
	for _, q := range QuotaList() {
		if of := q.Of(&c); *of == 0 {
			*of = *q.Of(&others)
		}
	}
	return c
}

// Plus returns the counts after a change.
func (c Counts) Plus(added, taken Counts) Counts {
	for _, q := range QuotaList() {
		*q.Of(&c) += *q.Of(&added) - *q.Of(&taken)
	}
	return c
}

// CountsOf returns what a watch counts toward the quotas.
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

// CountsOf returns what an endpoint counts toward the quotas.
func (e Endpoint) CountsOf() (c Counts) {
	if e.Exists() && !e.Deleted() {
		c.Endpoints = 1
	}
	return c
}

// CountsOf returns what an account's own row counts toward the quotas.
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

// makesRoom tells how an account can get below a quota. Fulfilled watches count: they take space.
var makesRoom = map[string]string{
	"endpoints":   "Delete some",
	"watches":     "Delete some: fulfilled and expired ones count until you delete them",
	"senders":     "Delete some, or watches: fulfilled and expired ones count until you delete them",
	"keys":        "Revoke some",
	"backfills":   "Let one end, or delete its watch",
	"storedBytes": "Delete endpoints or watches",
}

// Exceeded returns a message that the account has reached the quota, and what to do.
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
