package schemas

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// EncodeAccount writes a row of the table "accounts".
func EncodeAccount(a domain.Account) Message { return pack("Account", "", accountOut(a)) }

// EncodeEndpoint writes a row of the table "endpoints".
func EncodeEndpoint(e domain.Endpoint) Message { return pack("Endpoint", "", endpointOut(e)) }

// EncodeWatch writes a row of the table "watches".
func EncodeWatch(w domain.Watch) Message { return pack("Watch", "", watchOut(w)) }

// DecodeAccount reads a row of the table "accounts".
func DecodeAccount(m Message) (domain.Account, error) {
	var row kafka.Account
	err := unpackAs(m, "Account", &row)
	return accountIn(&row), err
}

// DecodeEndpoint reads a row of the table "endpoints".
func DecodeEndpoint(m Message) (domain.Endpoint, error) {
	var row kafka.Endpoint
	err := unpackAs(m, "Endpoint", &row)
	return endpointIn(&row), err
}

// DecodeWatch reads a row of the table "watches".
func DecodeWatch(m Message) (domain.Watch, error) {
	var row kafka.Watch
	err := unpackAs(m, "Watch", &row)
	return watchIn(&row), err
}

func unpackAs(m Message, typ string, into proto.Message) error {
	if m.Type != typ {
		return fmt.Errorf("schemas: found %q where %s belongs", m.Type, typ)
	}
	return unpack(m, into)
}

func strings[Out, In ~string](in []In) []Out {
	if len(in) == 0 {
		return nil
	}
	out := make([]Out, len(in))
	for i, s := range in {
		out[i] = Out(s)
	}
	return out
}

func mapped[Out, In any](in []In, f func(In) Out) []Out {
	if len(in) == 0 {
		return nil
	}
	out := make([]Out, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

func keyOut(k domain.Key) *kafka.Key {
	return &kafka.Key{Id: k.ID, Name: k.Name, Hash: k.Hash, Permissions: strings[string](k.Permissions), CreatedAtMillis: k.CreatedAtMillis}
}

func keyIn(k *kafka.Key) domain.Key {
	return domain.Key{ID: k.GetId(), Name: k.GetName(), Hash: k.GetHash(), Permissions: strings[domain.Permission](k.GetPermissions()), CreatedAtMillis: k.GetCreatedAtMillis()}
}

func accountOut(a domain.Account) *kafka.Account {
	return &kafka.Account{Id: a.ID, Version: a.Version, Email: a.Email, Keys: mapped(a.Keys, keyOut), CreatedAtMillis: a.CreatedAtMillis}
}

func accountIn(a *kafka.Account) domain.Account {
	return domain.Account{ID: a.GetId(), Version: a.GetVersion(), Email: a.GetEmail(), Keys: mapped(a.GetKeys(), keyIn), CreatedAtMillis: a.GetCreatedAtMillis()}
}

func secretOut(s domain.SealedSecret) *kafka.SealedSecret {
	return &kafka.SealedSecret{Sealed: s.Sealed, CreatedAtMillis: s.CreatedAtMillis, ExpiresAtMillis: s.ExpiresAtMillis}
}

func secretIn(s *kafka.SealedSecret) domain.SealedSecret {
	return domain.SealedSecret{Sealed: s.GetSealed(), CreatedAtMillis: s.GetCreatedAtMillis(), ExpiresAtMillis: s.GetExpiresAtMillis()}
}

func endpointOut(e domain.Endpoint) *kafka.Endpoint {
	return &kafka.Endpoint{
		Id: e.ID, AccountId: e.AccountID, Version: e.Version, Url: e.URL, Description: e.Description,
		Secrets: mapped(e.Secrets, secretOut), Status: string(e.Status), ConsecutiveFailures: uint32(e.ConsecutiveFailures),
		CreatedAtMillis: e.CreatedAtMillis, UpdatedAtMillis: e.UpdatedAtMillis,
	}
}

func endpointIn(e *kafka.Endpoint) domain.Endpoint {
	return domain.Endpoint{
		ID: e.GetId(), AccountID: e.GetAccountId(), Version: e.GetVersion(), URL: e.GetUrl(), Description: e.GetDescription(),
		Secrets: mapped(e.GetSecrets(), secretIn), Status: domain.EndpointStatus(e.GetStatus()), ConsecutiveFailures: int(e.GetConsecutiveFailures()),
		CreatedAtMillis: e.GetCreatedAtMillis(), UpdatedAtMillis: e.GetUpdatedAtMillis(),
	}
}

func assetOut(a domain.Asset) *kafka.Asset { return &kafka.Asset{Code: a.Code, Issuer: a.Issuer} }

func assetIn(a *kafka.Asset) domain.Asset {
	return domain.Asset{Code: a.GetCode(), Issuer: a.GetIssuer()}
}

func memoOut(m domain.Memo) *kafka.Memo {
	if m.Type == domain.MemoNone {
		return nil
	}
	return &kafka.Memo{Type: string(m.Type), Raw: m.Raw}
}

func memoIn(m *kafka.Memo) domain.Memo {
	return domain.Memo{Type: domain.MemoType(m.GetType()), Raw: m.GetRaw()}
}

func watchOut(w domain.Watch) *kafka.Watch {
	r := w.Rules
	return &kafka.Watch{
		Id: w.ID, AccountId: w.AccountID, Version: w.Version, WalletAddress: w.WalletAddress, Label: w.Label, EndpointId: w.EndpointID,
		Assets:          mapped(r.Assets, assetOut),
		AmountRule:      &kafka.AmountRule{Kind: string(r.Amount.Kind), AmountStroops: r.Amount.AmountStroops, MinStroops: r.Amount.MinStroops, MaxStroops: r.Amount.MaxStroops},
		MemoRule:        &kafka.MemoRule{Kind: string(r.Memo.Kind), Value: memoOut(r.Memo.Value)},
		SenderAllowlist: r.SenderAllowlist, EventTypes: strings[string](w.EventTypes),
		CreatedAtMillis: w.CreatedAtMillis, UpdatedAtMillis: w.UpdatedAtMillis,
	}
}

func watchIn(w *kafka.Watch) domain.Watch {
	amount, memo := w.GetAmountRule(), w.GetMemoRule()
	return domain.Watch{
		ID: w.GetId(), AccountID: w.GetAccountId(), Version: w.GetVersion(), WalletAddress: w.GetWalletAddress(), Label: w.GetLabel(), EndpointID: w.GetEndpointId(),
		Rules: domain.Rules{
			Assets:          mapped(w.GetAssets(), assetIn),
			Amount:          domain.AmountRule{Kind: domain.AmountKind(amount.GetKind()), AmountStroops: amount.GetAmountStroops(), MinStroops: amount.GetMinStroops(), MaxStroops: amount.GetMaxStroops()},
			Memo:            domain.MemoRule{Kind: domain.MemoKind(memo.GetKind()), Value: memoIn(memo.GetValue())},
			SenderAllowlist: w.GetSenderAllowlist(),
		},
		EventTypes: strings[domain.EventType](w.GetEventTypes()), CreatedAtMillis: w.GetCreatedAtMillis(), UpdatedAtMillis: w.GetUpdatedAtMillis(),
	}
}

func paymentOut(p domain.Payment) *kafka.Payment {
	return &kafka.Payment{
		Id: p.ID, TxHash: p.TxHash, Ledger: p.Ledger, ClosedAtMillis: p.ClosedAtMillis, Operation: p.Operation,
		From: p.From, To: p.To, ToMuxedId: p.ToMuxedID, Memo: memoOut(p.Memo), Asset: assetOut(p.Asset), AmountStroops: p.AmountStroops,
	}
}

func paymentIn(p *kafka.Payment) domain.Payment {
	return domain.Payment{
		ID: p.GetId(), TxHash: p.GetTxHash(), Ledger: p.GetLedger(), ClosedAtMillis: p.GetClosedAtMillis(), Operation: p.GetOperation(),
		From: p.GetFrom(), To: p.GetTo(), ToMuxedID: p.GetToMuxedId(), Memo: memoIn(p.GetMemo()), Asset: assetIn(p.GetAsset()), AmountStroops: p.GetAmountStroops(),
	}
}

func eventOut(e domain.Event) *kafka.Event {
	return &kafka.Event{Id: e.ID, Type: string(e.Type), CreatedAtMillis: e.CreatedAtMillis, Body: e.Body}
}

func eventIn(e *kafka.Event) domain.Event {
	return domain.Event{ID: e.GetId(), Type: domain.EventType(e.GetType()), CreatedAtMillis: e.GetCreatedAtMillis(), Body: e.GetBody()}
}

func answerOut(a domain.Answer) *kafka.Answer {
	switch {
	case a.Rejection != nil:
		return &kafka.Answer{Outcome: &kafka.Answer_Rejection{Rejection: &kafka.Rejection{Code: a.Rejection.Code, Detail: a.Rejection.Detail}}}
	case a.Account != nil:
		return &kafka.Answer{Outcome: &kafka.Answer_Account{Account: accountOut(*a.Account)}}
	case a.Endpoint != nil:
		return &kafka.Answer{Outcome: &kafka.Answer_Endpoint{Endpoint: endpointOut(*a.Endpoint)}}
	case a.Watch != nil:
		return &kafka.Answer{Outcome: &kafka.Answer_Watch{Watch: watchOut(*a.Watch)}}
	}
	return &kafka.Answer{}
}

func answerIn(a *kafka.Answer) domain.Answer {
	switch o := a.GetOutcome().(type) {
	case *kafka.Answer_Rejection:
		return domain.Answer{Rejection: &domain.Rejection{Code: o.Rejection.GetCode(), Detail: o.Rejection.GetDetail()}}
	case *kafka.Answer_Account:
		row := accountIn(o.Account)
		return domain.Answer{Account: &row}
	case *kafka.Answer_Endpoint:
		row := endpointIn(o.Endpoint)
		return domain.Answer{Endpoint: &row}
	case *kafka.Answer_Watch:
		row := watchIn(o.Watch)
		return domain.Answer{Watch: &row}
	}
	return domain.Answer{}
}
