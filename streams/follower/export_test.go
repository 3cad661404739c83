package follower

import (
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// OpenLog opens a follower's log, so that tests can wrap it.
func OpenLog(c kafka.Cluster) (*kafkaLog, error) { return openLog(c, liveProducer) }

// OpenPastLog opens the log that a follower uses for backfills.
func OpenPastLog(c kafka.Cluster) (*kafkaLog, error) { return openLog(c, pastProducer) }

func (l *kafkaLog) Close() { l.close() }

// SetAt sets the newest ledger that was read live.
func (r *Reading) SetAt(sequence uint32) {
	r.at.Store(sequence)
	r.done.Store(sequence)
}

// Matcher returns a function that matches a ledger's payments without appending anything. It
// returns the number of observed payments and of their matches.
func Matcher(config Config) func(domain.Ledger) (observed, matches int, err error) {
	r := NewReading(config, nil, nil)
	return func(l domain.Ledger) (observed, matches int, err error) {
		s, err := match(l.Payments, admitted{r, l.Sequence}, r.appended.of(l.Sequence),
			claims{missing: r.missing, ledger: l.Sequence})
		return len(s.observed), len(s.matches), err
	}
}
