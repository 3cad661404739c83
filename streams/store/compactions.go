package store

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// compactions decides when a store's compactions run: at once while fewer run than Pebble's options
// allow, otherwise when one of them ends. Pebble's own scheduler does the same, but also polls
// every 100 ms whether more are allowed. Polling woke an idle process ten times a second per store.
//
// The number allowed changes with every new version of the store. Pebble reports flushes here, and
// the end of compactions that were started here. It does not report ingests, DB.Compact and others,
// but this package uses none of them. A compaction that one of those would allow waits for the next
// flush or end, but not forever: it only waits because others run.
//
// It belongs to one store, and is safe for use by any goroutine.
type compactions struct {
	db pebble.DBForCompaction // set before all other calls

	granting sync.Mutex // held while waiting compactions are started, which calls db

	mu      sync.Mutex // is taken after granting and Pebble's own locks
	running int
	ended   bool
}

// Register is called once, when the store is open.
func (c *compactions) Register(_ int, db pebble.DBForCompaction) { c.db = db }

// Unregister is called once, when the store is closed. No compaction starts after it.
func (c *compactions) Unregister() {
	c.granting.Lock()
	defer c.granting.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// TrySchedule reports whether another compaction may start. One that may not is retried when
// another ends.
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.room() {
		return false, nil
	}
	c.running++
	return true, c
}

// UpdateGetAllowedWithoutPermission is called, under Pebble's locks, when more compactions may be
// allowed than before.
func (c *compactions) UpdateGetAllowedWithoutPermission() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.room() {
		go c.grant()
	}
}

// Done is called without locks when a compaction has ended.
func (c *compactions) Done() {
	c.add(-1)
	c.grant()
}

// Started, MeasureCPU and CumulativeStats report on a running compaction. Nothing depends on them.
func (*compactions) Started()                                          {}
func (*compactions) MeasureCPU(pebble.CompactionGoroutineKind)         {}
func (*compactions) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// grant starts waiting compactions, as many as are allowed. It counts one only after Pebble has
// taken it: if it were counted before, Pebble could be refused another one in between, and nothing
// would retry that.
func (c *compactions) grant() {
	c.granting.Lock()
	defer c.granting.Unlock()
	for c.mayGrant() {
		if waiting, _ := c.db.GetWaitingCompaction(); !waiting || !c.db.Schedule(c) {
			return
		}
		c.add(1)
	}
}

func (c *compactions) mayGrant() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.room()
}

func (c *compactions) room() bool {
	return !c.ended && c.running < c.db.GetAllowedWithoutPermission()
}

func (c *compactions) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running += n
}
