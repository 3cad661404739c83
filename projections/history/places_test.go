package history

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumenhook/lumenhook/projections/writer"
)

// Fewer reads run at once than there are connections. The others wait as long as their callers
// do, because the pool would reject them after two seconds.
func TestReadsWaitForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := writer.Open("clickhouse://127.0.0.1:1/lumenhook")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		readOnly := New(Config{DB: db}).from.Load().all[0].readOnly
		var running atomic.Int32
		pass := make(chan struct{})
		read := func(context.Context) error {
			running.Add(1)
			<-pass
			running.Add(-1)
			return nil
		}
		const atOnce, reads = 12, 100
		var all sync.WaitGroup
		for range reads {
			all.Go(func() {
				if err := readOnly(t.Context(), read); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		impatient, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := readOnly(impatient, read); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a read whose caller has gone: %v", err)
		}
		for left := reads; left > 0; left-- {
			synctest.Wait()
			if n := running.Load(); n != min(atOnce, int32(left)) {
				t.Fatalf("%d reads run at once, with %d left", n, left)
			}
			pass <- struct{}{}
		}
		all.Wait()
	})
}
