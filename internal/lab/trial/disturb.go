package trial

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

func (w *worker) disturb(ctx context.Context, op Op) error {
	if strings.HasPrefix(op.Do, "rebuild") {
		return w.rebuild(ctx, op)
	}
	w.service.turn.Lock()
	defer w.service.turn.Unlock()
	switch op.Do {
	case "kill":
		return w.restart(ctx, w.service.kill)
	case "stop":
		return w.restart(ctx, w.service.stop)
	case "kill-held":
		held := w.service.hold(ctx, op.Point, holdLength)
		time.Sleep(30 * time.Millisecond) // others continue for a moment
		w.log("%s: killed, held %v", op.Lane, held)
		return w.restart(ctx, w.service.kill)
	case "kill-post":
		select {
		case <-w.receivers.nextPost():
		case <-time.After(holdWait):
		}
		return w.restart(ctx, w.service.kill)
	case "pause":
		return w.service.pause(time.Duration(op.N) * time.Millisecond)
	case "lose-engine", "lose-directory", "lose-state":
		part := map[string]string{
			"lose-engine": "state/engine", "lose-directory": "state/directory", "lose-state": "state",
		}[op.Do]
		return errors.Join(w.service.kill(), w.service.lose(part), w.service.start(ctx))
	case "lose-history":
		return errors.Join(w.service.kill(), w.service.lose("clickhouse"), w.service.start(ctx))
	case "tear-history":
		end := w.service.stop
		if op.N%2 == 0 {
			end = w.service.kill
		}
		return errors.Join(end(), w.service.tear(op.N/2), w.service.start(ctx), w.whole(ctx))
	case "verify":
		return w.verifyProjection(ctx)
	}
	return fmt.Errorf("there is no operation %q", op.Do)
}

// rebuild rebuilds the history while everything else runs. If it is killed, by its operation or
// with the program, the next rebuild completes it.
func (w *worker) rebuild(ctx context.Context, op Op) error {
	from := time.Now()
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	if op.Do == "rebuild-killed" {
		time.AfterFunc(time.Duration(op.N)*time.Millisecond, cancel)
	}
	_, err := w.fold(limited, "rebuild")
	if limited.Err() != nil || w.service.wasDown(from) {
		return nil
	}
	return err
}

// foldTries is how often a history command is tried if its connection to ClickHouse breaks. The
// library sometimes aborts when a client is killed, mostly on an overloaded machine, and is then
// restarted.
const foldTries = 5

// fold runs a command that folds the topics again. It repeats the command if the connection to
// ClickHouse was lost.
func (w *world) fold(ctx context.Context, name string) (out []byte, err error) {
	for try := 1; ; try++ {
		out, err = w.service.command(ctx, name, "--all")
		if err == nil || try == foldTries || exitCode(err) == differs || !lostClickHouse(err) {
			return out, err
		}
		w.log("%s: %v", name, err)
		select {
		case <-ctx.Done():
			return out, err
		case <-time.After(2 * time.Second):
		}
	}
}

// differs is the exit code of verify-projection if tables differ from the topics.
const differs = 3

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// lostClickHouse reports whether a command failed because the server was down or closed the
// connection.
func lostClickHouse(err error) bool {
	for _, said := range []string{"reaching ClickHouse", ": EOF", "connection reset", "broken pipe"} {
		if strings.Contains(err.Error(), said) {
			return true
		}
	}
	return false
}

func (w *world) whole(ctx context.Context) error {
	return w.eventually(ctx, "the history is whole", func() (string, error) {
		out, err := w.service.command(ctx, "doctor", "--only", "clickhouse")
		if err != nil {
			return string(out), nil
		}
		return "", nil
	})
}

func (w *worker) restart(ctx context.Context, end func() error) error {
	if err := end(); err != nil {
		return err
	}
	return w.service.start(ctx)
}

func (w *world) verifyProjection(ctx context.Context) error {
	if out, err := w.fold(ctx, "verify-projection"); err != nil {
		w.violate("PROJECTION", "verify-projection: %v\n%s", err, out)
	}
	return nil
}
