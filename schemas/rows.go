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

func accountOut(a domain.Account) *kafka.Account {
	return &kafka.Account{
		Id:              a.ID,
		Version:         a.Version,
		Email:           a.Email,
		Keys:            mapped(a.Keys, keyOut),
		CreatedAtMillis: a.CreatedAtMillis,
	}
}

func accountIn(a *kafka.Account) domain.Account {
	return domain.Account{
		ID:              a.GetId(),
		Version:         a.GetVersion(),
		Email:           a.GetEmail(),
		Keys:            mapped(a.GetKeys(), keyIn),
		CreatedAtMillis: a.GetCreatedAtMillis(),
	}
}

func secretOut(s domain.SealedSecret) *kafka.SealedSecret {
	return &kafka.SealedSecret{
		Sealed:          s.Sealed,
		CreatedAtMillis: s.CreatedAtMillis,
		ExpiresAtMillis: s.ExpiresAtMillis,
	}
}

func secretIn(s *kafka.SealedSecret) domain.SealedSecret {
	return domain.SealedSecret{
		Sealed:          s.GetSealed(),
		CreatedAtMillis: s.GetCreatedAtMillis(),
		ExpiresAtMillis: s.GetExpiresAtMillis(),
	}
}

func endpointOut(e domain.Endpoint) *kafka.Endpoint {
	return &kafka.Endpoint{
		Id:                  e.ID,
		AccountId:           e.AccountID,
		Version:             e.Version,
		Url:                 e.URL,
		Description:         e.Description,
		Secrets:             mapped(e.Secrets, secretOut),
		Status:              string(e.Status),
		ConsecutiveFailures: uint32(e.ConsecutiveFailures),
		CreatedAtMillis:     e.CreatedAtMillis,
		UpdatedAtMillis:     e.UpdatedAtMillis,
		DisabledReason:      string(e.DisabledReason),
		DisabledAtMillis:    e.DisabledAtMillis,
		Revision:            e.Revision,
		EnabledVersion:      e.EnabledVersion,
		Epoch:               e.Epoch,
		Headers:             mapped(e.Headers, headerOut),
		RateLimitPerSecond:  uint32(e.RateLimitPerSecond),
		DeletedAtMillis:     e.DeletedAtMillis,
	}
}

func endpointIn(e *kafka.Endpoint) domain.Endpoint {
	return domain.Endpoint{
		ID:                  e.GetId(),
		AccountID:           e.GetAccountId(),
		Version:             e.GetVersion(),
		URL:                 e.GetUrl(),
		Description:         e.GetDescription(),
		Secrets:             mapped(e.GetSecrets(), secretIn),
		Status:              domain.EndpointStatus(e.GetStatus()),
		ConsecutiveFailures: int(e.GetConsecutiveFailures()),
		CreatedAtMillis:     e.GetCreatedAtMillis(),
		UpdatedAtMillis:     e.GetUpdatedAtMillis(),
		DisabledReason:      domain.DisabledReason(e.GetDisabledReason()),
		DisabledAtMillis:    e.GetDisabledAtMillis(),
		Revision:            e.GetRevision(),
		EnabledVersion:      e.GetEnabledVersion(),
		Epoch:               e.GetEpoch(),
		Headers:             mapped(e.GetHeaders(), headerIn),
		RateLimitPerSecond:  int(e.GetRateLimitPerSecond()),
		DeletedAtMillis:     e.GetDeletedAtMillis(),
	}
}

func headerOut(
	h domain.Header,
) *kafka.Header {
	return &kafka.Header{Name: h.Name, Sealed: h.Sealed}
}

func headerIn(h *kafka.Header) domain.Header {
	return domain.Header{Name: h.GetName(), Sealed: h.GetSealed()}
}

func resealedOut(r domain.Resealed) *kafka.Resealed {
	return &kafka.Resealed{Was: r.Was, Sealed: r.Sealed}
}

func resealedIn(r *kafka.Resealed) domain.Resealed {
	return domain.Resealed{Was: r.GetWas(), Sealed: r.GetSealed()}
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

func amountRuleOut(r domain.AmountRule) *kafka.AmountRule {
	return &kafka.AmountRule{
		Kind:          string(r.Kind),
		AmountStroops: r.AmountStroops,
		MinStroops:    r.MinStroops,
		MaxStroops:    r.MaxStroops,
	}
}

func amountRuleIn(r *kafka.AmountRule) domain.AmountRule {
	return domain.AmountRule{
		Kind:          domain.AmountKind(r.GetKind()),
		AmountStroops: r.GetAmountStroops(),
		MinStroops:    r.GetMinStroops(),
		MaxStroops:    r.GetMaxStroops(),
	}
}

func memoRuleOut(r domain.MemoRule) *kafka.MemoRule {
	return &kafka.MemoRule{Kind: string(r.Kind), Value: memoOut(r.Value)}
}

func memoRuleIn(r *kafka.MemoRule) domain.MemoRule {
	return domain.MemoRule{Kind: domain.MemoKind(r.GetKind()), Value: memoIn(r.GetValue())}
}

func watchOut(w domain.Watch) *kafka.Watch {
	r := w.Rules
	return &kafka.Watch{
		Id:              w.ID,
		AccountId:       w.AccountID,
		Version:         w.Version,
		WalletAddress:   w.WalletAddress,
		Label:           w.Label,
		EndpointId:      w.EndpointID,
		Assets:          mapped(r.Assets, assetOut),
		AmountRule:      amountRuleOut(r.Amount),
		MemoRule:        memoRuleOut(r.Memo),
		SenderAllowlist: r.SenderAllowlist,
		EventTypes:      strings[string](w.EventTypes),
		CreatedAtMillis: w.CreatedAtMillis,
		UpdatedAtMillis: w.UpdatedAtMillis,
		Revision:        w.Revision,
		DeletedAtMillis: w.DeletedAtMillis,
		Covered:         mapped(w.Covered, rangeOut),
		LiveSince:       w.LiveSince,
		Backfill:        backfillOut(w.Backfill),
		Parts:           mapped(w.Parts, partOut),
	}
}

func watchIn(w *kafka.Watch) domain.Watch {
	return domain.Watch{
		ID:            w.GetId(),
		AccountID:     w.GetAccountId(),
		Version:       w.GetVersion(),
		WalletAddress: w.GetWalletAddress(),
		Label:         w.GetLabel(),
		EndpointID:    w.GetEndpointId(),
		Rules: domain.Rules{
			Assets:          mapped(w.GetAssets(), assetIn),
			Amount:          amountRuleIn(w.GetAmountRule()),
			Memo:            memoRuleIn(w.GetMemoRule()),
			SenderAllowlist: w.GetSenderAllowlist(),
		},
		EventTypes:      strings[domain.EventType](w.GetEventTypes()),
		CreatedAtMillis: w.GetCreatedAtMillis(),
		UpdatedAtMillis: w.GetUpdatedAtMillis(),
		Revision:        w.GetRevision(),
		DeletedAtMillis: w.GetDeletedAtMillis(),
		Covered:         mapped(w.GetCovered(), rangeIn),
		LiveSince:       w.GetLiveSince(),
		Backfill:        backfillIn(w.GetBackfill()),
		Parts:           mapped(w.GetParts(), partIn),
	}
}

func rangeOut(
	r domain.Range,
) *kafka.LedgerRange {
	return &kafka.LedgerRange{From: r.From, To: r.To}
}

func rangeIn(r *kafka.LedgerRange) domain.Range {
	return domain.Range{From: r.GetFrom(), To: r.GetTo()}
}

func partOut(p domain.Part) *kafka.BackfillPart {
	return &kafka.BackfillPart{
		Range:           rangeOut(p.Range),
		BegunAtMillis:   p.BegunAtMillis,
		Label:           p.Label,
		EndpointId:      p.EndpointID,
		Assets:          mapped(p.Rules.Assets, assetOut),
		AmountRule:      amountRuleOut(p.Rules.Amount),
		MemoRule:        memoRuleOut(p.Rules.Memo),
		SenderAllowlist: p.Rules.SenderAllowlist,
		EventTypes:      strings[string](p.EventTypes),
	}
}

func partIn(p *kafka.BackfillPart) domain.Part {
	return domain.Part{
		Range:         rangeIn(p.GetRange()),
		BegunAtMillis: p.GetBegunAtMillis(),
		Label:         p.GetLabel(),
		EndpointID:    p.GetEndpointId(),
		Rules: domain.Rules{
			Assets:          mapped(p.GetAssets(), assetIn),
			Amount:          amountRuleIn(p.GetAmountRule()),
			Memo:            memoRuleIn(p.GetMemoRule()),
			SenderAllowlist: p.GetSenderAllowlist(),
		},
		EventTypes: strings[domain.EventType](p.GetEventTypes()),
	}
}

// backfillOut is nothing for a watch that nobody asked a backfill of.
func backfillOut(b domain.Backfill) *kafka.Backfill {
	if b == (domain.Backfill{}) {
		return nil
	}
	return &kafka.Backfill{
		Request:           b.Request,
		From:              b.From,
		To:                b.To,
		Until:             b.Until,
		Next:              b.Next,
		RequestedAtMillis: b.RequestedAtMillis,
		EndedAtMillis:     b.EndedAtMillis,
		Problem:           b.Problem,
	}
}

func backfillIn(b *kafka.Backfill) domain.Backfill {
	return domain.Backfill{
		Request:           b.GetRequest(),
		From:              b.GetFrom(),
		To:                b.GetTo(),
		Until:             b.GetUntil(),
		Next:              b.GetNext(),
		RequestedAtMillis: b.GetRequestedAtMillis(),
		EndedAtMillis:     b.GetEndedAtMillis(),
		Problem:           b.GetProblem(),
	}
}

func paymentOut(p domain.Payment) *kafka.Payment {
	return &kafka.Payment{
		Id:             p.ID,
		TxHash:         p.TxHash,
		Ledger:         p.Ledger,
		ClosedAtMillis: p.ClosedAtMillis,
		Operation:      p.Operation,
		From:           p.From,
		To:             p.To,
		ToMuxedId:      p.ToMuxedID,
		Memo:           memoOut(p.Memo),
		Asset:          assetOut(p.Asset),
		AmountStroops:  p.AmountStroops,
	}
}

func paymentIn(p *kafka.Payment) domain.Payment {
	return domain.Payment{
		ID:             p.GetId(),
		TxHash:         p.GetTxHash(),
		Ledger:         p.GetLedger(),
		ClosedAtMillis: p.GetClosedAtMillis(),
		Operation:      p.GetOperation(),
		From:           p.GetFrom(),
		To:             p.GetTo(),
		ToMuxedID:      p.GetToMuxedId(),
		Memo:           memoIn(p.GetMemo()),
		Asset:          assetIn(p.GetAsset()),
		AmountStroops:  p.GetAmountStroops(),
	}
}

func eventOut(e domain.Event) *kafka.Event {
	return &kafka.Event{
		Id:              e.ID,
		Type:            string(e.Type),
		CreatedAtMillis: e.CreatedAtMillis,
		Body:            e.Body,
	}
}

func eventIn(e *kafka.Event) domain.Event {
	return domain.Event{
		ID:              e.GetId(),
		Type:            domain.EventType(e.GetType()),
		CreatedAtMillis: e.GetCreatedAtMillis(),
		Body:            e.GetBody(),
	}
}
