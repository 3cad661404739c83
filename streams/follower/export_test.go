package follower

// OpenLog opens a follower's log, for tests that wrap it.
var OpenLog = openLog

// Close ends its clients.
func (l *kafkaLog) Close() { l.close() }
