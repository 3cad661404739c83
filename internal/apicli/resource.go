package apicli

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// Resource describes one kind of API object: how it is read and what is shown of it. The command
// line, shell completion and MCP tools share it.
type Resource[T, F any] struct {
	ID     string // name of the id in use lines
	Filter F      // of lists, with the command line's defaults
	List   func(*client.Client, context.Context, F, client.Page) (client.List[T], error)
	Get    func(*client.Client, context.Context, string) (T, error)
	// ShowAll prints a list, and Show one object.
	ShowAll func(io.Writer, client.List[T])
	Show    func(io.Writer, T)
	// Offer returns an id for completion, and its description.
	Offer func(T) (id string, about []string)
	// Untrusted lists the members whose content comes from strangers.
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
			_ = json.Unmarshal(e.Data, &told) // other events have no payment to show
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

// Account is an account as the operator sees it.
type Account struct {
	ID        string    `json:"id"`
	Email     string    `json:"email"`  // the first address
	Emails    []string  `json:"emails"` // all addresses
	Keys      int       `json:"keys"`   // number of keys, including expired ones
	CreatedAt time.Time `json:"createdAt"`

	Quotas map[string]uint64 `json:"quotas"` // limits by name
}

// Accounts is a list of accounts.
type Accounts struct {
	Data []Account `json:"data"`
}

// ViewAccounts returns accounts in the form shown to operators.
func ViewAccounts(all []domain.Account) Accounts {
	list := Accounts{Data: []Account{}}
	for _, a := range all {
		list.Data = append(list.Data, ViewAccount(a))
	}
	return list
}

// ViewAccount returns an account in the form shown to operators.
func ViewAccount(a domain.Account) Account {
	quotas, counts := make(map[string]uint64), a.Quotas.Or(domain.DefaultQuotas())
	for _, q := range domain.QuotaList() {
		quotas[q.Name] = *q.Of(&counts)
	}
	return Account{
		ID:        a.ID,
		Email:     a.Email,
		Emails:    append([]string{}, a.Emails()...),
		Keys:      len(a.Keys),
		CreatedAt: time.UnixMilli(a.CreatedAtMillis).UTC(),
		Quotas:    quotas,
	}
}

// Show prints the account, one field per line.
func (a Account) Show(w io.Writer) { cli.ShowFields(w, a, "email") }

// Show prints the accounts, one per line.
func (l Accounts) Show(w io.Writer) {
	cli.Row(w, "ID", "EMAILS", "KEYS", "CREATED")
	for _, a := range l.Data {
		cli.Row(w, a.ID, strings.Join(a.Emails, " "), a.Keys, a.CreatedAt)
	}
}

// ShowAccount prints the account of an API key and its quotas.
func ShowAccount(w io.Writer, a client.Account) {
	cli.Row(w, "account", a.ID)
	cli.Row(w, "created", a.CreatedAt)
	cli.Row(w, "QUOTA", "USED", "LIMIT")
	for _, q := range a.Quotas {
		cli.Row(w, q.Name, q.Used, q.Limit)
	}
}

const keepIt = "\nThe key is shown only once. Store it now.\n"

// MadeKey is a new key.
type MadeKey struct {
	AccountID string `json:"accountId,omitempty"` // empty if the API created the key
	KeyID     string `json:"keyId"`
	Key       string `json:"key"`
}

// Show prints the key, one field per line.
func (m MadeKey) Show(w io.Writer) {
	cli.ShowFields(w, m)
	_, _ = io.WriteString(w, keepIt)
}

// ShowRolledKey prints the key that replaced another.
func ShowRolledKey(w io.Writer, k client.Key) {
	cli.Row(w, "key id", k.ID)
	cli.Row(w, "key", k.Key)
	_, _ = io.WriteString(w, keepIt)
}

// ShowKeys prints a list of keys.
func ShowKeys(w io.Writer, l client.List[client.Key]) {
	cli.Row(w, "ID", "NAME", "PERMISSIONS", "FROM", "LAST USED", "EXPIRES", "ROLLED TO")
	for _, k := range l.Data {
		cli.Row(w, k.ID, k.Name, k.Permissions, k.AllowedCIDRs, k.LastUsedAt, k.ExpiresAt, k.RolledTo)
	}
	cli.More(w, l.NextCursor)
}

// PortalLink is a link with its complete URL.
type PortalLink struct {
	URL string `json:"url"`
	client.PortalLink
}

// Show prints the link, one field per line.
func (l PortalLink) Show(w io.Writer) { cli.ShowFields(w, l, "path") }
