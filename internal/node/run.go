package node

import (
	"context"
	"log"
	"log/slog"
)

// Run starts a process, and lets it work until ctx ends or a part of it fails. Then it
// stops everything.
func Run(
	ctx context.Context, logger *slog.Logger, say func(string, ...any),
	start func(context.Context, *Stack) error,
) error {
	quietGlobalLog(logger)
	serving, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	stack := &Stack{Failed: failed, Logger: logger}
	err := start(serving, stack)
	if err == nil {
		<-serving.Done()
		say("stopping: attempts under way are finished and everything is flushed")
	}
	stack.Stop()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // interrupted while starting
	case err == nil && ctx.Err() == nil:
		return context.Cause(serving) // a part failed
	case err == nil:
		say("stopped")
	}
	return err
}

// quietGlobalLog sends what is written to the standard library's global log to the debug
// level of ours. net/http writes a line there for each invalid frame of a receiver, which
// could fill our log.
func quietGlobalLog(logger *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(logger.Handler(), slog.LevelDebug).Writer())
}
