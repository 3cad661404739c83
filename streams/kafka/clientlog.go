package kafka

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLogger returns the Kafka client's logger. It only passes on errors. All other important
// events are returned as errors and logged by the caller.
func (c Cluster) clientLogger() kgo.Logger {
	return clientLog{logger: c.Logger, level: c.logLevel(kgo.LogLevelError)}
}

// transactionLogger returns the logger of a client that writes in transactions. It also passes on
// the client's routine messages about transactions at debug level, because each transaction has
// three of them. Any other message about a transaction is a warning: the client uses them to report
// that it aborts instead of committing.
func (c Cluster) transactionLogger() kgo.Logger {
	return clientLog{logger: c.Logger, level: c.logLevel(kgo.LogLevelInfo)}
}

func (c Cluster) logLevel(level kgo.LogLevel) kgo.LogLevel {
	if c.Quiet {
		return kgo.LogLevelNone
	}
	return level
}

// clientLog passes on the client's messages down to a level.
type clientLog struct {
	logger *slog.Logger
	level  kgo.LogLevel
}

func (l clientLog) Level() kgo.LogLevel { return l.level }

func (l clientLog) Log(level kgo.LogLevel, message string, args ...any) {
	to := slog.LevelDebug
	switch {
	case level == kgo.LogLevelError:
		to = slog.LevelError
	case slices.Contains(args, any("transactional_id")) && !isRoutine(message):
		to = slog.LevelWarn
	}
	l.logger.Log(context.Background(), to, message, args...)
}

// isRoutine reports whether every transaction logs the message.
func isRoutine(message string) bool {
	return strings.HasPrefix(message, "beginning transaction") ||
		strings.HasPrefix(message, "ending transaction") ||
		strings.HasPrefix(message, "end transaction response successfully received")
}
