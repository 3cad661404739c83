package store

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// defaultFlushEvery is short enough that what came since is folded in some seconds, and long
// enough that the small tables that it makes are merged rarely.
const defaultFlushEvery = time.Minute

// flusher brings what was written to a store without a log to disk, within a time: a write
// buffer that does not fill would keep it in memory for ever.
type flusher struct {
	db    *pebble.DB
	every time.Duration
	armed atomic.Bool // a flush will come

	mu     sync.Mutex // held while db is used, so that it is not closed meanwhile
	timer  *time.Timer
	closed bool
}

// wrote is called after each batch.
func (f *flusher) wrote() {
	if !f.armed.CompareAndSwap(false, true) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timer = time.AfterFunc(f.every, func() { _ = f.begin() })
}

// begin has everything that was written brought to disk, and does not wait for it.
func (f *flusher) begin() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed.Store(false) // before the flush: what is written from now on may be no part of it
	if f.closed {
		return nil
	}
	if f.timer != nil {
		f.timer.Stop() // else it would begin another series of flushes beside that of what comes now
	}
	_, err := f.db.AsyncFlush()
	return err
}

// close brings everything to disk. The store may be closed afterwards.
func (f *flusher) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.timer != nil {
		f.timer.Stop()
	}
	return f.db.Flush()
}

// flushes ends the process when a write buffer cannot be brought to disk. Pebble tries again at
// once and for ever, while whoever writes waits: a store with a log never comes to that, because
// its log cannot be written either, and then Pebble ends the process itself.
type flushes struct {
	log pebble.Logger

	mu     sync.Mutex
	latest error // of the flush that ended last
}

func (f *flushes) listener() *pebble.EventListener {
	return &pebble.EventListener{FlushEnd: f.ended, BackgroundError: f.failed}
}

// ended is told of every flush. One that had nothing to write has an error too, which is not
// passed to failed.
func (f *flushes) ended(info pebble.FlushInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latest = info.Err
}

// failed is told of what failed in the background, of a flush just after ended was.
func (f *flushes) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != f.latest { //nolint:errorlint // the same value, not one like it
		f.log.Errorf("background error: %s", err)
		return
	}
	f.log.Fatalf("what was written does not get to the disk: %s", err)
}
