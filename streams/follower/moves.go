package follower

import (
	"fmt"
	"iter"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// moves returns the balance moves of wallets that a watch sees in this ledger; none where the
// source gives none. What cannot be read is logged: the next move of that balance then does not
// begin where its last one ended.
func (r *Reading) moves(l domain.Ledger) ([]domain.BalanceMove, error) {
	if l.Moves == nil {
		return nil, nil
	}
	watches := admitted{r, l.Sequence}
	read, err := l.Moves(func(wallet string) (bool, error) {
		watching, err := watches.ByWallet(wallet)
		return len(watching) > 0, err
	})
	if err != nil {
		return nil, fmt.Errorf("follower: asking for the watches of wallets that moved: %w", err)
	}
	for _, u := range read.Unread {
		r.config.Logger.Warn("changes of balances in a transaction cannot be read; if one is of a "+
			"watched wallet, its statement shows it as unexplained", "ledger", l.Sequence, "txHash",
			u.TxHash, "reason", u.Reason)
	}
	return read.Moves, nil
}

// eachMove iterates over the records of balance moves to append, in ledger order.
func (s matched) eachMove(nowMillis int64) iter.Seq[kafka.Record] {
	return func(yield func(kafka.Record) bool) {
		for _, move := range s.moves {
			if s.already.moves[move.ID] {
				continue
			}
			m := schemas.EncodeBalanceMoved(schemas.BalanceMoved{
				Move:             move,
				ObservedAtMillis: nowMillis,
			})
			if !yield(record(schemas.TopicPayments, move.Wallet, m)) {
				return
			}
		}
	}
}
