package trial

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// disturb is what happens to the program as a whole.
func (w *worker) disturb(ctx context.Context, op Op) error {
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
	case "rebuild":
		_, err := w.service.command(ctx, "rebuild", "--all")
		return err
	case "verify":
		return w.verifyProjection(ctx)
	}
	return fmt.Errorf("there is no operation %q", op.Do)
}

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
