package console

import (
	"fmt"
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
)

const (
	listPage    = 50
	longestPage = 250
	// overviewSpan is what the overview looks back on, and overviewPages how many pages of events
	// it reads of that at most.
	overviewSpan  = time.Hour
	overviewPages = 4
)

// overviewView is the state of an account at a glance.
type overviewView struct {
	Endpoints  int
	More       bool // there are more than were read
	AtRisk     []endpointRow
	History    *troubleView // in place of what follows
	Plot       plot
	Attempts   ratesView
	Ledger     *ledgerView
	Parts      []partView // of the service
	Events     int
	Partial    *moment // events before it were not counted
	Rate       string  // of what has ended
	Pending    string
	Held       string // of these, which wait for their endpoints to be enabled; empty: none
	Failed     int
	Oldest     *eventRow // that waits for an attempt
	OldestFrom bool      // older ones may wait
}

func (x *Console) overview(v *visit) (page, error) {
	endpoints, err := v.api.ListEndpoints(v.r.Context(), client.EndpointFilter{},
		client.Page{Limit: longestPage})
	if err != nil {
		return page{}, err
	}
	view := overviewView{Endpoints: len(endpoints.Data), More: endpoints.NextCursor != nil}
	for _, e := range endpoints.Data {
		if e.Status != "active" || x.isFailing(e) {
			view.AtRisk = append(view.AtRisk, x.endpointRow(e))
		}
	}
	// Without the ledgers the overview is as good: /readyz says what is wrong with them.
	if c, err := v.api.GetCoverage(v.r.Context()); err == nil && c.Cursor != nil {
		view.Ledger = &ledgerView{c.Cursor.Ledger, x.moment(c.Cursor.ClosedAt)}
	}
	// Likewise without this: a node that answers shows what it can.
	if ready, err := v.api.GetReadiness(v.r.Context()); err == nil {
		view.Parts = partsOf(ready)
	}
	if err := x.lookBack(v, &view); err != nil {
		trouble := x.trouble(v.r, err)
		view.History = &trouble
	}
	return page{"overview", "Overview", "overview", view}, nil
}

// lookBack reads the events of the last hour, newest first, and what waits.
func (x *Console) lookBack(v *visit, view *overviewView) error {
	now := x.Now()
	since := now.Add(-overviewSpan)
	recent, whole, err := v.events(client.EventFilter{Since: since}, overviewPages)
	if err != nil {
		return err
	}
	counts := make(map[string]int)
	view.Plot = newPlot(since, overviewSpan, "Events", eventSeries)
	for _, e := range recent {
		counts[e.Delivery.State]++
		view.Plot.add(e.CreatedAt, plotClass(e.Delivery.State), 1)
	}
	view.Plot.draw()
	view.Events, view.Failed = len(recent), counts["FAILED"]
	if !whole && len(recent) > 0 {
		view.Partial = x.moment(&recent[len(recent)-1].CreatedAt)
	}
	if ended := counts["DELIVERED"] + counts["FAILED"]; ended > 0 {
		view.Rate = fmt.Sprintf("%.1f%%", 100*float64(counts["DELIVERED"])/float64(ended))
	}
	if view.Attempts, err = x.rates(v, ""); err != nil {
		return err
	}
	return x.lookAtPending(v, view)
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

// ratesView are the attempts of the last hour.
type ratesView struct {
	Plot        plot
	All         int64
	Rate        string // of them delivered
	Median, P99 string // how long they took
}

// rates reads how the attempts of the last hour went, of one endpoint or of all.
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
	if view.All = r.Delivered + r.Refused + r.Unanswered; view.All > 0 {
		view.Rate = fmt.Sprintf("%.1f%%", 100*float64(r.Delivered)/float64(view.All))
	}
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

// lookAtPending counts what waits, and finds the oldest of it that waits for nobody to enable its
// endpoint.
func (x *Console) lookAtPending(v *visit, view *overviewView) error {
	pending, held, all := 0, 0, true
	for _, state := range []string{"QUEUED", "WAITING"} {
		found, whole, err := v.events(client.EventFilter{State: state}, 1)
		if err != nil {
			return err
		}
		pending += len(found)
		all = all && whole
		goesOn := slices.DeleteFunc(found, func(e client.Event) bool { return e.Delivery.Held })
		held += len(found) - len(goesOn)
		if n := len(goesOn); n > 0 {
			last := goesOn[n-1]
			if view.Oldest == nil || last.CreatedAt.Before(view.Oldest.at) {
				row := x.eventRow(last)
				view.Oldest, view.OldestFrom = &row, !whole
			}
		}
	}
	view.Pending = countWords(pending, all)
	if held > 0 {
		view.Held = countWords(held, all)
	}
	return nil
}

// events reads pages of events; whole is false if there are more.
func (v *visit) events(
	f client.EventFilter, pages int,
) (found []client.Event, whole bool, err error) {
	p := client.Page{Limit: longestPage}
	for range pages {
		one, err := v.api.ListEvents(v.r.Context(), f, p)
		if err != nil {
			return nil, false, err
		}
		found = append(found, one.Data...)
		if one.NextCursor == nil {
			return found, true, nil
		}
		p.Cursor = *one.NextCursor
	}
	return found, false, nil
}

// countWords is a number, or says that it is a lower bound.
func countWords(n int, whole bool) string {
	if whole {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d or more", n)
}
