package console

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/lumenhook/lumenhook/api/client"
)

type historyView struct {
	ID, What string // the object's id and kind
	Back     string // its page's path below the console's; empty if the object was deleted
	Facts    []factRow
	Then     *thenView
	First    bool
	Next     string
}

type factRow struct {
	client.Fact
	Happened *moment
	At       string // its endpoint; empty if all facts of the page have the same one
	Changes  []changeRow
	Link     string // to the state after it
	Chosen   bool
}

// changeRow is a field's value before and after a fact; empty if there was none.
type changeRow struct{ Field, Before, After string }

// NoChanges is the text shown for a fact without changes.
func (factRow) NoChanges() string { return client.NoChanges }

// factChoice selects the fact whose state is shown below the list. Each endpoint counts versions
// separately, so an event that was handed over may have the same version twice.
type factChoice struct{ Version, At string } // empty: any

func (c factChoice) includes(other factChoice) bool {
	return (c.Version == "" || c.Version == other.Version) && (c.At == "" || c.At == other.At)
}

func (c factChoice) link(q url.Values) string {
	q = maps.Clone(q)
	q.Set("version", c.Version)
	q.Del("at")
	if c.At != "" {
		q.Set("at", c.At)
	}
	return "?" + q.Encode() + "#then"
}

type thenView struct {
	Version  uint64
	Happened *moment
	Fields   []fieldRow
}

type fieldRow struct{ Name, Value string }

func (x *Console) showWatchHistory(v *visit) (page, error) {
	return x.historyPage(v, "watches", "watch", v.api.GetWatchHistory)
}

func (x *Console) showEndpointHistory(v *visit) (page, error) {
	return x.historyPage(v, "endpoints", "endpoint", v.api.GetEndpointHistory)
}

func (x *Console) showEventHistory(v *visit) (page, error) {
	return x.historyPage(v, "events", "event", v.api.GetEventHistory)
}

func (x *Console) historyPage(
	v *visit, section, what string,
	read func(context.Context, string, client.Page) (client.List[client.Fact], error),
) (page, error) {
	id, q := v.r.PathValue("id"), v.r.URL.Query()
	found, err := read(v.r.Context(), id, client.Page{Cursor: q.Get("cursor")})
	if err != nil {
		return page{}, err
	}
	view := historyView{
		ID:    id,
		What:  what,
		Back:  section + "/" + url.PathEscape(id),
		First: !q.Has("cursor"),
	}
	if view.First && len(found.Data) > 0 && deletedIn(found.Data[0]) {
		view.Back = ""
	}
	chosen := factChoice{q.Get("version"), q.Get("at")}
	choices := choicesOf(what, found.Data)
	several := slices.ContainsFunc(choices, func(c factChoice) bool { return c.At != choices[0].At })
	for i, f := range found.Data {
		row := factRow{
			Fact:     f,
			Happened: x.moment(&f.At),
			Link:     choices[i].link(q),
			Chosen:   view.Then == nil && chosen.includes(choices[i]),
		}
		if several {
			row.At = choices[i].At
		}
		for _, c := range f.Changes {
			row.Changes = append(row.Changes, changeRow{c.Field, valueText(c.Before), valueText(c.After)})
		}
		if row.Chosen {
			view.Then = &thenView{f.Version, row.Happened, fieldRows(f.State)}
		}
		view.Facts = append(view.Facts, row)
	}
	if found.NextCursor != nil {
		view.Next = "?" + url.Values{"cursor": {*found.NextCursor}}.Encode()
	}
	return page{"history", "History", section, view}, nil
}

func choicesOf(what string, facts []client.Fact) []factChoice {
	choices := make([]factChoice, len(facts))
	for i, f := range facts {
		choices[i].Version = strconv.FormatUint(f.Version, 10)
		if what == "event" {
			choices[i].At = endpointIn(f)
		}
	}
	return choices
}

func endpointIn(f client.Fact) string {
	var state struct {
		EndpointID string `json:"endpointId"`
	}
	if json.Unmarshal(f.State, &state) != nil {
		return ""
	}
	return state.EndpointID
}

func deletedIn(f client.Fact) bool {
	var state struct {
		DeletedAt *string `json:"deletedAt"`
	}
	return json.Unmarshal(f.State, &state) == nil && state.DeletedAt != nil
}

func fieldRows(state json.RawMessage) (rows []fieldRow) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(state, &fields) != nil {
		return []fieldRow{{"", string(state)}}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		rows = append(rows, fieldRow{name, valueText(fields[name])})
	}
	return rows
}

// valueText formats a JSON value for people: strings without quotes, null as "".
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
