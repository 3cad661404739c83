package domain

import "slices"

// Permission is a right of an API key.
type Permission string

// Permissions of an API key.
const (
	PermissionRead    Permission = "read"    // all GETs, except reading signed events
	PermissionWrite   Permission = "write"   // create, update, delete, rotate, keys
	PermissionOperate Permission = "operate" // test, enable, disable, replay, resend, backfill
)

// Permissions returns all permissions in display order.
func Permissions() []Permission {
	return []Permission{PermissionRead, PermissionWrite, PermissionOperate}
}

// MaxEmails is the maximum number of email addresses per account.
const MaxEmails = 10

// Account is a customer. It owns API keys, endpoints and watches.
type Account struct {
	ID              string
	Version         uint64
	Email           string
	MoreEmails      []string // additional addresses, without duplicates
	Keys            []Key    // oldest first
	CreatedAtMillis int64
	Quotas          Counts // set by the operator; 0 means the default
}

// Exists reports whether the account was created.
func (a Account) Exists() bool { return a.ID != "" }

// Emails returns all addresses of the account, without duplicates.
func (a Account) Emails() []string {
	if a.Email == "" {
		return nil
	}
	return append([]string{a.Email}, a.MoreEmails...)
}

// Key returns the key with the given ID.
func (a Account) Key(id string) (Key, bool) {
	i := slices.IndexFunc(a.Keys, func(k Key) bool { return k.ID == id })
	if i < 0 {
		return Key{}, false
	}
	return a.Keys[i], true
}

// DecideAccount decides a command that creates or updates an account or manages its keys.
func DecideAccount(state Account, c Command, nowMillis int64) ([]FactBody, *Rejection) {
	if body, ok := c.Body.(CreateAccount); ok {
		return DecideCreateAccount(state, body, nowMillis)
	}
	if !state.Exists() || state.ID != c.AccountID {
		return nil, &Rejection{Code: CodeNotFound, Detail: "there is no such account"}
	}
	asked, _ := c.Body.(AccountCommand)
	switch body := asked.(type) {
	case UpdateAccount:
		if body.Email == "" {
			body.Email, body.MoreEmails = state.Email, state.MoreEmails
		}
		body.Quotas = body.Quotas.Or(state.Quotas)
		if body.Email == state.Email && slices.Equal(body.MoreEmails, state.MoreEmails) &&
			body.Quotas == state.Quotas {
			return nil, nil
		}
		return []FactBody{AccountCreated{
			AccountID:  state.ID,
			Email:      body.Email,
			MoreEmails: body.MoreEmails,
			Updated:    true,
			Quotas:     body.Quotas,
		}}, nil
	case CreateKey:
		return decideCreateKey(state, c, body, nowMillis)
	case RollKey:
		return decideRollKey(state, c, body, nowMillis)
	case RevokeKey:
		return decideRevokeKey(state, c, body, nowMillis)
	case CreateAccount: // handled above
	}
	panic("domain: an account cannot answer " + c.Body.CommandType())
}

// DecideCreateAccount decides the creation of an account with its first key.
func DecideCreateAccount(state Account, c CreateAccount, nowMillis int64) ([]FactBody, *Rejection) {
	if state.Exists() {
		return nil, &Rejection{
			Code:   CodeAlreadyExists,
			Detail: "the account exists; its creation was answered before and that answer is forgotten",
		}
	}
	return []FactBody{
		AccountCreated{AccountID: c.AccountID, Email: c.Email, MoreEmails: c.MoreEmails},
		KeyCreated{Key: c.Key.createdAt(nowMillis)},
	}, nil
}

// EvolveAccount applies a fact to an account.
func EvolveAccount(state Account, f Fact) Account {
	changed, _ := f.Body.(AccountFact)
	switch body := changed.(type) {
	case AccountCreated:
		state.ID, state.Email, state.MoreEmails = body.AccountID, body.Email, body.MoreEmails
		state.Quotas = body.Quotas
		if !body.Updated {
			state.CreatedAtMillis = f.AtMillis
		}
	case KeyCreated:
		state.Keys = append(unexpired(state.Keys, f.AtMillis), body.Key)
	case KeyRolled:
		state.Keys = append(unexpired(rolled(state.Keys, body), f.AtMillis), body.Key)
	case KeyRevoked:
		state.Keys = slices.DeleteFunc(unexpired(state.Keys, f.AtMillis),
			func(k Key) bool { return k.ID == body.KeyID })
	}
	state.Version = f.Version
	return state
}
