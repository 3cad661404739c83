package kafka

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLogger returns a logger for the client's errors only. Callers log everything else that
// matters, because the client returns it as errors.
func (c Cluster) clientLogger() kgo.Logger {
	return clientLog{logger: c.Logger, level: c.logLevel(kgo.LogLevelError)}
}

// transactionLogger also logs what the client reports about transactions: the three routine
// messages of each one at debug level, and all others as warnings, because that is how the client
// reports that it aborts instead of committing.
func (c Cluster) transactionLogger() kgo.Logger {
	return clientLog{logger: c.Logger, level: c.logLevel(kgo.LogLevelInfo)}
}

func (c Cluster) logLevel(level kgo.LogLevel) kgo.LogLevel {
	if c.Quiet {
		return kgo.LogLevelNone
	}
	return level
}

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

func isRoutine(message string) bool {
	return strings.HasPrefix(message, "beginning transaction") ||
		strings.HasPrefix(message, "ending transaction") ||
		strings.HasPrefix(message, "end transaction response successfully received")
}
