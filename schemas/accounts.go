package schemas

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// EncodeAccount encodes a row of the table "accounts".
func EncodeAccount(a domain.Account) Message { return pack("Account", "", accountOut(a)) }

// DecodeAccount decodes a row of the table "accounts".
func DecodeAccount(m Message) (domain.Account, error) {
	return decodeAs(m, "Account", accountIn)
}

// MarshalAccount encodes an account for a task's store.
func MarshalAccount(a domain.Account) []byte { return EncodeAccount(a).Value }

// UnmarshalAccount decodes an account from a task's store.
func UnmarshalAccount(value []byte) (domain.Account, error) {
	return unmarshalAs(value, accountIn)
}

func accountOut(a domain.Account) *kafka.Account {
	return &kafka.Account{
		Id:              a.ID,
		Version:         a.Version,
		Email:           a.Email,
		Keys:            mapped(a.Keys, keyOut),
		CreatedAtMillis: a.CreatedAtMillis,
		MoreEmails:      a.MoreEmails,
		Quotas:          countsOut(a.Quotas),
	}
}

func countsOut(c domain.Counts) *kafka.Counts {
	if c == (domain.Counts{}) {
		return nil
	}
	return &kafka.Counts{
		Endpoints:   c.Endpoints,
		Watches:     c.Watches,
		Senders:     c.Senders,
		Keys:        c.Keys,
		Reads:       c.Reads,
		Backfills:   c.Backfills,
		StoredBytes: c.StoredBytes,
	}
}

func countsIn(c *kafka.Counts) domain.Counts {
	return domain.Counts{
		Endpoints:   c.GetEndpoints(),
		Watches:     c.GetWatches(),
		Senders:     c.GetSenders(),
		Keys:        c.GetKeys(),
		Reads:       c.GetReads(),
		Backfills:   c.GetBackfills(),
		StoredBytes: c.GetStoredBytes(),
	}
}

func accountIn(a *kafka.Account) domain.Account {
	return domain.Account{
		ID:              a.GetId(),
		Version:         a.GetVersion(),
		Email:           a.GetEmail(),
		Keys:            mapped(a.GetKeys(), keyIn),
		CreatedAtMillis: a.GetCreatedAtMillis(),
		MoreEmails:      a.GetMoreEmails(),
		Quotas:          countsIn(a.GetQuotas()),
	}
}

func keyOut(k domain.Key) *kafka.Key {
	return &kafka.Key{
		Id:              k.ID,
		Name:            k.Name,
		Hash:            k.Hash,
		Permissions:     strings[string](k.Permissions),
		AllowedCidrs:    k.AllowedCIDRs,
		CreatedAtMillis: k.CreatedAtMillis,
		ExpiresAtMillis: k.ExpiresAtMillis,
		RolledTo:        k.RolledTo,
	}
}

func keyIn(k *kafka.Key) domain.Key {
	return domain.Key{
		ID:              k.GetId(),
		Name:            k.GetName(),
		Hash:            k.GetHash(),
		Permissions:     strings[domain.Permission](k.GetPermissions()),
		AllowedCIDRs:    k.GetAllowedCidrs(),
		CreatedAtMillis: k.GetCreatedAtMillis(),
		ExpiresAtMillis: k.GetExpiresAtMillis(),
		RolledTo:        k.GetRolledTo(),
	}
}

func accountCommandOut(meta *kafka.CommandMeta, body domain.AccountCommand) proto.Message {
	switch b := body.(type) {
	case domain.CreateAccount:
		return &kafka.CreateAccount{
			Meta:       meta,
			AccountId:  b.AccountID,
			Email:      b.Email,
			MoreEmails: b.MoreEmails,
			Key:        keyOut(b.Key),
		}
	case domain.UpdateAccount:
		return &kafka.CreateAccount{
			Meta:       meta,
			AccountId:  b.AccountID,
			Email:      b.Email,
			MoreEmails: b.MoreEmails,
			Update:     true,
			Quotas:     countsOut(b.Quotas),
		}
	case domain.CreateKey:
		return &kafka.CreateKey{Meta: meta, AccountId: b.AccountID, Key: keyOut(b.Key)}
	case domain.RollKey:
		return &kafka.RollKey{
			Meta:        meta,
			AccountId:   b.AccountID,
			KeyId:       b.KeyID,
			Key:         keyOut(b.Key),
			GraceMillis: b.GraceMillis,
		}
	case domain.RevokeKey:
		return &kafka.RevokeKey{Meta: meta, AccountId: b.AccountID, KeyId: b.KeyID}
	}
	panic(noForm(body))
}

var accountCommandForms = map[string]commandForm{
	"CreateAccount": command(func(m *kafka.CreateAccount) domain.CommandBody {
		if m.GetUpdate() {
			return domain.UpdateAccount{
				AccountID:  m.GetAccountId(),
				Email:      m.GetEmail(),
				MoreEmails: m.GetMoreEmails(),
				Quotas:     countsIn(m.GetQuotas()),
			}
		}
		return domain.CreateAccount{
			AccountID:  m.GetAccountId(),
			Email:      m.GetEmail(),
			MoreEmails: m.GetMoreEmails(),
			Key:        keyIn(m.GetKey()),
		}
	}),
	"CreateKey": command(func(m *kafka.CreateKey) domain.CommandBody {
		return domain.CreateKey{AccountID: m.GetAccountId(), Key: keyIn(m.GetKey())}
	}),
	"RollKey": command(func(m *kafka.RollKey) domain.CommandBody {
		return domain.RollKey{
			AccountID:   m.GetAccountId(),
			KeyID:       m.GetKeyId(),
			Key:         keyIn(m.GetKey()),
			GraceMillis: m.GetGraceMillis(),
		}
	}),
	"RevokeKey": command(func(m *kafka.RevokeKey) domain.CommandBody {
		return domain.RevokeKey{AccountID: m.GetAccountId(), KeyID: m.GetKeyId()}
	}),
}

func accountFactOut(meta *kafka.FactMeta, body domain.AccountFact) proto.Message {
	switch b := body.(type) {
	case domain.AccountCreated:
		return &kafka.AccountCreated{
			Meta:       meta,
			AccountId:  b.AccountID,
			Email:      b.Email,
			MoreEmails: b.MoreEmails,
			Updated:    b.Updated,
			Quotas:     countsOut(b.Quotas),
		}
	case domain.KeyCreated:
		return &kafka.KeyCreated{Meta: meta, Key: keyOut(b.Key)}
	case domain.KeyRolled:
		return &kafka.KeyRolled{
			Meta:            meta,
			KeyId:           b.KeyID,
			ExpiresAtMillis: b.ExpiresAtMillis,
			Key:             keyOut(b.Key),
		}
	case domain.KeyRevoked:
		return &kafka.KeyRevoked{Meta: meta, KeyId: b.KeyID}
	}
	panic(noForm(body))
}

var accountFactForms = map[string]factForm{
	"AccountCreated": fact(accountCreatedIn),
	"KeyCreated":     fact(keyCreatedIn),
	"KeyRolled":      fact(keyRolledIn),
	"KeyRevoked":     fact(keyRevokedIn),
}

func accountCreatedIn(m *kafka.AccountCreated) domain.FactBody {
	return domain.AccountCreated{
		AccountID:  m.GetAccountId(),
		Email:      m.GetEmail(),
		MoreEmails: m.GetMoreEmails(),
		Updated:    m.GetUpdated(),
		Quotas:     countsIn(m.GetQuotas()),
	}
}

func keyCreatedIn(m *kafka.KeyCreated) domain.FactBody {
	return domain.KeyCreated{Key: keyIn(m.GetKey())}
}

func keyRolledIn(m *kafka.KeyRolled) domain.FactBody {
	return domain.KeyRolled{
		KeyID:           m.GetKeyId(),
		ExpiresAtMillis: m.GetExpiresAtMillis(),
		Key:             keyIn(m.GetKey()),
	}
}

func keyRevokedIn(m *kafka.KeyRevoked) domain.FactBody {
	return domain.KeyRevoked{KeyID: m.GetKeyId()}
}

// EncodeKeyUse encodes a record of the topic "key-uses": the time when a key was last used.
func EncodeKeyUse(atMillis int64) Message {
	return pack("KeyUse", "", timestamppb.New(time.UnixMilli(atMillis)))
}

// DecodeKeyUse decodes a record of the topic "key-uses".
func DecodeKeyUse(m Message) (atMillis int64, err error) {
	var at timestamppb.Timestamp
	err = unpackAs(m, "KeyUse", &at)
	return at.AsTime().UnixMilli(), err
}
