package trial

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

func (w *worker) onEndpoint(ctx context.Context, op Op, once string) error {
	if op.Do == "endpoint.create" {
		return w.createEndpoint(ctx, op, once)
	}
	e := w.account.endpoints[op.Endpoint]
	if e == nil || !e.deletedAsked.IsZero() {
		return nil
	}
	verb := strings.TrimPrefix(op.Do, "endpoint.")
	r := request{method: "POST", path: "/v1/endpoints/" + e.id + "/" + verb, once: once}
	switch op.Do {
	case "endpoint.patch":
		return w.patchEndpoint(ctx, op, once, e)
	case "endpoint.delete":
		return w.deleteEndpoint(ctx, op, once, e)
	case "endpoint.enable":
		return w.enable(ctx, op, r, e)
	case "endpoint.disable":
		return w.disable(ctx, op, r, e)
	case "endpoint.rotate-secret":
		return w.rotate(ctx, op, r, e)
	case "endpoint.test":
		return w.test(ctx, op, r, e)
	case "endpoint.replay":
		return w.replay(ctx, op, r, e)
	}
	return w.writers(ctx, once, e)
}

// endpointView is an endpoint as the API shows it.
type endpointView struct {
	ID                 string            `json:"id"`
	URL                string            `json:"url"`
	Description        string            `json:"description"`
	Headers            map[string]string `json:"headers"`
	RateLimitPerSecond *int              `json:"rateLimitPerSecond"`
	Status             string            `json:"status"`
	DisabledReason     *string           `json:"disabledReason"`
	Secret             string            `json:"secret"`
}

func (w *worker) createEndpoint(ctx context.Context, op Op, once string) error {
	e := &endpoint{
		slot:        op.Endpoint,
		account:     w.account.id,
		server:      op.Mode,
		description: op.Text,
		limit:       op.N,
		headers:     map[string]string{},
		url:         w.receivers.urls[op.Mode] + "/hook/" + op.Endpoint,
	}
	body := map[string]any{"url": e.url, "description": e.description}
	if op.N > 0 {
		body["rateLimitPerSecond"] = op.N
	}
	a, err := w.change(ctx, op, request{method: "POST", path: "/v1/endpoints", body: body, once: once})
	if err != nil || !w.expect(op, a, http.StatusCreated) {
		return err
	}
	var made endpointView
	if err := a.into(&made); err != nil {
		return err
	}
	e.id, e.etag = made.ID, a.header.Get("ETag")
	e.secrets = []secret{{made.Secret, a.sent, a.done}}
	e.limits = []stamp{{a.done, op.N}}
	w.account.endpoints[op.Endpoint] = e
	w.model.owns(w.account, "/v1/endpoints/"+e.id)
	return nil
}

func (w *worker) patchEndpoint(ctx context.Context, op Op, once string, e *endpoint) error {
	body := map[string]any{}
	switch op.Mode {
	case "url":
		body["url"] = fmt.Sprintf("%s/hook/%s/v%d", w.receivers.urls[e.server], e.slot, op.N)
	case "limit":
		body["rateLimitPerSecond"] = nil
		if op.N > 0 {
			body["rateLimitPerSecond"] = op.N * 2
		}
	case "headers":
		body["headers"] = map[string]any{"X-Trial": fmt.Sprint(op.N)}
	default:
		body["description"] = op.Text
	}
	match, stale := ifMatch(op, w.etag(ctx, e))
	a, err := w.change(ctx, op, request{method: "PATCH", path: "/v1/endpoints/" + e.id, body: body,
		once: once, match: match})
	if err != nil {
		return err
	}
	if stale {
		w.expect(op, a, http.StatusPreconditionFailed)
		return nil
	}
	if op.Match == "current" && a.status == http.StatusPreconditionFailed {
		return nil // it was disabled meanwhile, which is a change
	}
	if !w.expect(op, a, http.StatusOK) {
		return nil
	}
	w.patched(op, e, body, a)
	return nil
}

func (w *worker) patched(op Op, e *endpoint, body map[string]any, a answer) {
	e.etag = a.header.Get("ETag")
	switch op.Mode {
	case "url":
		e.url = body["url"].(string)
	case "limit":
		e.limit = op.N * 2
		e.limits = append(e.limits, stamp{a.sent, max(e.limits[len(e.limits)-1].value, 0)},
			stamp{a.done, e.limit})
	case "headers":
		e.headers["X-Trial"] = fmt.Sprint(op.N)
	default:
		e.description = op.Text
	}
}

// etag returns the endpoint's present revision.
func (w *worker) etag(ctx context.Context, e *endpoint) string {
	a, err := w.call(ctx, request{method: "GET", path: "/v1/endpoints/" + e.id, key: w.account.key})
	if err != nil {
		return ""
	}
	return a.header.Get("ETag")
}

// deleteEndpoint deletes an endpoint: its watches report nothing from then on.
func (w *worker) deleteEndpoint(ctx context.Context, op Op, once string, e *endpoint) error {
	match, _ := ifMatch(op, w.etag(ctx, e))
	e.deletedAsked = time.Now()
	bounds := w.bounds(ctx)
	ended := bounds.versions(w.account, func(v *version) bool { return v.endpoint == e })
	a, err := w.change(ctx, op, request{method: "DELETE", path: "/v1/endpoints/" + e.id, once: once,
		match: match})
	if err != nil {
		return err
	}
	if match != "" && a.status == http.StatusPreconditionFailed {
		e.deletedAsked = time.Time{}
		bounds.undo(ended)
		return nil
	}
	if w.expect(op, a, http.StatusOK) {
		e.deleted = a.done
		w.checkLeft(a, ended)
	}
	return bounds.close(ctx, ended)
}

// checkLeft checks that the answer to a deletion lists the watches that have no endpoint now.
func (w *worker) checkLeft(a answer, ended []*watch) {
	var got struct {
		LeftWatches struct {
			Total int
			IDs   []string
		}
	}
	err := a.into(&got)
	missing := slices.ContainsFunc(ended, func(k *watch) bool {
		return !slices.Contains(got.LeftWatches.IDs, k.id)
	})
	if err != nil || missing || got.LeftWatches.Total != len(ended) {
		w.violate("LEFT", "a deletion leaves %d watches, and was answered %s", len(ended), a.body)
	}
}

func (w *worker) disable(ctx context.Context, op Op, r request, e *endpoint) error {
	a, err := w.change(ctx, op, r)
	if err != nil || !w.expect(op, a, http.StatusOK) {
		return err
	}
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	e.silent = append(e.silent, span{from: a.done})
	return nil
}

// enable first records whether the endpoint was disabled: before the request nothing may
// have been sent.
func (w *worker) enable(ctx context.Context, op Op, r request, e *endpoint) error {
	if err := w.noteDisabled(ctx, e); err != nil {
		return err
	}
	asked := time.Now()
	w.endSilence(e, asked)
	a, err := w.change(ctx, op, r)
	if err == nil {
		w.expect(op, a, http.StatusOK)
	}
	return err
}

func (w *world) endSilence(e *endpoint, at time.Time) {
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	for i := range e.silent {
		if e.silent[i].to.IsZero() {
			e.silent[i].to = at
		}
	}
	e.enabledAsked = append(e.enabledAsked, at)
}

func (w *worker) noteDisabled(ctx context.Context, e *endpoint) error {
	a, err := w.call(ctx, request{method: "GET", path: "/v1/endpoints/" + e.id, key: w.account.key})
	if err != nil {
		return err
	}
	var got endpointView
	if err := a.into(&got); err != nil {
		return err
	}
	if got.Status == "disabled" {
		w.model.mu.Lock()
		e.silent = append(e.silent, span{from: a.done})
		w.model.mu.Unlock()
	}
	return nil
}

func (w *worker) rotate(ctx context.Context, op Op, r request, e *endpoint) error {
	a, err := w.change(ctx, op, r)
	if err != nil || !w.expect(op, a, http.StatusOK) {
		return err
	}
	var made struct{ Secret string }
	if err := a.into(&made); err != nil {
		return err
	}
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	e.secrets = append(e.secrets, secret{made.Secret, a.sent, a.done})
	return nil
}

func (w *worker) test(ctx context.Context, op Op, r request, e *endpoint) error {
	a, err := w.change(ctx, op, r)
	if err != nil || !w.expect(op, a, http.StatusOK, http.StatusConflict) {
		return err
	}
	if !a.ok() {
		w.model.mu.Lock()
		defer w.model.mu.Unlock()
		e.testsRefused = true
		return nil
	}
	var got struct {
		EventID string
		Attempt struct {
			StatusCode *int
			Error      *string
		}
	}
	if err := a.into(&got); err != nil {
		return err
	}
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	w.model.tests[got.EventID] = e.slot
	return nil
}

// writers lets several clients change an endpoint that each of them has just read: one
// succeeds.
func (w *worker) writers(ctx context.Context, once string, e *endpoint) error {
	const clients = 4
	etag := w.etag(ctx, e)
	answers, failed := make(chan answer, clients), make(chan error, clients)
	for n := range clients {
		go func() {
			a, err := w.call(ctx, request{
				method: "PATCH",
				path:   "/v1/endpoints/" + e.id,
				key:    w.account.key,
				match:  etag,
				once:   fmt.Sprint(once, "-", n),
				body:   map[string]any{"description": fmt.Sprint(once, " ", n)},
			})
			answers <- a
			failed <- err
		}()
	}
	won := 0
	for range clients {
		a, err := <-answers, <-failed
		if err != nil {
			return err
		}
		if a.status == http.StatusOK {
			var got endpointView
			if err := a.into(&got); err != nil {
				return err
			}
			won++
			e.description = got.Description
		} else if a.status != http.StatusPreconditionFailed {
			w.violate("WRITERS", "a writer with If-Match was answered %d: %s", a.status, a.body)
		}
	}
	if won > 1 {
		w.violate("WRITERS", "%d of %d writers with the same If-Match %s won", won, clients, etag)
	}
	return nil
}
