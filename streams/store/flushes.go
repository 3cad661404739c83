package store

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// defaultFlushEvery is short enough that refolding the rest takes seconds, and long enough that the
// small tables it writes are rarely merged.
const defaultFlushEvery = time.Minute

// flusher writes a store without a log to disk, however slowly its write buffer fills.
type flusher struct {
	db    *pebble.DB
	every time.Duration
	armed atomic.Bool // a flush is scheduled

	mu     sync.Mutex // held while db is used, so that it is not closed meanwhile
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

func (f *flusher) begin() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed.Store(false) // before the flush, which may not include later writes
	if f.closed {
		return nil
	}
	if f.timer != nil {
		f.timer.Stop() // or it would start a second series of flushes
	}
	_, err := f.db.AsyncFlush()
	return err
}

func (f *flusher) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.timer != nil {
		f.timer.Stop()
	}
	return f.db.Flush()
}

// flushes makes the process exit when a write buffer cannot be written to disk, because Pebble
// would retry forever while writers wait. With a log, it exits by itself.
type flushes struct {
	log pebble.Logger

	mu     sync.Mutex
	latest error // of the latest flush
}

func (f *flushes) listener() *pebble.EventListener {
	return &pebble.EventListener{FlushEnd: f.ended, BackgroundError: f.failed}
}

// ended is called after every flush. One with nothing to write also has an error, which Pebble does
// not pass to failed.
func (f *flushes) ended(info pebble.FlushInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latest = info.Err
}

// failed is called with background errors. For a flush, that is just after ended.
func (f *flushes) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != f.latest { //nolint:errorlint // the same value, not one like it
		f.log.Errorf("background error: %s", err)
		return
	}
	f.log.Fatalf("cannot write the state to disk: %s", err)
}
