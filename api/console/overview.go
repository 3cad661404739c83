package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
)

const (
	listPage     = 50
	longestPage  = 250
	overviewSpan = time.Hour
	overviewRows = 10
)

type overviewView struct {
	Endpoints int
	More      bool   // there are more endpoints than were read
	Verdict   string // how many are down, failing or disabled
	Bad       bool   // the verdict is bad
	Rows      []endpointRow
	Oldest    *endpointRow // the endpoint with the oldest pending event
	Unread    bool         // an enabled endpoint's pending events could not be read
	Live      string
	History   *errorView
	Attempts  ratesView
	Ledger    *ledgerView
	Parts     []partView // the parts of the service
	Quotas    []client.Quota
}

func (x *Console) overview(v *visit) (page, error) {
	endpoints, err := v.worstEndpoints(longestPage)
	if err != nil {
		return page{}, err
	}
	view := overviewView{
		Endpoints: len(endpoints.Data),
		More:      endpoints.NextCursor != nil,
		Live:      v.live("/live"),
	}
	x.judge(&view, endpoints.Data)
	// The overview works without ledgers: /readyz reports their problems.
	if c, err := v.api.GetCoverage(v.r.Context()); err == nil && c.Cursor != nil {
		view.Ledger = &ledgerView{c.Cursor.Ledger, x.moment(c.Cursor.ClosedAt)}
	}
	// The overview also works without this.
	if ready, err := v.api.GetReadiness(v.r.Context()); err == nil {
		view.Parts = partsOf(ready)
	}
	if !x.isPortal() { // a link gives no access to the account
		if account, err := v.api.GetAccount(v.r.Context()); err == nil {
			view.Quotas = account.Quotas
		}
	}
	if view.Attempts, err = x.rates(v, ""); err != nil {
		failure := x.describeError(v.r, err)
		view.History = &failure
	}
	return page{"overview", "Overview", "overview", view}, nil
}

func (x *Console) judge(view *overviewView, endpoints []client.Endpoint) {
	states := make(map[string]int)
	for i, e := range endpoints {
		row := x.endpointRow(e)
		if states[row.Word.Word]++; i < overviewRows {
			view.Rows = append(view.Rows, row)
		}
		if e.Status != "active" {
			continue
		}
		view.Unread = view.Unread || !row.PendingKnown
		if at := row.OldestPending; at != nil &&
			(view.Oldest == nil || at.ISO < view.Oldest.OldestPending.ISO) {
			view.Oldest = &row
		}
	}
	var said []string
	for _, word := range []string{"Down", "Failing", "Disabled"} {
		if n := states[word]; n > 0 {
			said = append(said, fmt.Sprint(n, " ", strings.ToLower(word)))
		}
	}
	view.Bad = len(said) > 0 || states["Unknown"] > 0
	switch {
	case states["Unknown"] > 0:
		view.Verdict = "The state of the endpoints is unknown: the history is unavailable."
	case view.Bad:
		view.Verdict = fmt.Sprintf("Of %d endpoints: %s.", len(endpoints), strings.Join(said, ", "))
	case len(endpoints) > 0:
		view.Verdict = "No endpoint is down."
	}
}

type partView struct {
	Name, Detail string
	Word         stateWord
}

func partsOf(ready client.Readiness) (parts []partView) {
	for _, check := range ready.Checks {
		part := partView{
			Name:   worded(partWords, check.Name),
			Detail: check.Detail,
			Word:   stateWord{"OK", "delivered"},
		}
		if check.Status != "ok" {
			part.Word = stateWord{"Failing", "failed"}
		}
		parts = append(parts, part)
	}
	return parts
}

type ledgerView struct {
	Last   uint32
	Closed *moment
}

type ratesView struct {
	Plot        plot
	All         int64
	Rates       []rateView
	Median, P99 string // durations in the last hour
}

func (x *Console) rates(v *visit, endpointID string) (view ratesView, err error) {
	r, err := v.api.GetRates(v.r.Context(), endpointID, int(overviewSpan/time.Minute))
	if err != nil {
		return view, err
	}
	view.Plot = newPlot(r.From, overviewSpan, "Attempts", attemptSeries)
	for _, m := range r.Minutes {
		view.Plot.add(m.Minute, "delivered", int(m.Delivered))
		view.Plot.add(m.Minute, "failed", int(m.Refused))
		view.Plot.add(m.Minute, "pending", int(m.Unanswered))
	}
	view.Plot.draw()
	view.All, view.Rates = r.Delivered+r.Refused+r.Unanswered, ratesOf(r.Hour, r.Day, r.Week)
	view.Median, view.P99 = durationWords(r.MedianMs), durationWords(r.P99Ms)
	return view, nil
}

func durationWords(millis *int64) string {
	switch {
	case millis == nil:
		return "–"
	case *millis < 10_000:
		return fmt.Sprintf("%d ms", *millis)
	}
	return fmt.Sprintf("%.1f s", float64(*millis)/1000)
}

func countWords(n int, whole bool) string {
	if whole {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d or more", n)
}
