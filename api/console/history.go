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

// historyView is what happened to an endpoint, a watch or an event, and what it was after one fact.
type historyView struct {
	ID, What string // the object, and its kind in a word
	Back     string // its page, below where the console is; empty: it was deleted
	Facts    []factRow
	Then     *thenView
	First    bool
	Next     string
}

// factRow is a fact of the list.
type factRow struct {
	client.Fact
	Happened *moment
	Words    string
	Changes  []changeRow
	Link     string // to what it was then
	Chosen   bool
}

// changeRow is a field before and after a fact; empty where there was, or is, nothing.
type changeRow struct{ Field, Before, After string }

// thenView is the state after the chosen fact.
type thenView struct {
	Version  uint64
	Happened *moment
	Fields   []fieldRow
}

type fieldRow struct{ Name, Value string }

// factWords are the facts' names in the journal, in words.
var factWords = map[string]string{
	"EndpointCreated": "Made", "EndpointUpdated": "Changed", "SecretRotated": "Secret rotated",
	"SecretsResealed": "Secrets sealed anew", "EndpointDisabled": "Disabled",
	"EndpointEnabled": "Enabled", "EndpointDeleted": "Deleted",
	"WatchCreated": "Made", "WatchUpdated": "Changed", "WatchDeleted": "Deleted",
	"BackfillRequested": "Backfill asked for", "PartBegun": "Reading of ledgers begun",
	"DeliveryCreated": "Queued", "AttemptMade": "Attempted", "DeliveryRequeued": "Queued again",
	"DeliveryCancelled": "Cancelled", "DeliveryMoved": "Handed over to another endpoint",
	"DeliveryRecalled": "Recalled to be sent again",
	"RangeCovered":     "Ledgers read", "BackfillStopped": "Backfill stopped",
}

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
	chosen := q.Get("version")
	for i, f := range found.Data {
		version := strconv.FormatUint(f.Version, 10)
		q.Set("version", version)
		row := factRow{
			Fact:     f,
			Happened: x.moment(&f.At),
			Words:    worded(factWords, f.Fact),
			Link:     "?" + q.Encode() + "#then",
			Chosen:   version == chosen || chosen == "" && i == 0,
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

// deletedIn reports whether the object was deleted by then.
func deletedIn(f client.Fact) bool {
	var state struct {
		DeletedAt *string `json:"deletedAt"`
	}
	return json.Unmarshal(f.State, &state) == nil && state.DeletedAt != nil
}

// fieldRows are the fields of a state, by their names.
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

// valueText is a JSON value as people read it: a text without its quotes, and nothing for null.
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
