package domain_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

func givenAccount(bodies ...domain.FactBody) domain.Account {
	var a domain.Account
	for i, body := range append(facts(domain.AccountCreated{
		AccountID: ownAccount,
		Email:     "a@example.com",
	}, domain.KeyCreated{Key: keyOf("key_1", 0)}), bodies...) {
		a = domain.EvolveAccount(a,
			domain.Fact{Aggregate: ownAccount, Version: uint64(i + 1), AtMillis: startedAt, Body: body})
	}
	return a
}

func keyOf(id string, expiresAtMillis int64) domain.Key {
	return domain.Key{
		ID:              id,
		Hash:            []byte(id),
		Permissions:     domain.Permissions(),
		CreatedAtMillis: startedAt,
		ExpiresAtMillis: expiresAtMillis,
	}
}

func TestAccountCommands(t *testing.T) {
	asked := domain.Key{
		ID:              "key_2",
		Name:            "shop",
		Hash:            []byte("key_2"),
		AllowedCIDRs:    []string{"192.0.2.0/24"},
		ExpiresAtMillis: startedAt + 9,
		RolledTo:        "key_x",
	}
	made := asked
	made.CreatedAtMillis, made.RolledTo = startedAt, ""
	roll := domain.RollKey{KeyID: "key_1", Key: asked, GraceMillis: 60_000}
	full := func(expiresAtMillis int64) domain.Account {
		a := givenAccount()
		for n := range domain.MaxKeys - 1 {
			a = domain.EvolveAccount(a,
				domain.Fact{
					Version:  a.Version + 1,
					AtMillis: startedAt - 1,
					Body:     domain.KeyCreated{Key: keyOf(fmt.Sprint("key_n", n), expiresAtMillis)},
				})
		}
		return a
	}
	for name, c := range map[string]struct {
		given domain.Account
		from  string
		when  domain.CommandBody
		code  string
		then  []domain.FactBody
	}{
		"create": {
			domain.Account{}, ownAccount,
			domain.CreateAccount{AccountID: ownAccount, Email: "e", Key: asked}, "",
			facts(domain.AccountCreated{AccountID: ownAccount, Email: "e"}, domain.KeyCreated{Key: made}),
		},
		"create again": {
			givenAccount(), ownAccount, domain.CreateAccount{AccountID: ownAccount},
			domain.CodeAlreadyExists, nil,
		},
		"update": {
			givenAccount(), ownAccount, domain.UpdateAccount{AccountID: ownAccount, Email: "other"}, "",
			facts(domain.AccountCreated{AccountID: ownAccount, Email: "other", Updated: true}),
		},
		"update, the same": {
			givenAccount(), ownAccount,
			domain.UpdateAccount{AccountID: ownAccount, Email: givenAccount().Email}, "", nil,
		},
		"update, more": {
			givenAccount(), ownAccount,
			domain.UpdateAccount{AccountID: ownAccount, Email: givenAccount().Email,
				MoreEmails: []string{"other"}}, "",
			facts(domain.AccountCreated{AccountID: ownAccount, Email: givenAccount().Email,
				MoreEmails: []string{"other"}, Updated: true}),
		},
		"update, no account": {
			domain.Account{}, "", domain.UpdateAccount{Email: "other"}, domain.CodeNotFound, nil,
		},
		"key": {
			givenAccount(), ownAccount, domain.CreateKey{Key: asked}, "",
			facts(domain.KeyCreated{Key: made}),
		},
		"key again": {
			givenAccount(), ownAccount, domain.CreateKey{Key: keyOf("key_1", 0)},
			domain.CodeAlreadyExists, nil,
		},
		"key, another's": {
			givenAccount(), "acc_other", domain.CreateKey{Key: asked}, domain.CodeNotFound,
			nil,
		},
		"key, no account": {
			domain.Account{}, "", domain.CreateKey{Key: asked}, domain.CodeNotFound, nil,
		},
		"key, full": {
			full(0), ownAccount, domain.CreateKey{Key: asked}, domain.CodeTooManyKeys, nil,
		},
		"key, full of old": {
			full(startedAt), ownAccount, domain.CreateKey{Key: asked}, "",
			facts(domain.KeyCreated{Key: made}),
		},
		"roll": {
			givenAccount(), ownAccount, roll, "",
			facts(domain.KeyRolled{KeyID: "key_1", ExpiresAtMillis: startedAt + 60_000, Key: made}),
		},
		"roll, no grace": {
			givenAccount(), ownAccount,
			domain.RollKey{KeyID: "key_1", Key: asked, GraceMillis: -5}, "",
			facts(domain.KeyRolled{KeyID: "key_1", ExpiresAtMillis: startedAt, Key: made}),
		},
		"roll, ends before": {
			givenAccount(domain.KeyCreated{Key: keyOf("key_3", startedAt+7)}), ownAccount,
			domain.RollKey{KeyID: "key_3", Key: asked, GraceMillis: 60_000}, "",
			facts(domain.KeyRolled{KeyID: "key_3", ExpiresAtMillis: startedAt + 7, Key: made}),
		},
		"roll twice": {
			givenAccount(domain.KeyRolled{
				KeyID:           "key_1",
				ExpiresAtMillis: startedAt + 5,
				Key:             keyOf("key_3", 0),
			}),
			ownAccount, roll, domain.CodeKeyRolled, nil,
		},
		"roll, full": {full(0), ownAccount, roll, domain.CodeTooManyKeys, nil},
		"key, at the quota": {
			givenAccount(domain.AccountCreated{AccountID: ownAccount, Updated: true,
				Quotas: domain.Counts{Keys: 1}}), ownAccount,
			domain.CreateKey{Key: asked}, domain.CodeTooManyKeys, nil,
		},
		"roll, unknown": {
			givenAccount(), ownAccount, domain.RollKey{KeyID: "key_9", Key: asked},
			domain.CodeNotFound, nil,
		},
		"roll, another's": {givenAccount(), "acc_other", roll, domain.CodeNotFound, nil},
		"revoke": {
			givenAccount(), ownAccount, domain.RevokeKey{KeyID: "key_1"}, "",
			facts(domain.KeyRevoked{KeyID: "key_1"}),
		},
		"revoke twice": {
			givenAccount(domain.KeyRevoked{KeyID: "key_1"}), ownAccount,
			domain.RevokeKey{KeyID: "key_1"}, domain.CodeNotFound, nil,
		},
		"revoke, another's": {
			givenAccount(), "acc_other", domain.RevokeKey{KeyID: "key_1"}, domain.CodeNotFound,
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, rejection := domain.DecideAccount(c.given, domain.Command{AccountID: c.from, Body: c.when},
				startedAt)
			expect(t, got, rejection, c.code, c.then...)
		})
	}
}

// A key can create, roll and revoke only keys with no more permissions, no later expiry and no
// wider networks than its own. The operator of the service, who needs no key, is not limited.
func TestAKeyGivesAtMostWhatItHas(t *testing.T) {
	const end = startedAt + 1000
	key := func(id string, end int64, cidrs []string, permissions ...domain.Permission) domain.Key {
		return domain.Key{
			ID:              id,
			Hash:            []byte(id),
			Permissions:     permissions,
			AllowedCIDRs:    cidrs,
			ExpiresAtMillis: end,
			CreatedAtMillis: startedAt,
		}
	}
	const write, read = domain.PermissionWrite, domain.PermissionRead
	near, inside := []string{"192.0.2.0/24", "2001:db8::/32"}, []string{"192.0.2.7/32"}
	wider, all4, all6 := []string{"192.0.0.0/16"}, []string{"0.0.0.0/0"}, []string{"::/0"}
	const permission, limit = domain.CodeMissingPermission, domain.CodeKeyLimit
	for name, c := range map[string]struct {
		caller, other domain.Key
		code          string
	}{
		"the same":         {key("c", end, near, write), key("o", end, near, write), ""},
		"less":             {key("c", 0, nil, write, read), key("o", end, near, read), ""},
		"a network inside": {key("c", 0, near, write), key("o", 0, inside, write), ""},
		"more permissions": {key("c", 0, nil, write), key("o", 0, nil, read), permission},
		"a later expiry":   {key("c", end, nil, write), key("o", end+1, nil, write), limit},
		"no expiry":        {key("c", end, nil, write), key("o", 0, nil, write), limit},
		"no networks":      {key("c", 0, near, write), key("o", 0, nil, write), limit},
		"a wider network":  {key("c", 0, near, write), key("o", 0, wider, write), limit},
		"a longer one of the same start": {
			key("c", 0, []string{"192.0.0.0/24"}, write), key("o", 0, wider, write), limit,
		},
		"one network more": {key("c", 0, inside, write), key("o", 0, near, write), limit},
		"another family":   {key("c", 0, all4, write), key("o", 0, all6, write), limit},
		"no network":       {key("c", 0, []string{"-"}, write), key("o", 0, near, write), limit},
		"the caller ended": {
			key("c", startedAt, nil, write), key("o", startedAt+1, nil, write), limit,
		},
	} {
		t.Run(name, func(t *testing.T) {
			account := givenAccount(domain.KeyCreated{Key: c.other}, domain.KeyCreated{Key: c.caller})
			if c.caller.Expired(startedAt) { // it stays in the state until the next change
				account.Keys = append(account.Keys, c.caller)
			}
			created, rolled := c.other, c.other
			created.ID, rolled.ID = "created", "rolled"
			for _, body := range []domain.CommandBody{
				domain.CreateKey{Key: created},
				domain.RollKey{KeyID: c.other.ID, Key: rolled},
				domain.RevokeKey{KeyID: c.other.ID},
			} {
				asked := domain.Command{AccountID: ownAccount, KeyID: c.caller.ID, Body: body}
				facts, rejection := domain.DecideAccount(account, asked, startedAt)
				if c.code == "" && (rejection != nil || len(facts) != 1) ||
					c.code != "" && (rejection == nil || rejection.Code != c.code || len(facts) > 0) {
					t.Errorf("%T: %+v, %v", body, rejection, facts)
				}
				asked.KeyID = ""
				if _, rejection := domain.DecideAccount(account, asked, startedAt); rejection != nil {
					t.Errorf("%T of the operator: %+v", body, rejection)
				}
				asked.KeyID = "revoked"
				if _, rejection := domain.DecideAccount(account, asked, startedAt); rejection == nil ||
					rejection.Code != domain.CodeKeyLimit {
					t.Errorf("%T of a revoked key: %+v", body, rejection)
				}
			}
		})
	}

	t.Run("a roll extends nothing", func(t *testing.T) {
		own := key("c", end, nil, write)
		for ends, code := range map[int64]string{end: "", end + 1: limit, 0: limit} {
			roll := domain.RollKey{KeyID: own.ID, Key: key("next", ends, nil, write)}
			asked := domain.Command{AccountID: ownAccount, KeyID: own.ID, Body: roll}
			state := givenAccount(domain.KeyCreated{Key: own})
			_, rejection := domain.DecideAccount(state, asked, startedAt)
			if rejection == nil && code != "" || rejection != nil && rejection.Code != code {
				t.Errorf("%d: %+v", ends, rejection)
			}
		}
	})
}

func TestAccountFold(t *testing.T) {
	a := givenAccount(domain.KeyRolled{
		KeyID:           "key_1",
		ExpiresAtMillis: startedAt + 5,
		Key:             keyOf("key_2", 0),
	})
	former, found := a.Key("key_1")
	if !found || former.RolledTo != "key_2" || former.Expired(startedAt+4) ||
		!former.Expired(startedAt+5) || len(a.Keys) != 2 {
		t.Fatalf("rolled to %+v", a)
	}
	if before := givenAccount(); before.Keys[0].RolledTo != "" {
		t.Error("a fold changes the state it was given")
	}
	later := domain.EvolveAccount(a,
		domain.Fact{Version: 9, AtMillis: startedAt + 5, Body: domain.KeyCreated{Key: keyOf("key_3", 0)}})
	if _, found := later.Key("key_1"); found || len(later.Keys) != 2 {
		t.Errorf("an expired key stays: %+v", later)
	}
	if revoked := givenAccount(domain.KeyRevoked{KeyID: "key_1"}); len(revoked.Keys) != 0 {
		t.Errorf("a revoked key stays: %+v", revoked)
	}
	handled := domain.EvolveAccount(a, domain.Fact{Version: 9, Body: domain.CommandHandled{}})
	if handled.Version != 9 || !reflect.DeepEqual(handled.Keys, a.Keys) {
		t.Errorf("%+v", handled)
	}
}

// Changing the email of an account keeps its keys and its creation time.
func TestAnAccountGetsAnotherEmail(t *testing.T) {
	a := givenAccount()
	updated := domain.EvolveAccount(a, domain.Fact{
		Version:  a.Version + 1,
		AtMillis: startedAt + 9,
		Body:     domain.AccountCreated{AccountID: a.ID, Email: "other", Updated: true},
	})
	want := a
	want.Email, want.Version = "other", a.Version+1
	if !reflect.DeepEqual(updated, want) {
		t.Errorf("%+v, not %+v", updated, want)
	}
}

// An account's first address comes first. An account without a first address gets no mail.
func TestWhereAnAccountGetsMail(t *testing.T) {
	more := []string{"b", "c"}
	for want, a := range map[string]domain.Account{
		"[]":      {MoreEmails: more},
		"[a]":     {Email: "a"},
		"[a b c]": {Email: "a", MoreEmails: more},
	} {
		if got := fmt.Sprint(a.Emails()); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestAKeyAllowsWhatItWasCreatedFor(t *testing.T) {
	for _, one := range domain.Permissions() {
		key := domain.Key{Permissions: []domain.Permission{one}}
		for _, p := range domain.Permissions() {
			if key.Allows(p) != (p == one) || (domain.Key{}).Allows(p) {
				t.Errorf("a key for %s: %s is %t", one, p, key.Allows(p))
			}
		}
	}
}

// An update without addresses keeps the addresses, an update without quotas keeps the quotas, and
// a quota that an update does not name stays as it is.
func TestQuotasAndEmailsChangeApart(t *testing.T) {
	const id = "acc_1"
	const first = "a@example.com"
	a := domain.Account{ID: id, Version: 1, Email: first, MoreEmails: []string{"b@example.com"}}
	for _, step := range []struct {
		ask   domain.UpdateAccount
		want  domain.Counts
		email string
	}{
		{domain.UpdateAccount{Quotas: domain.Counts{Watches: 5}}, domain.Counts{Watches: 5}, first},
		{domain.UpdateAccount{Email: "c@example.com"}, domain.Counts{Watches: 5}, "c@example.com"},
		{
			domain.UpdateAccount{Quotas: domain.Counts{Senders: 7}},
			domain.Counts{Watches: 5, Senders: 7}, "c@example.com",
		},
		{domain.UpdateAccount{Quotas: domain.Counts{Senders: 7}}, a.Quotas, ""},
	} {
		step.ask.AccountID = id
		facts, rejection := domain.DecideAccount(a, domain.Command{AccountID: id, Body: step.ask}, 9)
		if step.email == "" {
			if len(facts) != 0 {
				t.Errorf("%+v changes something: %+v", step.ask, facts)
			}
			continue
		}
		if rejection != nil || len(facts) != 1 {
			t.Fatalf("%+v: %+v, %+v", step.ask, facts, rejection)
		}
		a = domain.EvolveAccount(a, domain.Fact{Aggregate: id, Version: a.Version + 1, Body: facts[0]})
		if a.Quotas != step.want || a.Email != step.email {
			t.Errorf("%+v leaves %+v", step.ask, a)
		}
	}
}
