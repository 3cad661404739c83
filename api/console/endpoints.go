package console

import (
	"net/url"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
)

// endpointRow is an endpoint in a list.
type endpointRow struct {
	client.Endpoint
	Word    stateWord
	Why     string // it is disabled
	Since   *moment
	Created *moment
	Most    int // failures in a row that disable it
	healthRow
}

func (x *Console) endpointRow(e client.Endpoint) endpointRow {
	row := endpointRow{
		Endpoint:  e,
		Word:      healthWord(e),
		Since:     x.moment(e.DisabledAt),
		Created:   x.moment(&e.CreatedAt),
		Most:      x.DisableAfter,
		healthRow: x.healthRow(e.Health),
	}
	if e.Status == "disabled" && e.DisabledReason != nil {
		row.Why = worded(disabledWords, *e.DisabledReason)
	}
	return row
}

// listView is a page of a list.
type listView[T any] struct {
	form  // its filters
	Rows  []T
	First bool   // it is the first page
	Next  string // address of the next page; empty: none
	Live  string // address of the stream of changes; empty: no stream
}

// nextPage is the address of the next page with the same filters.
func (v *visit) nextPage(cursor *string) string {
	if cursor == nil {
		return ""
	}
	q := v.r.URL.Query()
	q.Set("cursor", *cursor)
	return v.r.URL.Path + "?" + q.Encode()
}

// showList shows a page of a list, or its filters with what the API says of them.
func showList[T, R any](
	v *visit, view *listView[R], title string, filters [][2]string, found client.List[T], err error,
	row func(T) R,
) (page, error) {
	name := strings.ToLower(title)
	shown := page{name, title, name, view}
	if err != nil {
		if err := view.refused(err, filters); err != nil {
			return page{}, err
		}
		return v.unfiltered(shown)
	}
	view.First, view.Next = !view.Values.Has("cursor"), v.nextPage(found.NextCursor)
	for _, one := range found.Data {
		view.Rows = append(view.Rows, row(one))
	}
	return shown, nil
}

func (x *Console) listEndpoints(v *visit) (page, error) {
	view := listView[endpointRow]{form: v.filters()}
	found, err := v.worstEndpoints(listPage)
	if err == nil && !view.Values.Has("cursor") {
		view.Live = v.live("/endpoints/live") + "&" + v.r.URL.RawQuery
	}
	return showList(v, &view, "Endpoints", nil, found, err, x.endpointRow)
}

// endpointView is one endpoint.
type endpointView struct {
	endpointRow
	HeaderNames []string
	OldSecret   *moment // until when the secret before the last rotation signs too
	Attempts    ratesView
	Recent      []eventRow
	History     *troubleView // in place of the attempts and events
	Live        string
}

func (x *Console) showEndpoint(v *visit) (page, error) {
	e, err := v.api.GetEndpoint(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return page{}, err
	}
	view := endpointView{
		endpointRow: x.endpointRow(e),
		HeaderNames: headersOf(e),
		OldSecret:   x.moment(e.SecretsUntil),
		Live:        v.live("/endpoints/" + url.PathEscape(e.ID) + "/live"),
	}
	if err := x.lookBack(v, &view); err != nil {
		trouble := x.trouble(v.r, err)
		view.History = &trouble
	}
	return page{"endpoint", "Endpoint", "endpoints", view}, nil
}

// lookBack reads the last events and attempts of an endpoint.
func (x *Console) lookBack(v *visit, view *endpointView) (err error) {
	view.Recent, err = x.recent(v, client.EventFilter{EndpointID: view.ID}, 10)
	if err == nil {
		view.Attempts, err = x.rates(v, view.ID)
	}
	return err
}

func (v *visit) endpointPath(done string) string {
	return v.console.at + "/endpoints/" + url.PathEscape(v.r.PathValue("id")) + "?done=" + done
}

func (x *Console) enableEndpoint(v *visit) (string, error) {
	_, err := v.api.EnableEndpoint(v.r.Context(), v.r.PathValue("id"), v.once())
	return v.endpointPath("enabled"), err
}

func (x *Console) disableEndpoint(v *visit) (string, error) {
	_, err := v.api.DisableEndpoint(v.r.Context(), v.r.PathValue("id"), v.once())
	return v.endpointPath("disabled"), err
}

// testEndpoint sends a test, and shows its event.
func (x *Console) testEndpoint(v *visit) (string, error) {
	result, err := v.api.TestEndpoint(v.r.Context(), v.r.PathValue("id"), client.Test{}, v.once())
	return x.at + "/events/" + url.PathEscape(result.EventID) + "?done=tested", err
}

// replayView says how much a replay would queue, before it does.
type replayView struct {
	ID, URL  string
	Since    string // as the API takes it
	At       *moment
	Count    string // empty: the key may not replay
	None     bool
	Oldest   int // how many of them one replay queues; 0: all
	Hours    int
	Disabled bool
}

// replaySpans are the choices of how far back a replay goes, in hours.
var replaySpans = map[string]int{"1": 1, "24": 24, "168": 168, "720": 720}

// countReplay counts what a replay of a time would queue, by a dry run of it.
func (x *Console) countReplay(v *visit) (page, error) {
	e, err := v.api.GetEndpoint(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return page{}, err
	}
	hours, known := replaySpans[v.r.URL.Query().Get("hours")]
	if !known {
		hours = 24
	}
	since := x.Now().Add(-time.Duration(hours) * time.Hour).UTC().Truncate(time.Second)
	view := replayView{
		ID:       e.ID,
		URL:      e.URL,
		Since:    since.Format(time.RFC3339),
		At:       x.moment(&since),
		Hours:    hours,
		Disabled: e.Status == "disabled",
	}
	if v.key.Allows(domain.PermissionOperate) {
		counted, err := v.api.ReplayEndpoint(v.r.Context(), e.ID, client.Replay{
			EventFilter: client.EventFilter{Since: since},
			DryRun:      true,
		})
		if err != nil {
			return page{}, err
		}
		view.Count, view.None = countWords(counted.Matched, !counted.Truncated), counted.Matched == 0
		if counted.Truncated {
			view.Oldest = domain.MaxReplay
		}
	}
	return page{"replay", "Replay", "endpoints", view}, nil
}

// replayEndpoint queues deliveries that failed since a time, and continues to the failed events,
// from which the queued ones are gone.
func (x *Console) replayEndpoint(v *visit) (string, error) {
	since, err := time.Parse(time.RFC3339, v.r.PostFormValue("since"))
	if err != nil {
		return "", &client.Problem{
			Status: 422,
			Title:  "Nothing was replayed",
			Detail: "The time from which to replay is not one: count again, and repeat it.",
		}
	}
	replay := client.Replay{EventFilter: client.EventFilter{Since: since}}
	_, err = v.api.ReplayEndpoint(v.r.Context(), v.r.PathValue("id"), replay, v.once())
	return v.endpointPath("replayed"), err
}

// sendPendingMax is how many events one resend takes.
const sendPendingMax = 1000

// countPending counts the deliveries of an endpoint that wait for a later attempt.
func (x *Console) countPending(v *visit) (page, error) {
	e, err := v.api.GetEndpoint(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return page{}, err
	}
	view := struct {
		client.Endpoint
		Count string // empty: the key may not resend
		Some  int    // how many of them are sent at once; 0: all
		Runs  int    // attempts of a run
	}{Endpoint: e, Runs: x.Schedule.Attempts()}
	if v.key.Allows(domain.PermissionOperate) {
		counted, err := v.api.ResendEvents(v.r.Context(), waitingAt(e.ID, true))
		if err != nil {
			return page{}, err
		}
		if view.Count = countWords(counted.Matched, !counted.Truncated); counted.Truncated {
			view.Some = sendPendingMax
		}
	}
	return page{"pending", "Send what is pending", "endpoints", view}, nil
}

func waitingAt(endpointID string, dryRun bool) client.ResendMany {
	waiting := client.EventFilter{EndpointID: endpointID, State: "WAITING"}
	return client.ResendMany{EventFilter: waiting, DryRun: dryRun}
}

// sendPending sends the pending deliveries of an endpoint now.
func (x *Console) sendPending(v *visit) (string, error) {
	sent, err := v.api.ResendEvents(v.r.Context(), waitingAt(v.r.PathValue("id"), false), v.once())
	if sent.Truncated {
		return v.endpointPath("sent-some"), err
	}
	return v.endpointPath("sent"), err
}
