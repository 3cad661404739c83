package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	// calmWait is how long each wait at the end of a run lasts without a change.
	calmWait = 3 * time.Minute
	// calmLimit limits each wait at the end of a run. It is long, because a slow machine is no
	// violation.
	calmLimit = 20 * time.Minute
)

// eventually waits until holds returns "", and otherwise reports a violation with what is missing.
func (w *world) eventually(ctx context.Context, what string, holds func() (string, error)) error {
	var missing string
	began := time.Now()
	for changed := began; time.Since(changed) < calmWait && time.Since(began) < calmLimit; {
		now, err := holds()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", what, err)
		case now == "":
			return nil
		case now != missing:
			missing, changed = now, time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(150 * time.Millisecond):
		}
	}
	w.violate("CALM", "never came true: %s: %s", what, missing)
	return nil
}

// calm lets everything finish: receivers respond with 200, ledgers are read, and backfills
// complete. Then it enables disabled endpoints and replays failed events.
func (w *world) calm(ctx context.Context) error {
	w.receivers.healAll()
	if err := w.allRead(ctx); err != nil {
		return err
	}
	if err := w.settle(ctx, true); err != nil {
		return err
	}
	for _, a := range w.accounts {
		for _, slot := range slices.Sorted(maps.Keys(a.endpoints)) {
			if err := w.heal(ctx, a, a.endpoints[slot]); err != nil {
				return err
			}
		}
	}
	return w.settle(ctx, false)
}

func (w *world) allRead(ctx context.Context) error {
	newest := w.readLedger(ctx) + 3 // by then, a watch that got an endpoint is live
	for _, p := range w.model.allPayments() {
		newest = max(newest, p.Ledger)
	}
	err := w.eventually(ctx, "every ledger is read", func() (string, error) {
		if read := w.readLedger(ctx); read < newest {
			return fmt.Sprintf("%d of %d", read, newest), nil
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	return w.eventually(ctx, "every backfill has ended", func() (string, error) {
		for _, a := range w.accounts {
			running := ""
			err := w.list(ctx, a.key, "/v1/watches", 100, func(item json.RawMessage) error {
				var k watchView
				err := json.Unmarshal(item, &k)
				if err == nil && k.Backfill != nil && !k.Backfill.Done && k.Backfill.Problem == nil {
					running = k.ID
				}
				return err
			})
			if err != nil || running != "" {
				return running, err
			}
		}
		return "", nil
	})
}

// settle waits until the history is up to date and nothing more will be sent.
func (w *world) settle(ctx context.Context, heldAllowed bool) error {
	err := w.eventually(ctx, "nothing is under way", func() (string, error) {
		for _, a := range w.accounts {
			for _, state := range []string{"QUEUED", "WAITING"} {
				events, err := w.events(ctx, a.key, url.Values{"state": {state}}, 250)
				if err != nil {
					return "", err
				}
				for _, e := range events {
					if !heldAllowed || !e.Delivery.Held {
						return fmt.Sprintf("%d %s, such as %s, after %d attempts",
							len(events), state, e.ID, w.service.output.count(": attempt ")), nil
					}
				}
			}
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	return w.upToDate(ctx)
}

func (w *world) upToDate(ctx context.Context) error {
	return w.eventually(ctx, "the history is up to date", func() (string, error) {
		a, err := w.call(ctx, request{method: "GET", path: "/readyz"})
		if err != nil {
			return "", err
		}
		if a.status == http.StatusOK && strings.Contains(string(a.body), `"up to date"`) {
			return "", nil
		}
		return string(a.body), nil
	})
}

// heal makes an endpoint receive everything that it has not received yet.
func (w *world) heal(ctx context.Context, a *account, e *endpoint) error {
	if !e.deletedAsked.IsZero() {
		return nil
	}
	h := &worker{world: w, account: a}
	once := fmt.Sprintf("%d-heal-%s", w.seed, e.slot)
	if e.server == "closed" || e.server == "badtls" {
		e.server, e.url = "h2", w.receivers.urls["h2"]+"/hook/"+e.slot
		body := map[string]any{"url": e.url}
		r := request{method: "PATCH", path: "/v1/endpoints/" + e.id, body: body, once: once + "-url"}
		if _, err := h.change(ctx, Op{}, r); err != nil {
			return err
		}
	}
	enabling := Op{Do: "endpoint.enable", Endpoint: e.slot}
	if err := h.onEndpoint(ctx, enabling, once+"-enable"); err != nil {
		return err
	}
	return h.replayAll(ctx, e, once)
}

// replayAll replays until no event is FAILED.
func (w *worker) replayAll(ctx context.Context, e *endpoint, once string) error {
	n := 0
	return w.eventually(ctx, "everything that failed at "+e.slot+" is replayed",
		func() (string, error) {
			n++
			a, err := w.change(ctx, Op{}, request{
				method: "POST",
				path:   "/v1/endpoints/" + e.id + "/replay",
				once:   fmt.Sprint(once, "-", n),
				body:   map[string]any{"since": w.began.Add(-time.Hour).UTC().Format(time.RFC3339)},
			})
			if err != nil {
				return "", err
			}
			var got struct{ Matched int }
			if err := a.into(&got); err != nil {
				return "", err
			}
			if got.Matched > 0 {
				return fmt.Sprint(got.Matched, " matched"), nil
			}
			return "", nil
		})
}
