package kafka

import (
	"context"
	"log/slog"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kslog"
)

// clientLogger returns the Kafka client's logger. It only passes on errors. All other important
// events are returned as errors and logged by the caller.
func (c Cluster) clientLogger() kgo.Logger {
	if c.Quiet {
		return kslog.New(slog.New(slog.DiscardHandler))
	}
	return errorsOnly{kslog.New(c.Logger)}
}

type errorsOnly struct{ kgo.Logger }

func (errorsOnly) Level() kgo.LogLevel { return kgo.LogLevelError }

// transactionLogger returns the logger of a client that writes in transactions. It also passes on
// the client's routine messages about transactions at debug level, because each transaction has
// three of them. Any other message about a transaction is a warning: the client uses them to report
// that it aborts instead of committing.
func (c Cluster) transactionLogger() kgo.Logger {
	if c.Quiet {
		return c.clientLogger()
	}
	return kslog.New(slog.New(transactionLog{c.Logger.Handler()}))
}

type transactionLog struct{ slog.Handler }

// Enabled drops the client's own debug messages. Handle decides about the others.
func (transactionLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h transactionLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelError {
		r.Level = slog.LevelDebug
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "transactional_id" && !isRoutine(r.Message) {
				r.Level = slog.LevelWarn
			}
			return r.Level == slog.LevelDebug
		})
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h transactionLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return transactionLog{h.Handler.WithAttrs(attrs)}
}

func (h transactionLog) WithGroup(name string) slog.Handler {
	return transactionLog{h.Handler.WithGroup(name)}
}

// isRoutine reports whether every transaction logs the message.
func isRoutine(message string) bool {
	return strings.HasPrefix(message, "beginning transaction") ||
		strings.HasPrefix(message, "ending transaction") ||
		strings.HasPrefix(message, "end transaction response successfully received")
}
