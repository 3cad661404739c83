package trial

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// disturb is what happens to the program as a whole.
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
		time.Sleep(30 * time.Millisecond) // others go on for a moment
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
	case "verify":
		return w.verifyProjection(ctx)
	}
	return fmt.Errorf("there is no operation %q", op.Do)
}

// rebuild makes the history anew beside everything else. One that is killed, as its
// operation says or with the program, is the next one's to finish.
func (w *worker) rebuild(ctx context.Context, op Op) error {
	from := time.Now()
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	if op.Do == "rebuild-killed" {
		time.AfterFunc(time.Duration(op.N)*time.Millisecond, cancel)
	}
	for try := 1; ; try++ {
		_, err := w.service.command(limited, "rebuild", "--all")
		switch {
		case err == nil || limited.Err() != nil || w.service.wasDown(from):
			return nil
		case try == rebuildTries || !strings.Contains(err.Error(), "reaching ClickHouse"):
			return err
		}
		w.log("rebuilds: %v", err)
		time.Sleep(2 * time.Second)
	}
}

// rebuildTries is how often a rebuild is begun that finds no ClickHouse: the library
// aborts now and then on a crowded machine, and is started again.
const rebuildTries = 5

func (w *worker) restart(ctx context.Context, end func() error) error {
	if err := end(); err != nil {
		return err
	}
	return w.service.start(ctx)
}

func (w *world) verifyProjection(ctx context.Context) error {
	if out, err := w.service.command(ctx, "verify-projection", "--all"); err != nil {
		w.violate("PROJECTION", "verify-projection: %v\n%s", err, out)
	}
	return nil
}
