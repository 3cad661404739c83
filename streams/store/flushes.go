package store

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// defaultFlushEvery is short enough that later records are folded again within seconds, and long
// enough that the small tables it writes are merged rarely.
const defaultFlushEvery = time.Minute

// flusher writes a store without a log to disk within a bounded time. Otherwise a write buffer that
// does not fill would stay in memory forever.
type flusher struct {
	db    *pebble.DB
	every time.Duration
	armed atomic.Bool // a flush is scheduled

	mu     sync.Mutex // held while db is used, so that it is not closed at the same time
	timer  *time.Timer
	closed bool
}

func (f *flusher) wrote() {
	if !f.armed.CompareAndSwap(false, true) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timer = time.AfterFunc(f.every, func() { _ = f.begin() })
}

// begin starts flushing everything that was written, without waiting for it.
func (f *flusher) begin() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed.Store(false) // before the flush: later writes may not be part of it
	if f.closed {
		return nil
	}
	if f.timer != nil {
		f.timer.Stop() // otherwise it would start a second series of flushes
	}
	_, err := f.db.AsyncFlush()
	return err
}

// close flushes everything. The store may be closed afterwards.
func (f *flusher) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.timer != nil {
		f.timer.Stop()
	}
	return f.db.Flush()
}

// flushes ends the process when a write buffer cannot be written to disk. Pebble retries at once
// and forever, while writers wait. A store with a log does not get there: its log cannot be written
// either, and then Pebble ends the process itself.
type flushes struct {
	log pebble.Logger

	mu     sync.Mutex
	latest error // error of the latest flush
}

func (f *flushes) listener() *pebble.EventListener {
	return &pebble.EventListener{FlushEnd: f.ended, BackgroundError: f.failed}
}

// ended is called after every flush. A flush with nothing to write also has an error, which Pebble
// does not pass to failed.
func (f *flushes) ended(info pebble.FlushInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latest = info.Err
}

// failed is called with background errors; for a flush, just after ended.
func (f *flushes) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != f.latest { //nolint:errorlint // the same value, not one like it
		f.log.Errorf("background error: %s", err)
		return
	}
	f.log.Fatalf("what was written does not get to the disk: %s", err)
}
