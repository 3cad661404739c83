package api

import (
	"context"
	"time"

	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// Bounds of what rates look back on, in minutes.
const (
	ratesDefault = 60
	ratesMost    = 1440
)

// ratesView are the attempts of a time, counted.
type ratesView struct {
	From       string            `json:"from"`
	To         string            `json:"to"`
	Delivered  uint64            `json:"delivered"`
	Refused    uint64            `json:"refused"`
	Unanswered uint64            `json:"unanswered"`
	MedianMs   *int64            `json:"medianMs"`
	P99Ms      *int64            `json:"p99Ms"`
	Minutes    []ratesMinuteView `json:"minutes"`
	// Whatever minutes are asked for.
	Hour attemptsView `json:"hour"`
	Day  attemptsView `json:"day"`
	Week attemptsView `json:"week"`
}

// ratesMinuteView is one minute of them.
type ratesMinuteView struct {
	Minute     string `json:"minute"`
	Delivered  uint64 `json:"delivered"`
	Refused    uint64 `json:"refused"`
	Unanswered uint64 `json:"unanswered"`
}

// getRates counts the attempts of the last minutes, the present one included.
func (a *API) getRates(ctx context.Context, r *request) (reply, error) {
	q := decode.NewQuery(r.http.URL, "endpointId", "minutes")
	endpointID := endpointParameter(r, q)
	minutes := q.Count("minutes", ratesDefault, ratesMost)
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	to := a.Now().Truncate(time.Minute).Add(time.Minute)
	from := to.Add(-time.Duration(minutes) * time.Minute)
	if err := a.awaitOwnWrites(ctx, r); err != nil {
		return reply{}, err
	}
	rates, err := a.History.Rates(ctx, readmodel.RatesFilter{
		AccountID:  r.caller.accountID,
		EndpointID: endpointID,
		FromMillis: from.UnixMilli(),
		ToMillis:   to.UnixMilli(),
	})
	if err := historyError(err); err != nil {
		return reply{}, err
	}
	all := readmodel.HealthFilter{
		AccountID: r.caller.accountID, NowMillis: a.Now().UnixMilli(), CountsOnly: true,
	}
	if endpointID != "" {
		all.EndpointIDs = []string{endpointID}
	}
	by, err := a.History.Health(ctx, all)
	if err := historyError(err); err != nil {
		return reply{}, err
	}
	var sum domain.EndpointHealth
	for _, h := range by {
		sum.Hour.Add(h.Hour)
		sum.Day.Add(h.Day)
		sum.Week.Add(h.Week)
	}
	view := viewRates(rates, from.UnixMilli(), to.UnixMilli())
	view.Hour, view.Day = viewAttempts(sum.Hour), viewAttempts(sum.Day)
	view.Week = viewAttempts(sum.Week)
	return reply{view: view}, nil
}

func viewRates(rates readmodel.Rates, fromMillis, toMillis int64) ratesView {
	v := ratesView{
		From:       domain.FormatMillis(fromMillis),
		To:         domain.FormatMillis(toMillis),
		Delivered:  rates.Delivered,
		Refused:    rates.Refused,
		Unanswered: rates.Unmet,
		Minutes:    make([]ratesMinuteView, len(rates.Minutes)),
	}
	if len(rates.Minutes) > 0 {
		v.MedianMs, v.P99Ms = pointer(int64(rates.MedianMillis)), pointer(int64(rates.P99Millis))
	}
	for i, m := range rates.Minutes {
		v.Minutes[i] = ratesMinuteView{
			domain.FormatMillis(m.AtMillis), m.Delivered, m.Refused, m.Unmet,
		}
	}
	return v
}
