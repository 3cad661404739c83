package follower

import "github.com/lumenhook/lumenhook/streams"

// OpenLog opens a follower's log, for tests that wrap it.
func OpenLog(c streams.Cluster) (*kafkaLog, error) { return openLog(c, liveProducer) }

// OpenPastLog opens that of its backfills.
func OpenPastLog(c streams.Cluster) (*kafkaLog, error) { return openLog(c, pastProducer) }

// Close ends its clients.
func (l *kafkaLog) Close() { l.close() }

// SetAt sets the newest ledger that was read live.
func (r *Reading) SetAt(sequence uint32) { r.at.Store(sequence) }
