package apicli

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/lumenhook/lumenhook/api/client"
)

// Resource is one kind of object of the API: how it is read, and what is shown of it. The command
// line, completion and assistants read the same one.
type Resource[T, F any] struct {
	ID     string // what an id is called in use lines
	Filter F      // of a list, with the defaults of the command line
	List   func(*client.Client, context.Context, F, client.Page) (client.List[T], error)
	Get    func(*client.Client, context.Context, string) (T, error)
	// ShowAll prints a list, and Show one object.
	ShowAll func(io.Writer, client.List[T])
	Show    func(io.Writer, T)
	// Offer returns a completion: an id, and a description of it.
	Offer func(T) (id string, about []string)
	// Untrusted names the members that strangers write.
	Untrusted []string
}

// The resources that have lists.
var (
	Endpoints = Resource[client.Endpoint, client.EndpointFilter]{
		ID:      "ENDPOINT_ID",
		Filter:  client.EndpointFilter{Sort: "health"},
		List:    (*client.Client).ListEndpoints,
		Get:     (*client.Client).GetEndpoint,
		ShowAll: ShowEndpoints,
		Show:    ShowEndpoint,
		Offer: func(e client.Endpoint) (string, []string) {
			return e.ID, []string{e.Status, e.URL, e.Description}
		},
		Untrusted: []string{"url", "description", "headers"},
	}
	Watches = Resource[client.Watch, client.WatchFilter]{
		ID:      "WATCH_ID",
		List:    (*client.Client).ListWatches,
		Get:     (*client.Client).GetWatch,
		ShowAll: ShowWatches,
		Show:    ShowWatch,
		Offer: func(w client.Watch) (string, []string) {
			return w.ID, []string{w.Status, w.Label, w.WalletAddress}
		},
		Untrusted: []string{"label"},
	}
	Events = Resource[client.Event, client.EventFilter]{
		ID:      "EVENT_ID",
		List:    (*client.Client).ListEvents,
		Get:     (*client.Client).GetEvent,
		ShowAll: ShowEvents,
		Show:    ShowEvent,
		Offer: func(e client.Event) (string, []string) {
			var told struct{ Payment struct{ Amount, Memo string } }
			_ = json.Unmarshal(e.Data, &told) // an event of another form is shown without
			return e.ID, []string{e.Delivery.State, e.Type, told.Payment.Amount, told.Payment.Memo}
		},
		Untrusted: []string{
			"data.payment.memo", "data.watch.label", "attempts[].errorDetail", "attempts[].responseBody",
		},
	}
	Keys = Resource[client.Key, struct{}]{
		ID: "KEY_ID",
		List: func(c *client.Client, ctx context.Context, _ struct{}, p client.Page) (
			client.List[client.Key], error,
		) {
			return c.ListKeys(ctx, p)
		},
		Get:     (*client.Client).GetKey,
		ShowAll: ShowKeys,
		Offer: func(k client.Key) (string, []string) {
			return k.ID, []string{strings.Join(k.Permissions, ","), k.Name}
		},
	}
)
