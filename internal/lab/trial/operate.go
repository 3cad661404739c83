package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// worker runs the operations of a lane, each at its time or later.
type worker struct {
	*world
	account *account // only in an account's lane
}

func (w *worker) work(ctx context.Context, ops []Op) {
	for n, op := range ops {
		if at := w.began.Add(time.Duration(op.At) * time.Millisecond); time.Until(at) > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(at)):
			}
		}
		if ctx.Err() != nil {
			return
		}
		w.log("%s: %s", op.Lane, op)
		if err := w.operate(ctx, op, fmt.Sprintf("%d-%s-%d", w.seed, op.Lane, n)); err != nil &&
			ctx.Err() == nil {
			w.violate("OPERATION", "%s: %v", op, err)
		}
	}
}

func (w *worker) operate(ctx context.Context, op Op, once string) error {
	switch kind, _, _ := strings.Cut(op.Do, "."); kind {
	case "pay":
		return w.pay(ctx, op)
	case "endpoint":
		return w.onEndpoint(ctx, op, once)
	case "watch":
		return w.onWatch(ctx, op, once)
	case "event":
		return w.resend(ctx, op, once)
	case "attack":
		return w.attack(ctx, op)
	case "receiver":
		w.receivers.setMode(op.Endpoint, op.Mode)
		return nil
	}
	return w.disturb(ctx, op)
}

// change sends a request that changes something. If the operation says so, it repeats the request,
// which must get the same response.
func (w *worker) change(ctx context.Context, op Op, r request) (answer, error) {
	if r.key == "" {
		r.key = w.account.key
	}
	first, err := w.call(ctx, r)
	if err != nil {
		return first, err
	}
	w.log("%s: %s %s → %d %s", op.Lane, r.method, r.path, first.status, first.code())
	if op.Repeat {
		again, err := w.call(ctx, r)
		if err != nil {
			return first, err
		}
		w.sameAnswer(r, first, again)
	}
	return first, nil
}

func (w *worker) sameAnswer(r request, first, again answer) {
	if first.status != again.status || withoutRequest(first.body) != withoutRequest(again.body) {
		w.violate("IDEMPOTENCY", "%s %s: the repeat was answered otherwise:\n%d %s\n%d %s",
			r.method, r.path, first.status, first.body, again.status, again.body)
	}
	if first.ok() && again.header.Get("Idempotent-Replayed") != "true" {
		w.violate("IDEMPOTENCY", "%s %s: the repeat does not say that it is one", r.method, r.path)
	}
}

// withoutRequest returns a body without the request id, which differs for each request.
func withoutRequest(body []byte) string {
	var fields map[string]any
	if json.Unmarshal(body, &fields) != nil {
		return string(body)
	}
	delete(fields, "requestId")
	text, _ := json.Marshal(fields) // cannot fail, because it came from JSON
	return string(text)
}

func (w *worker) expect(op Op, a answer, statuses ...int) bool {
	for _, status := range statuses {
		if a.status == status {
			return true
		}
	}
	w.violate("API", "%s was answered %d where %v was due: %s", op, a.status, statuses, a.body)
	return false
}
