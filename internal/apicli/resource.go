package apicli

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// Resource describes one kind of API object: how to read and show it. The command line, shell
// completion and MCP tools share it.
type Resource[T, F any] struct {
	Name   string // of its commands, such as endpoints
	ID     string // name of the id in use lines
	Filter F      // of lists, with the command line's defaults
	List   func(*client.Client, context.Context, F, client.Page) (client.List[T], error)
	// Columns are the headings of a list, and Row has an object's cells.
	Columns []any
	Row     func(T) []any
	// Empty, if set, returns the text of a list without objects.
	Empty func(F) string
	// Get reads one object and Show prints it. Show is nil if no command does.
	Get  func(*client.Client, context.Context, string) (T, error)
	Show func(io.Writer, T)
	// History, if set, lists what happened to an object.
	History func(*client.Client, context.Context, string, client.Page) (
		client.List[client.Fact], error)
	// Offer returns an id for completion, and its description.
	Offer func(T) (id string, about []string)
	// Untrusted lists the members whose content comes from strangers.
	Untrusted []string
}

// ShowList prints a list as a table.
func (r Resource[T, F]) ShowList(w io.Writer, l client.List[T], f F) {
	cli.Row(w, r.Columns...)
	for _, one := range l.Data {
		cli.Row(w, r.Row(one)...)
	}
	cli.More(w, l.NextCursor)
	if len(l.Data) == 0 && r.Empty != nil {
		_, _ = io.WriteString(w, r.Empty(f))
	}
}

// The resources that have lists.
var (
	Endpoints = Resource[client.Endpoint, client.EndpointFilter]{
		Name:   "endpoints",
		ID:     "ENDPOINT_ID",
		Filter: client.EndpointFilter{Sort: "health"},
		List:   (*client.Client).ListEndpoints,
		Columns: []any{"ID", "HEALTH", "1H", "24H", "7D", "LAST 24H", "LAST SUCCESS",
			"OLDEST PENDING", "URL", "DESCRIPTION"},
		Row:     endpointRow,
		Get:     (*client.Client).GetEndpoint,
		Show:    ShowEndpoint,
		History: (*client.Client).GetEndpointHistory,
		Offer: func(e client.Endpoint) (string, []string) {
			return e.ID, []string{e.Status, e.URL, e.Description}
		},
		Untrusted: []string{"url", "description", "headers"},
	}
	Watches = Resource[client.Watch, client.WatchFilter]{
		Name: "watches",
		ID:   "WATCH_ID",
		List: (*client.Client).ListWatches,
		Columns: []any{"ID", "WALLET", "ENDPOINT", "STATUS", "AMOUNT", "LABEL", "EXPIRES",
			"CREATED"},
		Row: func(w client.Watch) []any {
			return []any{w.ID, w.WalletAddress, w.EndpointID, w.Status, w.AmountRule.Kind, w.Label,
				w.ExpiresAt, w.CreatedAt}
		},
		Get:     (*client.Client).GetWatch,
		Show:    ShowWatch,
		History: (*client.Client).GetWatchHistory,
		Offer: func(w client.Watch) (string, []string) {
			return w.ID, []string{w.Status, w.Label, w.WalletAddress}
		},
		Untrusted: []string{"label"},
	}
	Events = Resource[client.Event, client.EventFilter]{
		Name: "events",
		ID:   "EVENT_ID",
		List: (*client.Client).ListEvents,
		Columns: []any{"ID", "STATE", "ATTEMPTS", "LAST", "AMOUNT", "MEMO", "WALLET", "CREATED",
			"NEXT ATTEMPT", "SEQUENCE", "TYPE", "ENDPOINT"},
		Row: eventRow,
		Empty: func(f client.EventFilter) string {
			return "no event matches\nlumenhook explain " + cmp.Or(f.TxHash, "TX") +
				" says why a payment has no event\n"
		},
		Get:     (*client.Client).GetEvent,
		Show:    ShowEvent,
		History: (*client.Client).GetEventHistory,
		Offer: func(e client.Event) (string, []string) {
			payment := e.PaymentData().Payment
			about := []string{e.Delivery.State, e.Type, payment.Amount}
			if payment.Memo != nil {
				about = append(about, *payment.Memo)
			}
			return e.ID, about
		},
		Untrusted: []string{
			"data.payment.memo", "data.watch.label", "attempts[].errorDetail", "attempts[].responseBody",
		},
	}
	Keys = Resource[client.Key, struct{}]{
		Name: "keys",
		ID:   "KEY_ID",
		List: func(c *client.Client, ctx context.Context, _ struct{}, p client.Page) (
			client.List[client.Key], error,
		) {
			return c.ListKeys(ctx, p)
		},
		Columns: []any{"ID", "NAME", "PERMISSIONS", "FROM", "LAST USED", "EXPIRES", "ROLLED TO"},
		Row: func(k client.Key) []any {
			return []any{k.ID, k.Name, k.Permissions, k.AllowedCIDRs, k.LastUsedAt, k.ExpiresAt,
				k.RolledTo}
		},
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

// PortalLink is a link with its complete URL.
type PortalLink struct {
	URL string `json:"url"`
	client.PortalLink
}

// Show prints the link, one field per line.
func (l PortalLink) Show(w io.Writer) { cli.ShowFields(w, l, "path") }
