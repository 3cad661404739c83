package follower

import (
	"fmt"
	"iter"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

type matched struct {
	observed []domain.Payment
	matches  []domain.Match
	moves    []domain.BalanceMove
	already  appended // by an earlier reading of this ledger
	skipped  uint32   // matching payments that already have an event
}

func isIncome(p domain.Payment) bool { return p.AmountStroops > 0 && !p.IsSelfPayment() }

// match matches payments against the watches. It does not repeat what was appended before, even if
// a watch has changed, and claims the matches of watches for one payment.
func match(payments []domain.Payment, watches interface {
	ByWallet(wallet string) ([]domain.Watch, error)
}, already appended, claims claims) (s matched, err error) {
	s.already = already
	for _, p := range payments {
		if !isIncome(p) {
			continue
		}
		watching, err := watches.ByWallet(p.To)
		if err != nil {
			return matched{}, fmt.Errorf("follower: reading the watches of %s: %w", p.To, err)
		}
		if len(watching) == 0 && !already.payments[p.ID] && !already.observed[p.ID] {
			continue
		}
		s.observed = append(s.observed, p)
		for _, w := range watching {
			switch m, ok := domain.MatchPayment(w, p); {
			case ok && already.has(m.EventID):
				s.skipped++
			case ok:
				s.matches = append(s.matches, m)
			}
		}
	}
	return s, s.claim(claims)
}

func (s matched) eachPayment(nowMillis int64) iter.Seq[kafka.Record] {
	return func(yield func(kafka.Record) bool) {
		for _, p := range s.observed {
			if s.already.observed[p.ID] {
				continue
			}
			m := schemas.EncodePaymentObserved(schemas.PaymentObserved{
				Payment:          p,
				ObservedAtMillis: nowMillis,
			})
			if !yield(record(schemas.TopicPayments, p.To, m)) {
				return
			}
		}
	}
}

func (s matched) eachMatch(nowMillis int64) iter.Seq[kafka.Record] {
	return func(yield func(kafka.Record) bool) {
		for _, match := range s.matches {
			m := schemas.EncodePaymentMatched(match, domain.NewPaymentEvent(match, nowMillis))
			if !yield(record(schemas.TopicMatches, match.Watch.EndpointID, m)) {
				return
			}
		}
	}
}

func record(topic, key string, m schemas.Message) kafka.Record {
	return kafka.NewRecord(topic, key, m.Value, m.EachHeader)
}

// moves returns the balance moves of watched wallets, or nil if the source does not report moves.
// Unreadable moves are logged: the balance's next move then does not begin where its last one
// ended.
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
		return nil, fmt.Errorf("follower: reading the watches of wallets with balance moves: %w", err)
	}
	for _, u := range read.Unread {
		r.config.Logger.Warn("the balance changes of a transaction cannot be read; if one is of a "+
			"watched wallet, its statement shows it as unexplained", "ledger", l.Sequence, "txHash",
			u.TxHash, "reason", u.Reason)
	}
	return read.Moves, nil
}

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
