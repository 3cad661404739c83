package trial

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/internal/lab/draw"
)

// bounds are the ledgers around a change of watches.
type bounds struct {
	w       *world
	notUpTo uint32
}

// bounds must be called before a change is requested.
func (w *world) bounds(ctx context.Context) bounds { return bounds{w, w.readLedger(ctx)} }

// versions returns the watches of an account whose current version is affected, and ends these
// versions.
func (e bounds) versions(a *account, meant func(*version) bool) []*watch {
	e.w.model.mu.Lock()
	defer e.w.model.mu.Unlock()
	var ended []*watch
	for _, slot := range slices.Sorted(maps.Keys(a.watches)) {
		k := a.watches[slot]
		if v := *k.now(); !v.gone && meant(&v) {
			v.gone, v.notUpTo, v.surely = true, e.notUpTo, 0
			k.versions = append(k.versions, v)
			ended = append(ended, k)
		}
	}
	return ended
}

// undo restores versions that did not end after all.
func (e bounds) undo(ended []*watch) {
	e.w.model.mu.Lock()
	defer e.w.model.mu.Unlock()
	for _, k := range ended {
		k.versions = k.versions[:len(k.versions)-1]
	}
}

// close records, after the response, from which ledger on the new versions certainly apply.
func (e bounds) close(ctx context.Context, changed []*watch) error {
	surely, err := e.w.chain.latest(ctx)
	if err != nil {
		return err
	}
	e.w.model.mu.Lock()
	defer e.w.model.mu.Unlock()
	for _, k := range changed {
		k.now().surely = surely
	}
	return nil
}

func (w *worker) onWatch(ctx context.Context, op Op, once string) error {
	if op.Do == "watch.create" {
		return w.createWatch(ctx, op, once)
	}
	k := w.account.watches[op.Watch]
	if k == nil || k.now().gone && k.now().endpoint == nil {
		return nil
	}
	switch op.Do {
	case "watch.patch":
		return w.patchWatch(ctx, op, once, k)
	case "watch.delete":
		return w.deleteWatch(ctx, op, once, k)
	}
	return w.backfill(ctx, op, once, k)
}

type watchView struct {
	ID       string `json:"id"`
	Backfill *struct {
		From    uint32  `json:"from"`
		To      *uint32 `json:"to"`
		Done    bool    `json:"done"`
		Problem *string `json:"problem"`
	} `json:"backfill"`
}

func (w *worker) createWatch(ctx context.Context, op Op, once string) error {
	e := w.account.endpoints[op.Endpoint]
	if e == nil || !e.deletedAsked.IsZero() {
		return nil
	}
	wallet := w.walletOf(op.Wallet).Address()
	body := w.body(*op.Rules)
	body["walletAddress"], body["endpointId"], body["label"] = wallet, e.id, op.Text
	bound := w.bounds(ctx)
	k := &watch{
		slot:     op.Watch,
		account:  w.account.id,
		wallet:   wallet,
		versions: []version{{label: op.Text, endpoint: e, rules: *op.Rules, notUpTo: bound.notUpTo}},
	}
	w.model.mu.Lock()
	w.model.watches = append(w.model.watches, k)
	w.model.mu.Unlock()
	a, err := w.change(ctx, op, request{method: "POST", path: "/v1/watches", body: body, once: once})
	if err != nil || !w.expect(op, a, http.StatusCreated) {
		return err
	}
	var made watchView
	if err := a.into(&made); err != nil {
		return err
	}
	k.id = made.ID
	w.account.watches[op.Watch] = k
	return bound.close(ctx, []*watch{k})
}

func (w *worker) patchWatch(ctx context.Context, op Op, once string, k *watch) error {
	next, body := *k.now(), map[string]any{}
	switch op.Mode {
	case "move":
		if e := w.account.endpoints[op.Endpoint]; e == nil || !e.deletedAsked.IsZero() {
			return nil
		}
		next.endpoint, next.gone = w.account.endpoints[op.Endpoint], false
		body["endpointId"] = next.endpoint.id
	case "rules":
		next.rules = *op.Rules
		body = w.body(*op.Rules)
	default:
		next.label = op.Text
		body["label"] = op.Text
	}
	return w.moveOn(ctx, op, k, next, request{method: "PATCH", path: "/v1/watches/" + k.id,
		body: body, once: once})
}

// moveOn sends a request that gives a watch its next version.
func (w *worker) moveOn(ctx context.Context, op Op, k *watch, next version, r request) error {
	bound := w.bounds(ctx)
	next.notUpTo, next.surely = bound.notUpTo, 0
	w.model.mu.Lock()
	k.versions = append(k.versions, next)
	w.model.mu.Unlock()
	a, err := w.change(ctx, op, r)
	if err != nil {
		return err
	}
	if !w.expect(op, a, http.StatusOK, http.StatusNoContent) {
		bound.undo([]*watch{k})
		return nil
	}
	return bound.close(ctx, []*watch{k})
}

func (w *worker) deleteWatch(ctx context.Context, op Op, once string, k *watch) error {
	next := *k.now()
	next.gone, next.endpoint = true, nil
	return w.moveOn(ctx, op, k, next, request{method: "DELETE", path: "/v1/watches/" + k.id,
		once: once})
}

// backfill requests past ledgers, and usually waits until they have been read.
func (w *worker) backfill(ctx context.Context, op Op, once string, k *watch) error {
	read := w.readLedger(ctx)
	from := uint32(max(int64(read)-int64(op.N), 2)) // #nosec G115
	body := map[string]any{"from": from}
	b := backfill{from: from, first: len(k.versions) - 1, last: -1}
	if op.Mode == "bounded" && read > from+2 {
		b.to = (from + read) / 2
		body["to"] = b.to
	}
	w.model.mu.Lock()
	k.backfills = append(k.backfills, b)
	mine := &k.backfills[len(k.backfills)-1]
	w.model.mu.Unlock()
	a, err := w.change(ctx, op, request{method: "POST", path: "/v1/watches/" + k.id + "/backfill",
		body: body, once: once})
	if err != nil || !w.expect(op, a, http.StatusOK) || op.Mode == "leave" {
		return err
	}
	return w.awaitBackfill(ctx, k, mine)
}

func (w *worker) awaitBackfill(ctx context.Context, k *watch, b *backfill) error {
	return w.eventually(ctx, "a backfill of "+k.id+" is done", func() (string, error) {
		got, err := w.getWatch(ctx, k)
		if err != nil || got.Backfill == nil || !got.Backfill.Done && got.Backfill.Problem == nil {
			return "it has not ended", err
		}
		w.model.mu.Lock()
		defer w.model.mu.Unlock()
		b.last, b.complete = len(k.versions)-1, got.Backfill.Problem == nil &&
			got.Backfill.From == b.from
		if got.Backfill.To != nil {
			b.to = *got.Backfill.To
		}
		return "", nil
	})
}

func (w *worker) getWatch(ctx context.Context, k *watch) (got watchView, err error) {
	a, err := w.call(ctx, request{method: "GET", path: "/v1/watches/" + k.id, key: w.account.key})
	if err == nil && a.status != http.StatusOK {
		err = fmt.Errorf("GET /v1/watches/%s was answered %d: %s", k.id, a.status, a.body)
	}
	if err == nil {
		err = a.into(&got)
	}
	return got, err
}

func (w *world) expiry(r draw.Rules) *time.Time {
	if r.Expires == 0 {
		return nil
	}
	at := w.began.Add(time.Duration(r.Expires) * time.Millisecond).UTC().Truncate(time.Millisecond)
	return &at
}

var lumens = map[string]any{"code": "XLM", "issuer": nil}

func decimal(stroops int64) string {
	return fmt.Sprintf("%d.%07d", stroops/draw.StroopsPerUnit, stroops%draw.StroopsPerUnit)
}

func (w *world) body(r draw.Rules) map[string]any {
	senders := []string{}
	for _, payer := range r.Senders {
		senders = append(senders, w.payers[payer].Address())
	}
	memo := map[string]any{"kind": r.MemoIs}
	if r.MemoIs == "equals" {
		memo["type"], memo["value"] = r.Memo.Type, r.Memo.Value
	}
	amount := map[string]any{"kind": r.Amount}
	switch r.Amount {
	case "exact", "min", "max":
		amount["amount"] = decimal(r.Low)
	case "range":
		amount["min"], amount["max"] = decimal(r.Low), decimal(r.High)
	}
	return map[string]any{
		"assets": []any{lumens}, "amountRule": amount, "memoRule": memo,
		"senderAllowlist": senders, "eventTypes": r.Types, "expiresAt": w.expiry(r),
	}
}
