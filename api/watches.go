package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

func (a *API) createWatch(ctx context.Context, r *request) (reply, error) {
	id := domain.DeriveID(domain.WatchPrefix, r.commandID)
	watch, faults := decodeNewWatch(r.body)
	repeated := a.repeatsCreation(r, func() (bool, error) {
		_, made, err := a.Directory.Watch(id)
		return made, err
	})
	if !repeated || r.caller.endpointID != "" { // a link for one endpoint is checked even for a retry
		if err := a.checkEndpoint(ctx, r, watch.EndpointID, faults); err != nil {
			return reply{}, err
		}
	}
	if err := faults.Err(); err != nil {
		return reply{}, err
	}
	watch.ID, watch.AccountID = id, r.caller.accountID
	if err := a.withinQuota(r, repeated, watchCounts(watch), domain.Counts{}); err != nil {
		return reply{}, err
	}
	answer, made, warnings, err := a.submitForWatch(ctx, r, domain.CreateWatch{Watch: watch},
		func() []string {
			found := a.Wallets.Warnings(ctx, watch.WalletAddress, watch.Rules.Assets)
			return append(found, a.duplicateWarning(watch)...)
		})
	if err != nil {
		return reply{}, err
	}
	answer.status, answer.location = http.StatusCreated, "/v1/watches/"+made.ID
	status := watchActive
	if made.Expired(made.CreatedAtMillis) {
		status = watchExpired
	}
	view := viewWatch(*made, status)
	view.Warnings, view.WarningDetails = warnings, client.WarningDetails(warnings)
	answer.view = view
	return answer, nil
}

func (a *API) statusOf(w domain.Watch) (watchStatus, error) {
	e, found, err := a.Directory.Endpoint(w.EndpointID)
	if err != nil {
		return "", fmt.Errorf("looking up the endpoint of a watch: %w", err)
	}
	if !found || e.Deleted() {
		return watchEndpointDeleted, nil
	}
	return watchActive, nil
}

// presentStatus returns a watch's status for the status of its endpoint. Whether a payment is in
// time depends on its ledger's close time, but the status uses the clock.
func (a *API) presentStatus(w domain.Watch, endpoint watchStatus) watchStatus {
	switch {
	case w.Fulfilled.Is():
		return watchFulfilled
	case w.Expired(a.Now().UnixMilli()):
		return watchExpired
	}
	return endpoint
}

// showWatch returns the part of a watch that the caller may see, with its current status. In the
// engine's answer, the watch may have moved to another endpoint since it was found.
func (a *API) showWatch(r *request, w domain.Watch) (client.Watch, error) {
	if !r.caller.sees(w.EndpointID) {
		return client.Watch{}, noSuch("watch")
	}
	status, err := a.statusOf(w)
	return viewWatch(narrowedWatch(r, w), a.presentStatus(w, status)), err
}

func (a *API) getWatch(_ context.Context, r *request) (reply, error) {
	view, err := a.showWatch(r, r.watch)
	return reply{view: view, etag: decode.ETag(r.watch.Revision)}, err
}

func (a *API) listWatches(_ context.Context, r *request) (reply, error) {
	q := newListQuery(r, "endpointId", "walletAddress")
	f := readmodel.WatchFilter{
		AccountID:     r.caller.accountID,
		EndpointID:    endpointParameter(r, q),
		WalletAddress: addressParameter(q, "walletAddress", accountFault),
	}
	after, limit, err := a.page(r, q)
	if err != nil {
		return reply{}, err
	}
	page, next, err := a.Directory.Watches(f, after, limit)
	if err != nil {
		return reply{}, fmt.Errorf("listing watches: %w", err)
	}
	place := func(w domain.Watch) readmodel.Position {
		return readmodel.Position{CreatedAtMillis: w.CreatedAtMillis, ID: w.ID}
	}
	return list(a, r, q, page, next, place, func(w domain.Watch) (client.Watch, error) {
		return a.showWatch(r, w)
	})
}

func (a *API) updateWatch(ctx context.Context, r *request) (reply, error) {
	shown, err := a.showWatch(r, r.watch)
	if err != nil && r.missing == "" {
		return reply{}, err
	}
	patch, faults := decodeWatchPatch(r.body, r.watch, decode.Shown{
		Object:   encoded(shown),
		Changing: []string{"updatedAt", "backfill", "warnings", "warningDetails"},
		Repeated: a.mayRepeatChange(r),
	})
	unjudged, err := a.judgeNewEndpoint(ctx, r, patch.EndpointID, faults)
	if err != nil {
		return reply{}, err
	}
	if err := faults.Err(); err != nil {
		return reply{}, err
	}
	update := domain.UpdateWatch{
		WatchID:    r.subjectID,
		IfRevision: r.watchRevision(),
		Change:     patch.WatchChange,
	}
	then := watchCounts(r.watch.With(patch.WatchChange))
	if err := a.withinQuota(r, a.mayRepeatChange(r), then, watchCounts(r.watch)); err != nil {
		return reply{}, err
	}
	if patch.completed && update.IfRevision == 0 {
		update.IfRevision = r.watch.Revision // the revision that the rule was merged into
	}
	if r.missing != "" || unjudged {
		update.IfRevision = decode.NoRevision // must be a retry, or have no effect
	}
	assets := r.watch.Rules.Assets
	if patch.Assets != nil {
		assets = *patch.Assets
	}
	answer, watch, warnings, err := a.submitForWatch(ctx, r, update, func() []string {
		if r.missing != "" {
			return []string{} // there is no wallet to look up
		}
		found := a.Wallets.Warnings(ctx, r.watch.WalletAddress, assets)
		if patch.EndpointID == nil {
			return found
		}
		moved := r.watch
		moved.EndpointID = *patch.EndpointID
		return append(found, a.duplicateWarning(moved)...)
	})
	if err != nil {
		return reply{}, err
	}
	view, err := a.showWatch(r, *watch)
	view.Warnings, view.WarningDetails = warnings, client.WarningDetails(warnings)
	answer.view = view
	return answer, err
}

// duplicateWarning returns a warning if the account has another watch with the same wallet and
// endpoint. This is valid, but usually a mistake.
func (a *API) duplicateWarning(w domain.Watch) []string {
	page, _, err := a.Directory.Watches(readmodel.WatchFilter{
		AccountID: w.AccountID, WalletAddress: w.WalletAddress, EndpointID: w.EndpointID,
	}, nil, 2)
	for _, other := range page {
		if err == nil && other.ID != w.ID {
			return []string{"TWIN_WATCH:" + other.ID}
		}
	}
	return nil
}

// judgeNewEndpoint checks whether a watch may get another endpoint. For a retry, the first result
// counts: unjudged reports that the endpoint would be refused now.
func (a *API) judgeNewEndpoint(
	ctx context.Context, r *request, id *string, faults *problem.Faults,
) (unjudged bool, err error) {
	if id == nil || *id == r.watch.EndpointID {
		return false, nil
	}
	if !a.mayRepeatChange(r) {
		return false, a.checkEndpoint(ctx, r, *id, faults)
	}
	var now problem.Faults
	err = a.checkEndpoint(ctx, r, *id, &now)
	return now.Any(), err
}

func (a *API) deleteWatch(ctx context.Context, r *request) (reply, error) {
	return a.delete(ctx, r,
		domain.DeleteWatch{WatchID: r.subjectID, IfRevision: r.watchRevision()},
		a.Directory.AwaitWatchGone)
}
