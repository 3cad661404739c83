package node

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumenhook/lumenhook/schemas"
)

// A ledger that was read before a call must be in its answer, even if calls follow each other
// quickly. Otherwise a statement could end with an older ledger and miss a payment whose event was
// already listed.
func TestTheCursorIsNeverOlderThanTheQuestion(t *testing.T) {
	committed := uint32(0)
	l := newLedgers(func(context.Context) (schemas.LedgerRead, bool, error) {
		return schemas.LedgerRead{Sequence: committed}, true, nil
	}, time.Now)
	for committed = 1; committed <= 3; committed++ {
		told, err := l.Followed(t.Context())
		if err != nil || told.Ledger != committed {
			t.Fatalf("after ledger %d was read, %d was told, %v", committed, told.Ledger, err)
		}
	}
}

// All callers that arrive while the cursor is being read must share one more read.
func TestOneReadAnswersAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := uint32(0)
		l := newLedgers(func(context.Context) (schemas.LedgerRead, bool, error) {
			reads++
			<-time.After(time.Millisecond) // in virtual time
			return schemas.LedgerRead{Sequence: reads}, true, nil
		}, time.Now)
		var asking sync.WaitGroup
		for range 100 {
			asking.Go(func() {
				if _, err := l.Followed(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		if reads != 2 {
			t.Errorf("100 questions at once cost %d reads, not 2", reads)
		}
	})
}
