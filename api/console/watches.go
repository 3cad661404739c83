package console

import (
	"fmt"

	"github.com/lumenhook/lumenhook/api/client"
)

// watchRow is a watch in a list, with its rules in words.
type watchRow struct {
	client.Watch
	Name    string
	Word    stateWord
	Rules   []string
	Created *moment
	Expires *moment
}

func (x *Console) watchRow(w client.Watch) watchRow {
	row := watchRow{
		Watch:   w,
		Name:    w.Label,
		Word:    stateWord{"Active", "delivered"},
		Rules:   rulesInWords(w),
		Created: x.moment(&w.CreatedAt),
		Expires: x.moment(w.ExpiresAt),
	}
	if row.Name == "" {
		row.Name = short(w.WalletAddress)
	}
	switch w.Status {
	case "endpoint_deleted":
		row.Word = stateWord{"No endpoint", "failed"}
	case "expired":
		row.Word = stateWord{"Expired", "cancelled"}
	case "fulfilled":
		row.Word = stateWord{"Fulfilled", "delivered"}
	}
	return row
}

func (x *Console) listWatches(v *visit) (page, error) {
	q := v.r.URL.Query()
	f := client.WatchFilter{
		EndpointID:    q.Get("endpointId"),
		WalletAddress: q.Get("walletAddress"),
	}
	found, err := v.api.ListWatches(v.r.Context(), f,
		client.Page{Limit: listPage, Cursor: q.Get("cursor")})
	if err != nil {
		return page{}, err
	}
	view := listView[watchRow]{
		Filter: f,
		First:  !q.Has("cursor"),
		Next:   v.nextPage(found.NextCursor),
	}
	for _, w := range found.Data {
		view.Rows = append(view.Rows, x.watchRow(w))
	}
	return page{"watches", "Watches", "watches", view}, nil
}

// watchView is one watch.
type watchView struct {
	watchRow
	Rejections bool // are told of
	Backfill   *backfillView
	Recent     []eventRow
	History    *troubleView // in place of the events
}

// backfillView is how far a backfill is.
type backfillView struct {
	client.Backfill
	Percent int
	Words   string
}

func viewBackfill(b *client.Backfill) *backfillView {
	if b == nil {
		return nil
	}
	v := backfillView{Backfill: *b}
	switch {
	case b.Problem != nil:
		v.Words = "It ended before its last ledger: " + *b.Problem
	case b.Done:
		v.Percent, v.Words = 100, "Done."
	case b.To == nil || *b.To <= b.From:
		v.Words = "It has not begun."
	default:
		read, all := uint64(max(b.Next, b.From)-b.From), uint64(*b.To-b.From)+1
		v.Percent = int(min(100, 100*read/all)) // #nosec G115 -- at most 100
		v.Words = fmt.Sprintf("%d of %d ledgers were read.", read, all)
	}
	return &v
}

func (x *Console) showWatch(v *visit) (page, error) {
	w, err := v.api.GetWatch(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return page{}, err
	}
	view := watchView{watchRow: x.watchRow(w), Backfill: viewBackfill(w.Backfill)}
	for _, t := range w.EventTypes {
		view.Rejections = view.Rejections || t == "payment.rejected"
	}
	recent, err := v.api.ListEvents(v.r.Context(), client.EventFilter{WatchID: w.ID},
		client.Page{Limit: 10})
	if err != nil {
		trouble := x.trouble(v.r, err)
		view.History = &trouble
	}
	for _, e := range recent.Data {
		view.Recent = append(view.Recent, x.eventRow(e))
	}
	return page{"watch", "Watch", "watches", view}, nil
}
