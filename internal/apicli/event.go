package apicli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
)

func stateText(d client.Delivery) string {
	if d.Held {
		return d.State + " (held: the endpoint is disabled)"
	}
	return d.State
}

// ShowEvent prints an event with its attempts.
func ShowEvent(w io.Writer, e client.Event) {
	cli.Row(w, "id", e.ID)
	cli.Row(w, "type", e.Type)
	cli.Row(w, "created", e.CreatedAt)
	cli.Row(w, "endpoint", e.Delivery.EndpointID)
	cli.Row(w, "sequence", e.Delivery.Sequence)
	cli.Row(w, "state", stateText(e.Delivery))
	cli.Row(w, "next attempt", e.Delivery.NextAttemptAt)
	if e.HistoryBehind {
		cli.Row(w, "as of",
			"an earlier time: the history is being rebuilt (HISTORY_BEHIND). Try again later")
	}
	showData(w, e.Data)
	cli.Row(w, "ATTEMPT", "RUN", "ENDPOINT", "SENT", "TOOK", "STATUS", "ERROR", "DETAIL",
		"RESPONSE")
	for _, a := range e.Attempts {
		took := fmt.Sprintf("%d ms", a.DurationMs)
		cli.Row(w, a.Number, a.Run, a.EndpointID, a.SentAt, took,
			a.StatusCode, a.Error, a.ErrorDetail, a.ResponseBody)
	}
}

// showData prints an event's data, one member per line. Strings are escaped, so they cannot add
// lines.
func showData(w io.Writer, data json.RawMessage) {
	var text bytes.Buffer
	if err := json.Indent(&text, data, "", "  "); err != nil {
		text.Write(data)
	}
	cli.Row(w, "data")
	for line := range strings.SplitSeq(text.String(), "\n") {
		cli.Row(w, "  "+line)
	}
	_, _ = io.WriteString(w, "\n")
}

func eventRow(e client.Event) []any {
	d, paid := e.Delivery, e.PaymentData()
	return []any{e.ID, stateText(d), d.Attempts, lastText(d), amountText(paid),
		cut(paid.Payment.Memo), cut(&paid.Watch.WalletAddress), e.CreatedAt, d.NextAttemptAt,
		d.Sequence, e.Type, d.EndpointID}
}

// ReadEvents returns the newest events that match the filter, from at most so many pages. whole is
// false if there are more.
func ReadEvents(
	ctx context.Context, c *client.Client, filter client.EventFilter, pageSize, pages int,
) (events []client.Event, whole bool, err error) {
	page := client.Page{Limit: pageSize}
	for range pages {
		list, err := c.ListEvents(ctx, filter, page)
		if err != nil {
			return nil, false, err
		}
		events = append(events, list.Data...)
		if list.NextCursor == nil {
			return events, true, nil
		}
		page.Cursor = *list.NextCursor
	}
	return events, false, nil
}

func lastText(d client.Delivery) any {
	if d.LastError == nil && d.LastStatusCode != nil {
		return fmt.Sprint("HTTP ", *d.LastStatusCode)
	}
	return d.LastError
}

// amountText returns "" for events without a payment.
func amountText(d client.PaymentData) string {
	return strings.TrimSpace(d.Payment.Amount + " " + d.Payment.Asset.Code)
}

// cut shortens a memo or an address to the width of a column. "events get" shows all of it.
func cut(text *string) any {
	const most = 16
	if text == nil || utf8.RuneCountInString(*text) <= most {
		return text
	}
	return string([]rune(*text)[:most-1]) + "…"
}

// ShowResent prints an event that was queued again.
func ShowResent(w io.Writer, a client.Resent) {
	cli.Row(w, "id", a.ID)
	cli.Row(w, "state", stateText(a.Delivery))
	cli.Row(w, "endpoint", a.Delivery.EndpointID)
}

// EventTypes returns all types of events.
func EventTypes() []string {
	return []string{
		string(domain.PaymentReceived), string(domain.PaymentRejected), string(domain.TestPing),
		string(domain.EndpointFailingEvent), string(domain.EndpointDisabledEvent),
	}
}

// CheckTypes rejects unknown event types in a flag's value.
func CheckTypes(flag string, given []string) error {
	for _, one := range given {
		if !slices.Contains(EventTypes(), one) {
			return cli.Usage(fmt.Errorf("--%s %q: must be one of %s", flag, one,
				strings.Join(EventTypes(), ", ")))
		}
	}
	return nil
}

// ShowReplay prints how many deliveries a replay queued or would queue.
func ShowReplay(w io.Writer, a client.ReplayResult) {
	if !a.DryRun {
		cli.Row(w, "queued", a.Queued)
	}
	cli.Row(w, "matched", a.Matched)
	switch {
	case a.Truncated && a.DryRun:
		_, _ = io.WriteString(w, "\nNothing was queued. More deliveries match than one replay "+
			"can queue.\n")
	case a.Truncated:
		_, _ = io.WriteString(w, "\nMore deliveries matched than one replay can queue. Run the "+
			"replay again.\n")
	case a.DryRun:
		_, _ = io.WriteString(w, "\nNothing was queued. To queue the deliveries, omit --dry-run.\n")
	}
}

// ShowAnyResent prints how many events a resend of one or many events queued or would queue.
func ShowAnyResent(w io.Writer, answer any) {
	switch a := answer.(type) {
	case client.Resent:
		ShowResent(w, a)
	case client.ResendManyResult:
		showResentMany(w, a)
	}
}

func showResentMany(w io.Writer, a client.ResendManyResult) {
	if !a.DryRun {
		cli.Row(w, "queued", a.Queued)
	}
	cli.Row(w, "matched", a.Matched)
	for _, r := range a.Refused {
		cli.Row(w, "refused", r.EventID+" "+r.Code)
	}
	switch {
	case a.DryRun && a.Truncated:
		_, _ = io.WriteString(w, "\nNothing was queued. More events match than one resend can queue.\n")
	case a.DryRun:
		_, _ = io.WriteString(w, "\nNothing was queued. To queue the events, omit --dry-run.\n")
	case a.NextCursor != nil:
		_, _ = io.WriteString(w, "\nThere are more. To continue, use the same filters and --cursor "+
			*a.NextCursor+"\n")
	}
}

// ShowHistory prints facts, one line per changed field, with the fact's name in the journal and a
// description.
func ShowHistory(w io.Writer, l client.List[client.Fact]) {
	cli.Row(w, "AT", "VERSION", "FACT", "WHAT HAPPENED", "FIELD", "BEFORE", "AFTER")
	for _, f := range l.Data {
		at, version, name, words := any(f.At), any(f.Version), f.Fact, f.Words()
		if len(f.Changes) == 0 {
			cli.Row(w, at, version, name, words, client.NoChanges, "", "")
		}
		for _, c := range f.Changes {
			cli.Row(w, at, version, name, words, c.Field, valueText(c.Before), valueText(c.After))
			at, version, name, words = "", "", "", ""
		}
	}
	cli.More(w, l.NextCursor)
}

// valueText formats a JSON value for users: strings without quotes, null as an empty string.
func valueText(value json.RawMessage) string {
	var text *string
	if json.Unmarshal(value, &text) != nil {
		return string(value)
	}
	if text == nil {
		return ""
	}
	return *text
}
