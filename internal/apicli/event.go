package apicli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

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

// ShowEvent prints an event and its attempts.
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
			"an earlier time: the history is being built anew (HISTORY_BEHIND). Ask again later")
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

// showData prints what an event tells of, a member a line. Its texts are escaped, so that none is
// a line of its own.
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

// ShowEvents prints a list of them.
func ShowEvents(w io.Writer, l client.List[client.Event]) {
	cli.Row(w, "ID", "STATE", "ATTEMPTS", "LAST", "AMOUNT", "MEMO", "WALLET", "CREATED",
		"NEXT ATTEMPT", "SEQUENCE", "TYPE", "ENDPOINT")
	for _, e := range l.Data {
		d, about := e.Delivery, readPaid(e.Data)
		cli.Row(w, e.ID, stateText(d), d.Attempts, lastText(d), about.amount(),
			cut(about.Payment.Memo), cut(&about.Watch.WalletAddress), e.CreatedAt, d.NextAttemptAt,
			d.Sequence, e.Type, d.EndpointID)
	}
	cli.More(w, l.NextCursor)
}

// lastText is what the last attempt of a delivery in a list met.
func lastText(d client.Delivery) any {
	if d.LastError == nil && d.LastStatusCode != nil {
		return fmt.Sprint("HTTP ", *d.LastStatusCode)
	}
	return d.LastError
}

// paidData is what a list shows of a payment; empty for events of none.
type paidData struct {
	Payment struct {
		Memo   *string      `json:"memo"`
		Asset  client.Asset `json:"asset"`
		Amount string       `json:"amount"`
	} `json:"payment"`
	Watch struct {
		WalletAddress string `json:"walletAddress"`
	} `json:"watch"`
}

func readPaid(data json.RawMessage) (p paidData) {
	_ = json.Unmarshal(data, &p) // data of another form shows nothing
	return p
}

// amount is empty where nothing was paid.
func (p paidData) amount() string {
	return strings.TrimSpace(p.Payment.Amount + " " + p.Payment.Asset.Code)
}

// cut leaves of a long memo or address as much as a column has; "events get" has all of it.
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

// States are those of a delivery.
var States = []string{"QUEUED", "WAITING", "DELIVERED", "FAILED", "CANCELLED"}

// types are those of events.
var types = []string{
	string(domain.PaymentReceived), string(domain.PaymentRejected), string(domain.TestPing),
	string(domain.EndpointFailingEvent), string(domain.EndpointDisabledEvent),
}

// CheckTypes refuses what is no type of events, as the value of a flag.
func CheckTypes(flag string, given []string) error {
	for _, one := range given {
		if !slices.Contains(types, one) {
			return cli.Usage(fmt.Errorf("--%s %q: must be one of %s", flag, one, strings.Join(types, ", ")))
		}
	}
	return nil
}

// EventFilter are the flags of a list of events.
type EventFilter struct {
	client.EventFilter
	since, until string
}

// Register adds the flags.
func (e *EventFilter) Register(f *pflag.FlagSet) {
	e.registerAll(f)
	f.StringVar(&e.State, "state", "", "QUEUED, WAITING, DELIVERED, FAILED or CANCELLED")
	f.StringVar(&e.since, "since", "", "those created then or later: a time, or how long ago")
	f.StringVar(&e.until, "until", "", "those created before: a time, or how long ago")
}

// RegisterTail adds the flags of a tail of events, which has no end.
func (e *EventFilter) RegisterTail(f *pflag.FlagSet) {
	e.registerAll(f)
	f.StringVar(&e.State, "state", "", "only lines after which an event is QUEUED, WAITING, "+
		"DELIVERED, FAILED or CANCELLED")
	f.StringVar(&e.since, "since", "", "begin with what has happened since: a time, or how long ago; "+
		"empty: now")
}

func (e *EventFilter) registerAll(f *pflag.FlagSet) {
	f.StringVar(&e.EndpointID, "endpoint", "", "only those of this endpoint")
	e.registerPaid(f)
}

// registerPaid adds the flags of what was paid, to whom.
func (e *EventFilter) registerPaid(f *pflag.FlagSet) {
	f.StringVar(&e.WatchID, "watch", "", "only those of this watch")
	f.StringVar(&e.WalletAddress, "wallet", "", "only payments to this wallet")
	f.StringVar(&e.Type, "type", "", "payment.received, payment.rejected, test.ping, "+
		"endpoint.failing or endpoint.disabled")
	f.StringVar(&e.PaymentID, "payment", "", "only those of this payment: data.payment.id")
	f.StringVar(&e.TxHash, "tx", "", "only those of this transaction: its hash, 64 hex digits")
	f.StringVar(&e.Sender, "sender", "", "only payments from this account or contract")
	f.StringVar(&e.Memo, "memo", "", "only payments with this memo, as events show it")
	f.StringVar(&e.Asset, "asset", "", "only payments in this asset: XLM or CODE:ISSUER")
	f.StringVar(&e.MinAmount, "min-amount", "", "only payments of this amount or more, such as 12.5")
	f.StringVar(&e.MaxAmount, "max-amount", "", "only payments of this amount or less")
}

// TailFilter returns the filter of a tail, which begins now unless --since says when.
func (e *EventFilter) TailFilter() (client.EventFilter, error) {
	var faults [3]error
	filter := e.EventFilter
	filter.State = strings.ToUpper(filter.State)
	filter.Since, faults[0] = cli.PastFlag("since", e.since)
	if filter.State != "" && !slices.Contains(States, filter.State) {
		faults[1] = cli.Usage(fmt.Errorf("--state: must be one of %s", strings.Join(States, ", ")))
	}
	if filter.Type != "" {
		faults[2] = CheckTypes("type", []string{filter.Type})
	}
	if filter.Since.IsZero() {
		filter.Since = time.Now()
	}
	return filter, errors.Join(faults[:]...)
}

// Filter returns the filter that the flags describe.
func (e *EventFilter) Filter() (client.EventFilter, error) {
	var err, untilErr error
	filter := e.EventFilter
	filter.State = strings.ToUpper(filter.State)
	filter.Since, err = cli.InstantFlag("since", e.since)
	filter.Until, untilErr = cli.InstantFlag("until", e.until)
	return filter, errors.Join(err, untilErr)
}
