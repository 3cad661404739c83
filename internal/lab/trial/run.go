package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"os"
)

// Config configures a run.
type Config struct {
	Binary string // path of the program
	Dir    string // directory of the run; created if missing
	Seed   uint64 // names the run
	Ops    []Op
	Until  string // stop when this rule is violated
	Brief  bool   // skip the final rebuilds and restarts
}

// Report is the result of a run.
type Report struct {
	Violations             []Violation
	Payments, Posts, Kills int
	Took                   time.Duration
}

const runTime = 20 * time.Minute

// Run runs a script on a fresh data folder and compares the outcome with the model. An error is a
// failure of the driver itself.
func Run(ctx context.Context, c Config) (Report, error) {
	w, err := newWorld(c.Binary, c.Dir, c.Seed)
	if err != nil {
		return Report{}, err
	}
	defer w.close()
	script, err := os.Create(filepath.Join(c.Dir, "script.jsonl"))
	if err == nil {
		err = errors.Join(WriteScript(script, c.Ops), script.Close())
	}
	if err != nil {
		return Report{}, err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	w.stop, w.until, w.brief = cancel, c.Until, c.Brief
	err = w.run(ctx, c.Ops)
	if err != nil && len(w.violations) > 0 {
		w.log("given up: %v", err) // the violations say more
		err = nil
	}
	return w.report(began), err
}

func (w *world) report(began time.Time) Report {
	return Report{
		Violations: w.violations,
		Payments:   len(w.model.payments),
		Posts:      len(w.receivers.posts),
		Kills:      len(w.service.kills),
		Took:       time.Since(began),
	}
}

func (w *world) run(ctx context.Context, ops []Op) error {
	if err := w.setUp(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	w.began = time.Now()
	w.mu.Unlock()
	w.workAll(ctx, ops)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.log("calm")
	if err := w.calm(ctx); err != nil {
		return err
	}
	if w.network != nil && w.service.output.count(" ledger sources are needed") > 0 {
		w.violate("QUORUM", "one liar of three sources interrupts following")
	}
	if err := w.check(ctx); err != nil || w.brief {
		return err
	}
	w.late.Store(true)
	if err := w.endure(ctx); err != nil || w.network == nil {
		return err
	}
	w.log("the network is reset")
	return errors.Join(w.resetNetwork(ctx), w.calm(ctx), w.check(ctx))
}

func (w *world) workAll(ctx context.Context, ops []Op) {
	lanes := map[string][]Op{}
	for _, op := range ops {
		lanes[op.Lane] = append(lanes[op.Lane], op)
	}
	var working sync.WaitGroup
	for name, ops := range lanes {
		l := &worker{world: w}
		if strings.HasPrefix(name, "a") {
			l.account = w.accounts[name[1]-'0']
		}
		working.Go(func() { l.work(ctx, ops) })
	}
	working.Wait()
}

// endure checks that responses are the same after a rebuild, a restart without state, and the loss
// of the history.
func (w *world) endure(ctx context.Context) error {
	before, err := w.snapshot(ctx)
	if err != nil {
		return err
	}
	posts := len(w.receivers.all())
	steps := []struct {
		name string
		do   func() error
	}{
		{"a rebuild", func() error {
			_, err := w.service.command(ctx, "rebuild", "--all")
			return err
		}},
		{"verify-projection", func() error { return w.verifyProjection(ctx) }},
		{"a restart without state", func() error { return w.restartWithout(ctx, "state") }},
		{"a restart without the history", func() error { return w.restartWithout(ctx, "clickhouse") }},
	}
	for _, step := range steps {
		w.log("%s", step.name)
		if err := step.do(); err != nil {
			return err
		}
		if err := w.upToDate(ctx); err != nil {
			return err
		}
		after, err := w.snapshot(ctx)
		if err != nil {
			return err
		}
		w.compare(step.name, before, after)
		for _, p := range w.receivers.all()[posts:] {
			w.violate("ENDURE", "after %s %s was posted to %s again", step.name, p.id, p.endpoint)
			posts++
		}
	}
	return nil
}

func (w *world) restartWithout(ctx context.Context, part string) error {
	return errors.Join(w.service.stop(), w.service.lose(part), w.service.start(ctx))
}

// snapshot holds the responses of all reads: items in order, by path.
type snapshot map[string][]string

func (w *world) snapshot(ctx context.Context) (snapshot, error) {
	s := snapshot{}
	for i, a := range w.accounts {
		paths := []string{"/v1/endpoints", "/v1/watches", "/v1/api-keys", "/v1/events"}
		for _, state := range states {
			paths = append(paths, "/v1/events?"+url.Values{"state": {state}}.Encode())
		}
		for _, path := range paths {
			err := w.list(ctx, a.key, path, 100, func(item json.RawMessage) error {
				var fields map[string]any
				if err := json.Unmarshal(item, &fields); err != nil {
					return err
				}
				for _, field := range changing {
					delete(fields, field)
				}
				text, err := json.Marshal(fields)
				at := fmt.Sprintf("account %d: %s", i, path)
				s[at] = append(s[at], string(text))
				if err != nil || path != "/v1/events" || len(s[at]) > readsInSnapshot {
					return err
				}
				return s.read(ctx, w, a, fmt.Sprint(path, "/", fields["id"]))
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// changing are fields that change over time or with each read.
var changing = []string{"lastUsedAt", "health", "healthUnavailable"}

const readsInSnapshot = 25

func (s snapshot) read(ctx context.Context, w *world, a *account, path string) error {
	got, err := w.call(ctx, request{method: "GET", path: path, key: a.key})
	s[path] = []string{string(got.body)}
	return err
}

func (w *world) compare(after string, old, now snapshot) {
	for path := range old {
		for i := range max(len(old[path]), len(now[path])) {
			if i >= len(old[path]) || i >= len(now[path]) {
				w.violate("ENDURE", "after %s %s has %d where there were %d", after, path, len(now[path]),
					len(old[path]))
				break
			}
			if old[path][i] != now[path][i] {
				w.violate("ENDURE", "after %s %s differs:\n%s\n%s", after, path, old[path][i], now[path][i])
				break
			}
		}
	}
}
