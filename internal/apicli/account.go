package apicli

import (
	"io"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// Account is an account as whoever runs the service sees it.
type Account struct {
	ID        string    `json:"id"`
	Email     string    `json:"email"`  // the first
	Emails    []string  `json:"emails"` // all
	Keys      int       `json:"keys"`   // that are there, expired ones included
	CreatedAt time.Time `json:"createdAt"`
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
	return Account{
		ID:        a.ID,
		Email:     a.Email,
		Emails:    append([]string{}, a.Emails()...),
		Keys:      len(a.Keys),
		CreatedAt: time.UnixMilli(a.CreatedAtMillis).UTC(),
	}
}

// Show prints it, one field per line.
func (a Account) Show(w io.Writer) {
	cli.Row(w, "id", a.ID)
	cli.Row(w, "emails", strings.Join(a.Emails, " "))
	cli.Row(w, "keys", a.Keys)
	cli.Row(w, "created", a.CreatedAt)
}

// Show prints them, one a line.
func (l Accounts) Show(w io.Writer) {
	cli.Row(w, "ID", "EMAILS", "KEYS", "CREATED")
	for _, a := range l.Data {
		cli.Row(w, a.ID, strings.Join(a.Emails, " "), a.Keys, a.CreatedAt)
	}
}
