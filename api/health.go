package api

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// Limits for reading health. An endpoint is shown without health rather than late.
const (
	// healthMax applies if the caller requested health: for a single endpoint, or a list sorted by
	// health.
	healthMax = 3 * time.Second
	// healthMaxListed applies to other lists. Shell completion waits at most a second for ids.
	healthMaxListed = 500 * time.Millisecond
)

// shownEndpoint is an endpoint with its health, which is null with a reason code while the history
// cannot tell.
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

// slowedDown explains why few of an endpoint's pending events are sent at a time, or returns "".
func slowedDown(h domain.EndpointHealth) string {
	if h.OldestPendingMillis == 0 || h.Hour.Failed*5 < h.Hour.All() || h.Hour.Failed == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d attempts in the last hour failed. Each timeout and each 5xx "+
		"response reduces the number of attempts in flight.", h.Hour.Failed, h.Hour.All())
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
		SlowedDown:      slowedDown(h),
	}
	for _, hour := range h.Hours {
		v.Sparkline = append(v.Sparkline, viewAttempts(hour))
	}
	return v
}

// health contains the health of endpoints by id, or the reason's code if it is unknown.
type health struct {
	by        map[string]domain.EndpointHealth
	why       string
	nowMillis int64
}

// healthOf reads the health of the account's endpoints. For more endpoints than fit on a page, it
// queries all endpoints of the account instead of sending ids.
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

func (a *API) showHealth(e domain.Endpoint, h health) shownEndpoint {
	shown := shownEndpoint{Endpoint: a.showEndpoint(e)}
	shown.HealthUnavailable = h.why
	if h.why == "" {
		shown.Health = viewHealth(h.by[e.ID], e.Status, h.nowMillis)
	}
	return shown
}

// rank orders endpoints by health, worst first: by state, then by the success rate of the last day.
// Without the history, disabled endpoints are still recognized.
func (h health) rank(e domain.Endpoint) int64 {
	const scale = 1_000_000
	of := h.by[e.ID]
	place := slices.Index(domain.HealthStates(), of.State(e.Status, h.nowMillis))
	return int64(place)*2*scale + int64(of.Day.Rate()*scale)
}

func (h health) place(e domain.Endpoint) readmodel.Position {
	return readmodel.Position{CreatedAtMillis: h.rank(e), ID: e.ID}
}

// worstFirst returns a page of the caller's endpoints, least healthy first. Positions contain
// ranks, so an endpoint whose rank changes between two pages may be on both or on neither.
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
