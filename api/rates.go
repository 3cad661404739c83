package api

import (
	"context"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// Limits of the period of rates, in minutes.
const (
	ratesDefault = 60
	ratesMost    = 1440
)

// getRates counts the attempts of the last minutes, including the current one.
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

func viewRates(rates readmodel.Rates, fromMillis, toMillis int64) client.Rates {
	v := client.Rates{
		From:       at(fromMillis),
		To:         at(toMillis),
		Delivered:  signed(rates.Delivered),
		Refused:    signed(rates.Refused),
		Unanswered: signed(rates.Unmet),
		Minutes:    make([]client.RatesMinute, len(rates.Minutes)),
	}
	if len(rates.Minutes) > 0 {
		v.MedianMs, v.P99Ms = pointer(int64(rates.MedianMillis)), pointer(int64(rates.P99Millis))
	}
	for i, m := range rates.Minutes {
		v.Minutes[i] = client.RatesMinute{
			Minute:     at(m.AtMillis),
			Delivered:  signed(m.Delivered),
			Refused:    signed(m.Refused),
			Unanswered: signed(m.Unmet),
		}
	}
	return v
}
