package console

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lumenhook/lumenhook/api/client"
)

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
	view := listView[watchRow]{form: v.filters()}
	var filter client.WatchFilter
	view.read(&filter)
	found, err := v.api.ListWatches(v.r.Context(), filter,
		client.Page{Limit: listPage, Cursor: view.Value("cursor")})
	return showList(v, &view, "Watches", pointersOf(filter), found, err, x.watchRow)
}

type watchView struct {
	watchRow
	Rejections bool // the watch reports rejected payments
	Backfill   *backfillView
	Looking    form // the backfill form
	Recent     []eventRow
	Rejected   []rejectedRow
	History    *errorView // shown instead of the events
	Check      checkView
	Warnings   []string // from the change that led here
}

type rejectedRow struct {
	eventRow
	Reasons []string
}

// checkView is the rule tester: a hypothetical payment, and how the watch would treat it.
type checkView struct {
	form
	Asked    bool
	Word     stateWord
	Says     string
	Reasons  []string
	Answered bool
}

var checkFields = [][2]string{
	{"/amount", "amount"}, {"/asset", "asset"}, {"/memoType", "memo"}, {"/memo", "memo"},
	{"/sender", "sender"},
}

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
		v.Words = "Some ledgers were not matched: " + *b.Problem + "; " + b.Counts()
	case b.Done:
		v.Percent, v.Words = 100, "done; "+b.Counts()
	case b.To == nil || *b.To <= b.From:
		v.Words = "Not started yet."
	default:
		read, all := uint64(max(b.Next, b.From)-b.From), uint64(*b.To-b.From)+1
		v.Percent = int(min(100, 100*read/all)) // #nosec G115 -- at most 100
		v.Words = fmt.Sprintf("%d of %d ledgers read.", read, all)
	}
	return &v
}

func (v *visit) check(watchID string) (view checkView, err error) {
	q := v.r.URL.Query()
	view.form = form{Values: q}
	if view.Asked = q.Has("amount"); !view.Asked {
		return view, nil
	}
	p := client.ImaginedPayment{
		Amount: view.text("amount"),
		Asset:  view.text("asset"),
		Memo:   q.Get("memo"),
		Sender: view.text("sender"),
	}
	if p.Memo != "" {
		p.MemoType = view.text("memoType")
	}
	made, err := v.api.CheckWatch(v.r.Context(), watchID, p)
	if err != nil {
		return view, view.refused(err, checkFields)
	}
	view.Answered = true
	switch {
	case made.EventType == nil:
		view.Word = stateWord{"Not reported", "cancelled"}
		view.Says = "This payment wouldn't be reported. " +
			strings.Join(client.ReasonDetails(made.NotReported), " ")
	case made.Verification.Outcome == "VERIFIED":
		view.Word = stateWord{"Match", "delivered"}
		view.Says = "The payment matches all rules. The endpoint would receive it."
	default:
		view.Word = stateWord{"Rejected", "failed"}
		view.Says = "The endpoint would receive it as a rejected payment."
	}
	view.Reasons = client.ReasonDetails(made.Verification.Reasons)
	return view, nil
}

func (x *Console) showWatch(v *visit) (page, error) {
	w, err := v.api.GetWatch(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return page{}, err
	}
	return x.watchPage(v, w, form{})
}

// watchPage returns the page of a watch. looking is a backfill form with errors, if any.
func (x *Console) watchPage(v *visit, w client.Watch, looking form) (p page, err error) {
	view := watchView{
		watchRow: x.watchRow(w), Backfill: viewBackfill(w.Backfill), Looking: looking,
		Rejections: slices.Contains(w.EventTypes, "payment.rejected"),
	}
	for _, warning := range v.r.URL.Query()["warning"] {
		if meaning := warningWords(warning); meaning != "" {
			view.Warnings = append(view.Warnings, meaning)
		}
	}
	if view.Check, err = v.check(w.ID); err != nil {
		return page{}, err
	}
	if err := x.addRecent(v, &view); err != nil {
		failure := x.describeError(v.r, err)
		view.History = &failure
	}
	return page{"watch", "Watch", "watches", view}, nil
}

func (x *Console) addRecent(v *visit, view *watchView) (err error) {
	view.Recent, err = x.recent(v, client.EventFilter{WatchID: view.ID}, 10)
	if err != nil || !view.Rejections {
		return err
	}
	rejected, err := x.recent(v, client.EventFilter{WatchID: view.ID, Type: "payment.rejected"}, 5)
	for _, row := range rejected {
		view.Rejected = append(view.Rejected,
			rejectedRow{row, client.ReasonDetails(row.Paid.Verification.Reasons)})
	}
	return err
}

var backfillFields = [][2]string{{"/from", "from"}, {"/to", "to"}}

func (x *Console) backfillWatch(v *visit) (string, *page, error) {
	id, asked := v.r.PathValue("id"), v.posted()
	var body client.BackfillCreate
	body.From = asked.ledger("from")
	if to := asked.ledger("to"); asked.text("to") != "" {
		body.To = &to
	}
	if asked.Wrong() {
		return x.backfillAgain(v, id, asked)
	}
	_, err := v.api.BackfillWatch(v.r.Context(), id, body, v.once())
	if err == nil {
		return v.console.at + "/watches/" + url.PathEscape(id) + "?done=backfill", nil, nil
	}
	if err := asked.refused(err, backfillFields); err != nil {
		return "", nil, err
	}
	return x.backfillAgain(v, id, asked)
}

func (x *Console) backfillAgain(v *visit, id string, asked form) (string, *page, error) {
	w, err := v.api.GetWatch(v.r.Context(), id)
	if err != nil {
		return "", nil, err
	}
	p, err := x.watchPage(v, w, asked)
	return "", v.again(p), err
}

// ledger parses a ledger sequence. It returns 0 if the field is empty.
func (f *form) ledger(name string) uint32 {
	text := f.text(name)
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil && text != "" {
		f.fault(name, "must be the sequence of a ledger, such as 63092000")
	}
	return uint32(n) // #nosec G115 -- of 31 bits
}

func (f *form) fault(name, detail string) {
	if f.Faults == nil {
		f.Faults = make(map[string][]string)
	}
	f.Faults[name] = append(f.Faults[name], detail)
}
