package follower

import (
	"fmt"
	"iter"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// matched are a ledger's payments to watched wallets and their matches.
type matched struct {
	observed []domain.Payment
	matches  []domain.Match
	moves    []domain.BalanceMove
	already  appended // by an earlier reading, for the ledger
	skipped  uint32   // payments that match and have an event already
}

// isIncome excludes payments of nothing, and payments to oneself.
func isIncome(p domain.Payment) bool { return p.AmountStroops > 0 && !p.PaysOneself() }

// match selects the payments to watched wallets and matches each against the watches. What
// was matched of the ledger before is not matched again, even if its watch has changed, and
// what was observed is not appended again. Matches of watches for one payment are claimed.
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
			return matched{}, fmt.Errorf("follower: asking for the watches of %s: %w", p.To, err)
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

// eachPayment iterates over the records of payments to append, in ledger order.
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

// eachMatch iterates over the records of matches to append, in ledger order.
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
