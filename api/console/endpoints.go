package console

import (
	"net/url"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
)

type endpointRow struct {
	client.Endpoint
	Word    stateWord
	Why     string // why it is disabled
	Since   *moment
	Created *moment
	Most    int // consecutive failures after which it is disabled
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

type listView[T any] struct {
	form
	Rows  []T
	First bool
	Next  string // URL of the next page; empty if there is none
	Live  string // URL of the stream of changes; empty if there is none
}

func (v *visit) nextPage(cursor *string) string {
	if cursor == nil {
		return ""
	}
	q := v.r.URL.Query()
	q.Set("cursor", *cursor)
	return v.r.URL.Path + "?" + q.Encode()
}

// showList shows a page of a list, or its filters with the errors that the API reported.
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

type endpointView struct {
	endpointRow
	HeaderNames []string
	OldSecret   *moment // until when the previous secret also signs
	Attempts    ratesView
	Recent      []eventRow
	History     *errorView // shown instead of attempts and events
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
		failure := x.describeError(v.r, err)
		view.History = &failure
	}
	return page{"endpoint", "Endpoint", "endpoints", view}, nil
}

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

func (x *Console) testEndpoint(v *visit) (string, error) {
	result, err := v.api.TestEndpoint(v.r.Context(), v.r.PathValue("id"), client.Test{}, v.once())
	return x.at + "/events/" + url.PathEscape(result.EventID) + "?done=tested", err
}

type replayView struct {
	ID, URL  string
	Since    string // in the API's format
	At       *moment
	Count    string // empty if the key may not replay
	None     bool
	Oldest   int // how many of them one replay queues; 0 if all
	Hours    int
	Disabled bool
}

var replaySpans = map[string]int{"1": 1, "24": 24, "168": 168, "720": 720}

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

func (x *Console) replayEndpoint(v *visit) (string, error) {
	since, err := time.Parse(time.RFC3339, v.r.PostFormValue("since"))
	if err != nil {
		return "", &client.Problem{
			Status: 422,
			Title:  "Nothing was replayed",
			Detail: "The start time of the replay is invalid. Count again, then repeat the replay.",
		}
	}
	replay := client.Replay{EventFilter: client.EventFilter{Since: since}}
	_, err = v.api.ReplayEndpoint(v.r.Context(), v.r.PathValue("id"), replay, v.once())
	return v.endpointPath("replayed"), err
}

// sendPendingMax is the maximum number of events of one bulk resend.
const sendPendingMax = 1000

func (x *Console) countPending(v *visit) (page, error) {
	e, err := v.api.GetEndpoint(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return page{}, err
	}
	view := struct {
		client.Endpoint
		Count string // empty if the key may not resend
		Some  int    // how many of them one resend sends; 0 if all
		Runs  int    // attempts per run
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
	return page{"pending", "Send pending deliveries", "endpoints", view}, nil
}

func waitingAt(endpointID string, dryRun bool) client.ResendMany {
	waiting := client.EventFilter{EndpointID: endpointID, State: "WAITING"}
	return client.ResendMany{EventFilter: waiting, DryRun: dryRun}
}

func (x *Console) sendPending(v *visit) (string, error) {
	sent, err := v.api.ResendEvents(v.r.Context(), waitingAt(v.r.PathValue("id"), false), v.once())
	if sent.Truncated {
		return v.endpointPath("sent-some"), err
	}
	return v.endpointPath("sent"), err
}
