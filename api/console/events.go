package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
)

type eventRow struct {
	client.Event
	Kind    string
	Word    stateWord
	Created *moment
	Next    *moment
	Paid    client.PaymentData
	Amount  string // with the asset; empty if the event has no payment
	Last    string // result of the last attempt
}

func (x *Console) eventRow(e client.Event) eventRow {
	row := eventRow{
		Event:   e,
		Kind:    worded(typeWords, e.Type),
		Word:    wordOf(e.Delivery),
		Created: x.moment(&e.CreatedAt),
		Next:    x.moment(e.Delivery.NextAttemptAt),
		Last:    lastWords(e.Delivery),
		Paid:    e.PaymentData(),
	}
	// If the data has an unknown format, the page only shows the raw body.
	if row.Paid.Payment.ID != "" {
		row.Amount = row.Paid.Payment.Amount + " " + row.Paid.Payment.Asset.Code
	}
	return row
}

func lastWords(d client.Delivery) string {
	switch {
	case d.LastError != nil:
		return domain.AttemptError(*d.LastError).Meaning()
	case d.LastStatusCode != nil:
		return fmt.Sprint("HTTP ", *d.LastStatusCode)
	}
	return ""
}

func (x *Console) listEvents(v *visit) (page, error) {
	view := listView[eventRow]{form: v.filters()}
	var filter client.EventFilter
	if view.read(&filter); view.Wrong() {
		return v.unfiltered(page{"events", "Events", "events", &view})
	}
	found, err := v.api.ListEvents(v.r.Context(), filter,
		client.Page{Limit: listPage, Cursor: view.Value("cursor")})
	if err == nil && !view.Values.Has("cursor") {
		view.Live = x.at + "/events/live?" + v.following(view.form, filter).Encode()
	}
	return showList(v, &view, "Events", pointersOf(filter), found, err, x.eventRow)
}

func (x *Console) recent(v *visit, f client.EventFilter, n int) (rows []eventRow, err error) {
	found, err := v.api.ListEvents(v.r.Context(), f, client.Page{Limit: n})
	for _, e := range found.Data {
		rows = append(rows, x.eventRow(e))
	}
	return rows, err
}

type eventView struct {
	eventRow
	Closed   *moment
	Asset    string
	Reasons  []string
	Runs     []runView
	Body     string // byte for byte as sent
	URL      string // the endpoint's URL; empty if the endpoint was deleted
	Signed   *client.DeliveryHeaders
	Check    *signatureView
	Coming   []comingView // attempts still to come
	Headers  []string     // names of the endpoint's custom headers
	Curl     string
	CanAgain bool
	CanNow   bool   // the delivery is waiting for another attempt
	Live     string // URL of the stream of changes
}

type runView struct {
	Number   int
	Attempts []attemptView
}

type attemptView struct {
	client.Attempt
	Sent  *moment
	Word  stateWord
	Why   string // why there is no complete response
	Moved bool   // sent to an endpoint other than the current one
}

func (x *Console) showEvent(v *visit) (page, error) {
	e, err := v.api.GetEvent(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return page{}, err
	}
	body, err := envelope(v.backend.last)
	if err != nil {
		return page{}, fmt.Errorf("reading the body of the event %s: %w", e.ID, err)
	}
	view := eventView{
		eventRow: x.eventRow(e), Body: string(body), Runs: x.runs(e), Coming: x.coming(e),
	}
	view.Live = x.at + "/events/" + url.PathEscape(e.ID) + "/live?shown=" + v.shown()
	if view.Amount != "" {
		view.Closed = x.moment(&view.Paid.Payment.LedgerClosedAt)
		view.Asset = assetWords(view.Paid.Payment.Asset)
	}
	view.Reasons = client.ReasonDetails(view.Paid.Verification.Reasons)
	view.CanAgain = e.Delivery.State == "DELIVERED" || e.Delivery.State == "FAILED" ||
		e.Delivery.State == "CANCELLED"
	view.CanNow = e.Delivery.State == "WAITING" && !e.Delivery.Held
	if err := x.addReceiver(v, &view); err != nil {
		return page{}, err
	}
	return page{"event", "Event", "events", view}, nil
}

// envelope extracts an event's body, exactly as receivers get it, from an API response. The API
// appends its own members and leaves the bytes before them unchanged.
func envelope(answer []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(answer))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		end := d.InputOffset()
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		if name == "delivery" {
			return append(bytes.Clone(answer[:end]), '}'), nil
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("the answer has no delivery")
}

func (x *Console) runs(e client.Event) (runs []runView) {
	for _, a := range e.Attempts {
		if n := len(runs); n == 0 || runs[n-1].Number != a.Run {
			runs = append(runs, runView{Number: a.Run})
		}
		one := attemptView{
			Attempt: a,
			Sent:    x.moment(&a.SentAt),
			Word:    stateWord{"No response", "failed"},
			Moved:   a.EndpointID != e.Delivery.EndpointID,
		}
		if a.StatusCode != nil {
			one.Word = stateWord{fmt.Sprintf("HTTP %d", *a.StatusCode), "failed"}
			if *a.StatusCode/100 == 2 && (a.Error == nil || *a.Error == "BODY_TOO_LARGE") {
				one.Word.Class = "delivered"
			}
		}
		if a.Error != nil {
			one.Why = domain.AttemptError(*a.Error).Meaning()
		}
		last := &runs[len(runs)-1]
		last.Attempts = append(last.Attempts, one)
	}
	return runs
}

type comingView struct {
	Number int // across all runs
	At     *moment
	After  string // approximate delay after the previous attempt; empty for the next one
}

// coming returns the remaining attempts of a run: the next one, and those that follow if it fails.
// Their delays vary by a few percent, so that deliveries that failed together are not retried
// together.
func (x *Console) coming(e client.Event) (coming []comingView) {
	made, last := 0, 0 // made: attempts of this run; last: number of the newest attempt
	if n := len(e.Attempts); n > 0 {
		last = e.Attempts[n-1].Number
	}
	switch e.Delivery.State {
	case "QUEUED":
	case "WAITING":
		for _, a := range e.Attempts {
			if a.Run == e.Attempts[len(e.Attempts)-1].Run {
				made++
			}
		}
	default:
		return nil
	}
	for n := made; n < x.Schedule.Attempts(); n++ {
		one := comingView{Number: last + n - made + 1}
		if n == made {
			one.At = x.moment(e.Delivery.NextAttemptAt)
		} else {
			one.After = span(time.Duration(x.Schedule.WaitsMillis[n-1]) * time.Millisecond)
		}
		coming = append(coming, one)
	}
	return coming
}

// addReceiver adds the endpoint and the delivery headers, which the API signs for the time when the
// event was created. If the key may not pull events, the page shows only the body.
func (x *Console) addReceiver(v *visit, view *eventView) error {
	e, err := v.api.GetEndpoint(v.r.Context(), view.Delivery.EndpointID)
	if isCode(err, "NOT_FOUND") {
		return nil
	}
	if err != nil {
		return err
	}
	view.URL = e.URL
	for name := range e.Headers {
		view.Headers = append(view.Headers, name)
	}
	if n := view.Delivery.Sequence; n != nil && *n > 0 {
		pulled, err := v.api.PullEvents(v.r.Context(), e.ID, client.Pull{After: *n - 1, Limit: 1})
		if err == nil && len(pulled.Data) == 1 && pulled.Data[0].Headers.ID == view.ID {
			view.Signed = &pulled.Data[0].Headers
		}
	}
	view.Check = x.viewSignature(view.Signed, view.Body, e.ID)
	view.Curl = curl(*view)
	return nil
}

func curl(v eventView) string {
	lines := []string{"curl " + quoted(v.URL), "-H 'Content-Type: application/json'"}
	if s := v.Signed; s != nil {
		for _, h := range [][2]string{
			{"Webhook-Id", s.ID}, {"Webhook-Timestamp", s.Timestamp},
			{"Webhook-Signature", s.Signature}, {"Webhook-Sequence", s.Sequence},
		} {
			lines = append(lines, "-H "+quoted(h[0]+": "+h[1]))
		}
	}
	lines = append(lines, "--data-raw "+quoted(v.Body))
	return strings.Join(lines, " \\\n  ")
}

// quoted returns s as a single word in a POSIX shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (x *Console) resendEvent(v *visit) (string, error) {
	id := v.r.PathValue("id")
	_, err := v.api.ResendEvent(v.r.Context(), id, v.once())
	return x.at + "/events/" + url.PathEscape(id) + "?done=resent", err
}

// downloadReceipt answers with the receipt of an event's attempts, byte for byte from the API, as a
// file; or with a page that says why there is no receipt.
func (x *Console) downloadReceipt(v *visit) {
	receipt, err := v.api.GetReceipt(v.r.Context(), v.r.PathValue("id"), client.ReceiptQuery{})
	if err != nil {
		v.answer(page{}, err)
		return
	}
	closeSlowReader(v.w, answerMax)
	v.w.Header().Set("Content-Type", "application/json")
	v.w.Header().Set("Content-Disposition", `attachment; filename="receipt-`+receipt.EventID+`.json"`)
	// #nosec G705 -- JSON as a file to keep, with nosniff: no browser shows it as a page
	_, _ = v.w.Write(v.backend.last) // the browser may be gone: the error concerns nobody
}

type transactionView struct {
	client.Explanation
	Closed *moment
}

func (x *Console) showTransaction(v *visit) (page, error) {
	found, err := v.api.ExplainTransaction(v.r.Context(), v.r.PathValue("hash"))
	return page{
		"transaction", "Transaction", "events", &transactionView{found, x.moment(found.LedgerClosedAt)},
	}, err
}
