package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
)

const (
	listPage    = 50
	longestPage = 250
	// overviewSpan is the time span of the plots.
	overviewSpan = time.Hour
	// overviewRows is how many endpoints the overview shows, the worst of them.
	overviewRows = 10
)

// overviewView is the state of an account at a glance.
type overviewView struct {
	Endpoints int
	More      bool   // there are more than were read
	Verdict   string // how many are down, failing or disabled
	Bad       bool   // of the verdict
	Rows      []endpointRow
	Oldest    *endpointRow // whose oldest pending event is the oldest of all
	Unread    bool         // the pending events of an enabled endpoint could not be read
	Live      string
	History   *troubleView // in place of what follows
	Attempts  ratesView
	Ledger    *ledgerView
	Parts     []partView // of the service
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
	// Without the ledgers the overview is as good: /readyz says what is wrong with them.
	if c, err := v.api.GetCoverage(v.r.Context()); err == nil && c.Cursor != nil {
		view.Ledger = &ledgerView{c.Cursor.Ledger, x.moment(c.Cursor.ClosedAt)}
	}
	// Likewise without this: a node that answers shows what it can.
	if ready, err := v.api.GetReadiness(v.r.Context()); err == nil {
		view.Parts = partsOf(ready)
	}
	if !x.isPortal() { // a link gives no access to the account
		if account, err := v.api.GetAccount(v.r.Context()); err == nil {
			view.Quotas = account.Quotas
		}
	}
	if view.Attempts, err = x.rates(v, ""); err != nil {
		trouble := x.trouble(v.r, err)
		view.History = &trouble
	}
	return page{"overview", "Overview", "overview", view}, nil
}

// judge says how many endpoints are down, and shows the worst of them.
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
		view.Verdict = "Whether endpoints are down is not known: the history cannot be read now."
	case view.Bad:
		view.Verdict = fmt.Sprintf("Of %d endpoints: %s.", len(endpoints), strings.Join(said, ", "))
	case len(endpoints) > 0:
		view.Verdict = "No endpoint is down."
	}
}

// partView says whether a part of the service works, and how far it is behind.
type partView struct {
	Name, Detail string
	Word         stateWord
}

// partsOf are the checks of readiness, as a page shows them.
func partsOf(ready client.Readiness) (parts []partView) {
	for _, check := range ready.Checks {
		part := partView{
			Name:   worded(partWords, check.Name),
			Detail: check.Detail,
			Word:   stateWord{"Works", "delivered"},
		}
		if check.Status != "ok" {
			part.Word = stateWord{"Does not work", "failed"}
		}
		parts = append(parts, part)
	}
	return parts
}

// ledgerView is the newest ledger that was read.
type ledgerView struct {
	Last   uint32
	Closed *moment
}

// ratesView are attempts: how many of the last hour, day and week delivered, and those of the last
// hour by the minute.
type ratesView struct {
	Plot        plot
	All         int64 // of the last hour
	Rates       []rateView
	Median, P99 string // how long those of the last hour took
}

// rates reads how attempts went, of one endpoint or of all.
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
	view.Median, view.P99 = tookWords(r.MedianMs), tookWords(r.P99Ms)
	return view, nil
}

// tookWords is a duration, in milliseconds or in seconds.
func tookWords(millis *int64) string {
	switch {
	case millis == nil:
		return "–"
	case *millis < 10_000:
		return fmt.Sprintf("%d ms", *millis)
	}
	return fmt.Sprintf("%.1f s", float64(*millis)/1000)
}

// countWords is a number, or says that it is a lower bound.
func countWords(n int, whole bool) string {
	if whole {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d or more", n)
}
