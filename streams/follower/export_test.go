package follower

// OpenLog is the log of a follower, for tests that come between it and what it
// writes.
var OpenLog = openLog

// Close ends its clients.
func (l *kafkaLog) Close() { l.close() }
