package console

import (
	"net/url"
	"slices"
	"time"

	"maps"

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

func (x *Console) endpointRow(e client.Endpoint, span string) endpointRow {
	row := endpointRow{
		Endpoint:  e,
		Since:     x.moment(e.DisabledAt),
		Created:   x.moment(&e.CreatedAt),
		Most:      x.DisableAfter,
		healthRow: x.healthRow(e.Health, span),
	}
	row.Word = healthWord(e)
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
	Live  string // address of the stream that tells of changes; empty: none
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

// endpointsView is a page of the list of endpoints.
type endpointsView struct {
	listView[endpointRow]
	Span string // of their health
}

func (x *Console) listEndpoints(v *visit) (page, error) {
	view := endpointsView{listView: listView[endpointRow]{form: v.filters()}}
	view.Span = spanOf(view.Value("span"))
	shown := func() page { return page{"endpoints", "Endpoints", "endpoints", &view} }
	found, err := x.worstEndpoints(v, view.Value("status"), view.Value("cursor"), listPage)
	if err != nil {
		if err := view.refused(err, nil); err != nil {
			return page{}, err
		}
		return v.unfiltered(shown())
	}
	view.First, view.Next = !view.Values.Has("cursor"), v.nextPage(found.NextCursor)
	if view.First {
		view.Live = v.live("/endpoints/live", "status", "span")
	}
	for _, e := range found.Data {
		view.Rows = append(view.Rows, x.endpointRow(e, view.Span))
	}
	return shown(), nil
}

// endpointView is one endpoint.
type endpointView struct {
	endpointRow
	HeaderNames []string
	Waiting     string
	Failed      string
	Attempts    ratesView
	Recent      []eventRow
	History     *troubleView // in place of the counts and events
	Live        string
}

func (x *Console) showEndpoint(v *visit) (page, error) {
	e, err := v.api.GetEndpoint(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return page{}, err
	}
	view := endpointView{
		endpointRow: x.endpointRow(e, daySpan),
		HeaderNames: append(slices.Sorted(maps.Keys(e.Headers)), e.LostHeaders...),
		Live:        v.live("/endpoints/" + url.PathEscape(e.ID) + "/live"),
	}
	if err := x.countEndpoint(v, &view); err != nil {
		trouble := x.trouble(v.r, err)
		view.History = &trouble
	}
	return page{"endpoint", "Endpoint", "endpoints", view}, nil
}

// countEndpoint reads what the history has of an endpoint.
func (x *Console) countEndpoint(v *visit, view *endpointView) error {
	of := func(states ...string) (string, error) {
		n, all := 0, true
		for _, state := range states {
			found, whole, err := v.events(client.EventFilter{EndpointID: view.ID, State: state})
			if err != nil {
				return "", err
			}
			n, all = n+len(found), all && whole
		}
		return countWords(n, all), nil
	}
	var err error
	if view.Waiting, err = of("QUEUED", "WAITING"); err != nil {
		return err
	}
	if view.Failed, err = of("FAILED"); err != nil {
		return err
	}
	recent, err := v.api.ListEvents(v.r.Context(), client.EventFilter{EndpointID: view.ID},
		client.Page{Limit: 10})
	if err != nil {
		return err
	}
	for _, e := range recent.Data {
		view.Recent = append(view.Recent, x.eventRow(e))
	}
	view.Attempts, err = x.rates(v, view.ID)
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
			Since:  since,
			DryRun: true,
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

// replayEndpoint queues what failed since a time, and goes on to the failed events: those that
// were queued are there no longer.
func (x *Console) replayEndpoint(v *visit) (string, error) {
	since, err := time.Parse(time.RFC3339, v.r.PostFormValue("since"))
	if err != nil {
		return "", &client.Problem{
			Status: 422,
			Title:  "Nothing was replayed",
			Detail: "The time from which to replay is not one: count again, and repeat it.",
		}
	}
	_, err = v.api.ReplayEndpoint(v.r.Context(), v.r.PathValue("id"), client.Replay{Since: since},
		v.once())
	return v.endpointPath("replayed"), err
}

// pendingView says how many deliveries would be sent now.
type pendingView struct {
	ID, URL  string
	Count    string // empty: the key may not resend
	None     bool
	Most     int // how many of them are sent at once; 0: all
	Attempts int // of a run
	Disabled bool
}

// sendPendingMax is how many events one resend takes.
const sendPendingMax = 1000

// countPending counts the deliveries of an endpoint that wait for a later attempt.
func (x *Console) countPending(v *visit) (page, error) {
	e, err := v.api.GetEndpoint(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return page{}, err
	}
	view := pendingView{
		ID: e.ID, URL: e.URL, Attempts: x.Schedule.Attempts(), Disabled: e.Status == "disabled",
	}
	if v.key.Allows(domain.PermissionOperate) {
		counted, err := v.api.ResendEvents(v.r.Context(), waitingAt(e.ID, true))
		if err != nil {
			return page{}, err
		}
		view.Count = countWords(counted.Matched, !counted.Truncated)
		view.None = counted.Matched == 0 && !counted.Truncated
		if counted.Truncated {
			view.Most = sendPendingMax
		}
	}
	return page{"pending", "Send what is pending", "endpoints", view}, nil
}

func waitingAt(endpointID string, dryRun bool) client.ResendMany {
	return client.ResendMany{EndpointID: endpointID, State: "WAITING", DryRun: dryRun}
}

// sendPending sends now what waits for a later attempt at an endpoint.
func (x *Console) sendPending(v *visit) (string, error) {
	sent, err := v.api.ResendEvents(v.r.Context(), waitingAt(v.r.PathValue("id"), false), v.once())
	done := "sent"
	if sent.Truncated {
		done = "sent-some"
	}
	return v.endpointPath(done), err
}
