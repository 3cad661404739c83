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
	case "endpoint.rotate-secret":
		return w.rotate(ctx, op, r, e)
	case "endpoint.replay":
		return w.replay(ctx, op, r)
	}
	a, err := w.change(ctx, op, r) // enable or disable
	if err == nil {
		w.expect(op, a, http.StatusOK)
	}
	return err
}

func (w *worker) createEndpoint(ctx context.Context, op Op, once string) error {
	e := &endpoint{
		slot:    op.Endpoint,
		account: w.account.id,
		server:  op.Mode,
		url:     w.receivers.urls[op.Mode] + "/hook/" + op.Endpoint,
	}
	body := map[string]any{"url": e.url, "description": op.Text}
	a, err := w.change(ctx, op, request{method: "POST", path: "/v1/endpoints", body: body, once: once})
	if err != nil || !w.expect(op, a, http.StatusCreated) {
		return err
	}
	var made struct{ ID, Secret string }
	if err := a.into(&made); err != nil {
		return err
	}
	e.id, e.secrets = made.ID, []secret{{made.Secret, a.sent, a.done}}
	w.account.endpoints[op.Endpoint] = e
	return nil
}

func (w *worker) patchEndpoint(ctx context.Context, op Op, once string, e *endpoint) error {
	body := map[string]any{"description": op.Text}
	if op.Mode == "url" {
		body = map[string]any{"url": fmt.Sprintf("%s/hook/%s/v%d", w.receivers.urls[e.server], e.slot,
			op.N)}
	}
	a, err := w.change(ctx, op, request{method: "PATCH", path: "/v1/endpoints/" + e.id, body: body,
		once: once})
	if err == nil {
		w.expect(op, a, http.StatusOK)
	}
	return err
}

// deleteEndpoint deletes an endpoint, after which its watches report nothing. With the mode
// "refuse", the API must reject the request if the endpoint has watches.
func (w *worker) deleteEndpoint(ctx context.Context, op Op, once string, e *endpoint) error {
	e.deletedAsked = time.Now()
	bounds := w.bounds(ctx)
	ended := bounds.versions(w.account, func(v *version) bool { return v.endpoint == e })
	r := request{method: "DELETE", path: "/v1/endpoints/" + e.id, once: once}
	refuse := op.Mode == "refuse"
	if refuse {
		r.path += "?ifWatched=refuse"
	}
	a, err := w.change(ctx, op, r)
	if err != nil {
		return err
	}
	refused := refuse && a.code() == "ENDPOINT_WATCHED"
	if refuse && refused != (len(ended) > 0) {
		w.violate("LEFT", "an endpoint of %d watches, to be deleted if it has none, was answered %d %s",
			len(ended), a.status, a.body)
	}
	if refused {
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

// checkLeft checks that the response to a deletion lists the watches that no longer have an
// endpoint.
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
