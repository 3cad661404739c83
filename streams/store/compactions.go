package store

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// compactions decides when a store's compactions run: at once, as long as there are fewer than
// Pebble's options allow, and else when one of them ends. Pebble's own scheduler does the same,
// and besides looks every 100 ms whether more are allowed by now. That woke a process at rest ten
// times a second for each of its stores.
//
// What is allowed changes with every new version of the store, and Pebble tells of flushes and of
// the end of a compaction that was let begin here. Of ingests, DB.Compact and others it does not;
// this package makes none. What waits when more is allowed by one of these waits for the next flush
// or end, and not for ever: it waits because others run.
//
// It is of one store, and may be called from any goroutine.
type compactions struct {
	db pebble.DBForCompaction // set before all other calls

	granting sync.Mutex // held by the one that lets waiting ones begin, which calls db

	mu      sync.Mutex // is taken behind granting and Pebble's own locks
	running int
	ended   bool
}

// Register is called once, when the store is open.
func (c *compactions) Register(_ int, db pebble.DBForCompaction) { c.db = db }

// Unregister is called once, when the store is closed. Nothing is let begin afterwards.
func (c *compactions) Unregister() {
	c.granting.Lock()
	defer c.granting.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// TrySchedule reports whether one more may begin. One that may not is asked for when another
// ends.
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.room() {
		return false, nil
	}
	c.running++
	return true, c
}

// UpdateGetAllowedWithoutPermission is called, under Pebble's locks, when more may be allowed
// than before.
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

// Started, MeasureCPU and CumulativeStats tell of a compaction that runs. Nothing depends on it.
func (*compactions) Started()                                          {}
func (*compactions) MeasureCPU(pebble.CompactionGoroutineKind)         {}
func (*compactions) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// grant lets those begin that wait, as many as are allowed. One is counted once Pebble has taken
// it: if it were counted before, Pebble could be refused another in between, which nobody would
// ask for again.
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
