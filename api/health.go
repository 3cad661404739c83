package api

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// Bounds of reading health: an endpoint is shown without it rather than late.
const (
	// healthMax applies if health is the caller's request: one endpoint, or the worst first.
	healthMax = 3 * time.Second
	// healthMaxListed applies to other lists. Shells wait for a second at most for the ids that they
	// complete.
	healthMaxListed = 500 * time.Millisecond
)

// shownEndpoint is an endpoint that is read, with how it does: null, with the code of the reason,
// while the history cannot tell.
type shownEndpoint struct {
	client.Endpoint
	Health *client.EndpointHealth `json:"health"`
}

func viewAttempts(c domain.AttemptCounts) client.AttemptCounts {
	v := client.AttemptCounts{Attempts: signed(c.All()), Delivered: signed(c.Delivered)}
	if v.Attempts > 0 { // rounded down: only a rate without failures is 1
		v.SuccessRate = pointer(math.Floor(c.Rate()*10_000) / 10_000)
	}
	return v
}

func viewHealth(
	h domain.EndpointHealth, status domain.EndpointStatus, nowMillis int64,
) *client.EndpointHealth {
	v := &client.EndpointHealth{
		State:           string(h.State(status, nowMillis)),
		LastSuccessAt:   instant(h.LastSuccessMillis),
		LastFailureAt:   instant(h.LastFailureMillis),
		OldestPendingAt: instant(h.OldestPendingMillis),
		PendingKnown:    !h.PendingUnknown,
		Hour:            viewAttempts(h.Hour),
		Day:             viewAttempts(h.Day),
		Week:            viewAttempts(h.Week),
	}
	for _, hour := range h.Hours {
		v.Sparkline = append(v.Sparkline, viewAttempts(hour))
	}
	return v
}

// health is the history's view of endpoints; why is the code of the reason if it knows nothing.
type health struct {
	by        map[string]domain.EndpointHealth
	why       string
	nowMillis int64
}

// healthOf reads how endpoints of the caller's account do. Of more than fit on a page it sends no
// ids: it asks for all endpoints of the account.
func (a *API) healthOf(
	ctx context.Context, r *request, endpoints []domain.Endpoint, longest time.Duration,
) (h health) {
	h.nowMillis = a.Now().UnixMilli()
	if len(endpoints) == 0 {
		return h
	}
	f := readmodel.HealthFilter{AccountID: r.caller.accountID, NowMillis: h.nowMillis}
	if len(endpoints) <= maxPage {
		for _, e := range endpoints {
			f.EndpointIDs = append(f.EndpointIDs, e.ID)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	var err error
	if h.by, err = a.History.Health(ctx, f); err != nil {
		p := problem.Of(historyError(err))
		h.why = p.Code
		if p.Code == problem.CodeInternal {
			a.Log.Error("the health of endpoints could not be read", "error", err)
		}
	}
	return h
}

// showHealth converts an endpoint to the form of the API, with its health.
func (a *API) showHealth(e domain.Endpoint, h health) shownEndpoint {
	shown := shownEndpoint{Endpoint: a.showEndpoint(e)}
	shown.HealthUnavailable = h.why
	if h.why == "" {
		shown.Health = viewHealth(h.by[e.ID], e.Status, h.nowMillis)
	}
	return shown
}

// rank orders endpoints by how they do, worst first: by state and then by the success of the last
// day. Without the history, a disabled endpoint is still known to be one.
func (h health) rank(e domain.Endpoint) int64 {
	const scale = 1_000_000
	of := h.by[e.ID]
	place := slices.Index(domain.HealthStates(), of.State(e.Status, h.nowMillis))
	return int64(place)*2*scale + int64(of.Day.Rate()*scale)
}

// place is an endpoint's position in a list by how they do.
func (h health) place(e domain.Endpoint) readmodel.Position {
	return readmodel.Position{CreatedAtMillis: h.rank(e), ID: e.ID}
}

// worstFirst returns a page of the endpoints that a caller may see, those first that do worst. A
// position holds a rank: an endpoint whose rank changes between two pages may be on both, or none.
func (a *API) worstFirst(
	ctx context.Context, r *request, f readmodel.EndpointFilter, after *readmodel.Position, limit int,
) (page []domain.Endpoint, next *readmodel.Position, h health, err error) {
	var all []domain.Endpoint
	for from, more := (*readmodel.Position)(nil), true; more; more = from != nil {
		var some []domain.Endpoint
		if some, from, err = a.endpointsOf(r, f, from, maxPage); err != nil {
			return nil, nil, h, err
		}
		all = append(all, some...)
	}
	h = a.healthOf(ctx, r, all, healthMax)
	order := func(e domain.Endpoint, at readmodel.Position) int {
		return cmp.Or(cmp.Compare(h.rank(e), at.CreatedAtMillis), cmp.Compare(e.ID, at.ID))
	}
	slices.SortFunc(all, func(x, y domain.Endpoint) int { return order(x, h.place(y)) })
	if after != nil {
		all = slices.DeleteFunc(all, func(e domain.Endpoint) bool { return order(e, *after) <= 0 })
	}
	if len(all) > limit {
		all = all[:limit]
		next = pointer(h.place(all[limit-1]))
	}
	return all, next, h, nil
}
