package domain

import "slices"

// Permission is what an API key may be used for.
type Permission string

// The three permissions.
const (
	PermissionRead    Permission = "read"    // every GET
	PermissionWrite   Permission = "write"   // create, update, delete, rotate, keys
	PermissionOperate Permission = "operate" // test, enable, disable, replay, resend, backfill
)

// Permissions lists all of them, in the order in which they are shown.
func Permissions() []Permission {
	return []Permission{PermissionRead, PermissionWrite, PermissionOperate}
}

// Key is an API key as it is kept: its hash, never the key.
type Key struct {
	ID              string
	Name            string
	Hash            []byte // SHA-256 of the whole key
	Permissions     []Permission
	CreatedAtMillis int64
}

// Allows tells whether the key carries a permission.
func (k Key) Allows(p Permission) bool { return slices.Contains(k.Permissions, p) }

// Account is a customer: it owns keys, endpoints and watches.
type Account struct {
	ID              string
	Version         uint64
	Email           string
	Keys            []Key
	CreatedAtMillis int64
}

// Exists tells whether the account was created.
func (a Account) Exists() bool { return a.ID != "" }

// DecideCreateAccount answers a request to open an account with a first key.
func DecideCreateAccount(state Account, c CreateAccount, nowMillis int64) ([]FactBody, *Rejection) {
	if state.Exists() {
		return nil, &Rejection{Code: CodeAlreadyExists, Detail: "the account exists; its creation was answered before and that answer is forgotten"}
	}
	key := c.Key
	key.CreatedAtMillis = nowMillis
	return []FactBody{AccountCreated{AccountID: c.AccountID, Email: c.Email}, KeyCreated{Key: key}}, nil
}

// EvolveAccount folds one fact into the state of an account.
func EvolveAccount(state Account, f Fact) Account {
	switch body := f.Body.(type) {
	case AccountCreated:
		state.ID, state.Email, state.CreatedAtMillis = body.AccountID, body.Email, f.AtMillis
	case KeyCreated:
		state.Keys = append(slices.Clip(state.Keys), body.Key)
	}
	state.Version = f.Version
	return state
}
