package node

import (
	"context"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/schemas"
)

// A ledger that was read before a question is told in its answer, however soon one question
// follows another: a statement that ended with an older ledger would leave out a payment whose
// webhook has arrived.
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
