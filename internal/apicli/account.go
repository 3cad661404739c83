package apicli

import (
	"io"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// Account is an account as the operator of the service sees it.
type Account struct {
	ID        string    `json:"id"`
	Email     string    `json:"email"`  // the first
	Emails    []string  `json:"emails"` // all
	Keys      int       `json:"keys"`   // that are there, expired ones included
	CreatedAt time.Time `json:"createdAt"`

	Quotas map[string]uint32 `json:"quotas"` // how much it may have
}

// Accounts are a list of them.
type Accounts struct {
	Data []Account `json:"data"`
}

// ViewAccounts returns accounts as they are shown.
func ViewAccounts(all []domain.Account) Accounts {
	list := Accounts{Data: []Account{}}
	for _, a := range all {
		list.Data = append(list.Data, ViewAccount(a))
	}
	return list
}

// ViewAccount returns an account as it is shown.
func ViewAccount(a domain.Account) Account {
	quotas, counts := make(map[string]uint32), a.Quotas.Or(domain.DefaultQuotas())
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

// Show prints it, one field per line.
func (a Account) Show(w io.Writer) { cli.ShowFields(w, a, "email") }

// Show prints them, one a line.
func (l Accounts) Show(w io.Writer) {
	cli.Row(w, "ID", "EMAILS", "KEYS", "CREATED")
	for _, a := range l.Data {
		cli.Row(w, a.ID, strings.Join(a.Emails, " "), a.Keys, a.CreatedAt)
	}
}

const keepIt = "\nThe key is shown only once: keep it.\n"

// MadeKey is a key that was created without the API.
type MadeKey struct {
	AccountID string `json:"accountId,omitempty"` // the API's key says it, where an API made this one
	KeyID     string `json:"keyId"`
	Key       string `json:"key"`
}

// Show prints it, one field per line.
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

// PortalLink is a link with its whole address.
type PortalLink struct {
	URL string `json:"url"`
	client.PortalLink
}

// Show prints it, one field per line.
func (l PortalLink) Show(w io.Writer) { cli.ShowFields(w, l, "path") }
