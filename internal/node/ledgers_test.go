package node

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumenhook/lumenhook/schemas"
)

// A ledger that was read before a call is in its answer, however quickly calls follow each other: a
// statement that ended with an older ledger would miss a payment whose event was listed before.
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

// However many ask while the cursor is read, one more read answers them all.
func TestOneReadAnswersAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := uint32(0)
		l := newLedgers(func(context.Context) (schemas.LedgerRead, bool, error) {
			reads++
			<-time.After(time.Millisecond) // virtual
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
