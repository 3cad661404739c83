package schemas

import (
	"google.golang.org/protobuf/proto"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// EncodeWatch encodes a row of the table "watches".
func EncodeWatch(w domain.Watch) Message { return pack("Watch", "", watchOut(w)) }

// DecodeWatch decodes a row of the table "watches".
func DecodeWatch(m Message) (domain.Watch, error) {
	return decodeAs(m, "Watch", watchIn)
}

// MarshalWatch encodes a watch for a task's store.
func MarshalWatch(w domain.Watch) []byte { return EncodeWatch(w).Value }

// UnmarshalWatch decodes a watch from a task's store.
func UnmarshalWatch(value []byte) (domain.Watch, error) {
	return unmarshalAs(value, watchIn)
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
		Parts:           partsOut(w),
		ExpiresAtMillis: w.ExpiresAtMillis,
		Once:            w.Once,
		Fulfilled:       fulfilmentOut(w.Fulfilled),
		MissedSince:     w.MissedSince,
	}
}

func watchIn(w *kafka.Watch) domain.Watch {
	return domain.Watch{
		ID:              w.GetId(),
		AccountID:       w.GetAccountId(),
		Version:         w.GetVersion(),
		WalletAddress:   w.GetWalletAddress(),
		Label:           w.GetLabel(),
		EndpointID:      w.GetEndpointId(),
		Rules:           rulesIn(w),
		EventTypes:      strings[domain.EventType](w.GetEventTypes()),
		CreatedAtMillis: w.GetCreatedAtMillis(),
		UpdatedAtMillis: w.GetUpdatedAtMillis(),
		Revision:        w.GetRevision(),
		DeletedAtMillis: w.GetDeletedAtMillis(),
		Covered:         mapped(w.GetCovered(), rangeIn),
		LiveSince:       w.GetLiveSince(),
		Backfill:        backfillIn(w.GetBackfill()),
		Parts:           partsIn(w),
		ExpiresAtMillis: w.GetExpiresAtMillis(),
		Once:            w.GetOnce(),
		Fulfilled:       fulfilmentIn(w.GetFulfilled()),
		MissedSince:     w.GetMissedSince(),
	}
}

func fulfilmentOut(f domain.Fulfilment) *kafka.Fulfilment {
	if !f.Is() {
		return nil
	}
	return &kafka.Fulfilment{
		PaymentId:      f.PaymentID,
		Ledger:         f.Ledger,
		ClosedAtMillis: f.ClosedAtMillis,
	}
}

func fulfilmentIn(f *kafka.Fulfilment) domain.Fulfilment {
	return domain.Fulfilment{
		PaymentID:      f.GetPaymentId(),
		Ledger:         f.GetLedger(),
		ClosedAtMillis: f.GetClosedAtMillis(),
	}
}

// rulesIn decodes the rules of a watch or of a backfill's part.
func rulesIn(m interface {
	GetAssets() []*kafka.Asset
	GetAmountRule() *kafka.AmountRule
	GetMemoRule() *kafka.MemoRule
	GetSenderAllowlist() []string
}) domain.Rules {
	return domain.Rules{
		Assets:          mapped(m.GetAssets(), assetIn),
		Amount:          amountRuleIn(m.GetAmountRule()),
		Memo:            memoRuleIn(m.GetMemoRule()),
		SenderAllowlist: m.GetSenderAllowlist(),
	}
}

func watchChangeOut(c domain.WatchChange) *kafka.WatchChange {
	out := &kafka.WatchChange{
		Label:           c.Label,
		EndpointId:      c.EndpointID,
		ExpiresAtMillis: c.ExpiresAtMillis,
	}
	if c.Assets != nil {
		out.Assets = &kafka.AssetList{List: mapped(*c.Assets, assetOut)}
	}
	if c.Amount != nil {
		out.AmountRule = amountRuleOut(*c.Amount)
	}
	if c.Memo != nil {
		out.MemoRule = memoRuleOut(*c.Memo)
	}
	if c.SenderAllowlist != nil {
		out.SenderAllowlist = &kafka.StringList{List: *c.SenderAllowlist}
	}
	if c.EventTypes != nil {
		out.EventTypes = &kafka.StringList{List: strings[string](*c.EventTypes)}
	}
	return out
}

func watchChangeIn(c *kafka.WatchChange) domain.WatchChange {
	var in domain.WatchChange
	if c == nil {
		return in
	}
	in.Label, in.EndpointID, in.ExpiresAtMillis = c.Label, c.EndpointId, c.ExpiresAtMillis
	if c.Assets != nil {
		in.Assets = pointer(mapped(c.GetAssets().GetList(), assetIn))
	}
	if c.AmountRule != nil {
		in.Amount = pointer(amountRuleIn(c.GetAmountRule()))
	}
	if c.MemoRule != nil {
		in.Memo = pointer(memoRuleIn(c.GetMemoRule()))
	}
	if c.SenderAllowlist != nil {
		in.SenderAllowlist = pointer(c.GetSenderAllowlist().GetList())
	}
	if c.EventTypes != nil {
		in.EventTypes = pointer(strings[domain.EventType](c.GetEventTypes().GetList()))
	}
	return in
}

func assetOut(a domain.Asset) *kafka.Asset { return &kafka.Asset{Code: a.Code, Issuer: a.Issuer} }

func assetIn(a *kafka.Asset) domain.Asset {
	return domain.Asset{Code: a.GetCode(), Issuer: a.GetIssuer()}
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

func watchCommandOut(meta *kafka.CommandMeta, body domain.WatchCommand) proto.Message {
	switch b := body.(type) {
	case domain.CreateWatch:
		return &kafka.CreateWatch{Meta: meta, Watch: watchOut(b.Watch)}
	case domain.UpdateWatch:
		return &kafka.UpdateWatch{
			Meta:       meta,
			WatchId:    b.WatchID,
			IfRevision: b.IfRevision,
			Change:     watchChangeOut(b.Change),
		}
	case domain.DeleteWatch:
		return &kafka.DeleteWatch{Meta: meta, WatchId: b.WatchID, IfRevision: b.IfRevision}
	case domain.BackfillWatch:
		return &kafka.BackfillWatch{
			Meta:         meta,
			WatchId:      b.WatchID,
			From:         b.From,
			To:           b.To,
			OfEndpointId: b.OfEndpointID,
		}
	case domain.RecordCoverage:
		return &kafka.RecordCoverage{
			Meta:      meta,
			WatchId:   b.WatchID,
			Request:   b.Request,
			From:      b.From,
			To:        b.To,
			Until:     b.Until,
			LiveSince: b.LiveSince,
			Problem:   b.Problem,
			NextFrom:  b.Next.From,
			NextTo:    b.Next.To,
			Part:      b.Part,

			NextEndpointId:  b.Next.EndpointID,
			NextMatchesFrom: b.Next.MatchesFrom,

			Fulfils:    fulfilmentOut(b.Fulfils),
			IfRevision: b.IfRevision,
			Matched:    b.Matched,
			Created:    b.Created,
			Missed:     b.Missed,
		}
	}
	panic(noForm(body))
}

var watchCommandForms = map[string]commandForm{
	"CreateWatch": command(func(m *kafka.CreateWatch) domain.CommandBody {
		return domain.CreateWatch{Watch: watchIn(m.GetWatch())}
	}),
	"UpdateWatch": command(func(m *kafka.UpdateWatch) domain.CommandBody {
		return domain.UpdateWatch{
			WatchID:    m.GetWatchId(),
			IfRevision: m.GetIfRevision(),
			Change:     watchChangeIn(m.GetChange()),
		}
	}),
	"DeleteWatch": command(func(m *kafka.DeleteWatch) domain.CommandBody {
		return domain.DeleteWatch{WatchID: m.GetWatchId(), IfRevision: m.GetIfRevision()}
	}),
	"BackfillWatch": command(func(m *kafka.BackfillWatch) domain.CommandBody {
		return domain.BackfillWatch{
			WatchID:      m.GetWatchId(),
			From:         m.GetFrom(),
			To:           m.GetTo(),
			OfEndpointID: m.GetOfEndpointId(),
		}
	}),
	"RecordCoverage": command(func(m *kafka.RecordCoverage) domain.CommandBody {
		return domain.RecordCoverage{
			WatchID:   m.GetWatchId(),
			Request:   m.GetRequest(),
			From:      m.GetFrom(),
			To:        m.GetTo(),
			Until:     m.GetUntil(),
			LiveSince: m.GetLiveSince(),
			Problem:   m.GetProblem(),
			Part:      m.GetPart(),
			Next: domain.NextPart{
				Range:       domain.Range{From: m.GetNextFrom(), To: m.GetNextTo()},
				EndpointID:  m.GetNextEndpointId(),
				MatchesFrom: m.GetNextMatchesFrom(),
			},
			Fulfils:    fulfilmentIn(m.GetFulfils()),
			IfRevision: m.GetIfRevision(),
			Matched:    m.GetMatched(),
			Created:    m.GetCreated(),
			Missed:     m.GetMissed(),
		}
	}),
}

func watchFactOut(meta *kafka.FactMeta, body domain.WatchFact) proto.Message {
	switch b := body.(type) {
	case domain.WatchCreated:
		return &kafka.WatchCreated{Meta: meta, Watch: watchOut(b.Watch)}
	case domain.WatchUpdated:
		return &kafka.WatchUpdated{Meta: meta, Change: watchChangeOut(b.Change)}
	case domain.WatchDeleted:
		return &kafka.WatchDeleted{Meta: meta}
	case domain.BackfillRequested:
		return &kafka.BackfillRequested{Meta: meta, From: b.From, To: b.To}
	case domain.RangeCovered:
		return &kafka.RangeCovered{
			Meta:      meta,
			Request:   b.Request,
			From:      b.From,
			To:        b.To,
			Until:     b.Until,
			LiveSince: b.LiveSince,
			Part:      b.Part,
			Fulfilled: fulfilmentOut(b.Fulfilled),
			Next:      b.Next,
			Matched:   b.Matched,
			Created:   b.Created,
			Missed:    b.Missed,
		}
	case domain.PartBegun:
		return &kafka.PartBegun{
			Meta:        meta,
			Request:     b.Request,
			From:        b.From,
			To:          b.To,
			MatchesFrom: b.MatchesFrom,
		}
	case domain.BackfillStopped:
		return &kafka.BackfillStopped{
			Meta:    meta,
			Request: b.Request,
			Problem: b.Problem,
			Next:    b.Next,
		}
	}
	panic(noForm(body))
}

var watchFactForms = map[string]factForm{
	"WatchCreated":      fact(watchCreatedIn),
	"WatchUpdated":      fact(watchUpdatedIn),
	"WatchDeleted":      fact(watchDeletedIn),
	"BackfillRequested": fact(backfillRequestedIn),
	"RangeCovered":      fact(rangeCoveredIn),
	"PartBegun":         fact(partBegunIn),
	"BackfillStopped":   fact(backfillStoppedIn),
}

func watchCreatedIn(m *kafka.WatchCreated) domain.FactBody {
	return domain.WatchCreated{Watch: watchIn(m.GetWatch())}
}

func watchUpdatedIn(m *kafka.WatchUpdated) domain.FactBody {
	return domain.WatchUpdated{Change: watchChangeIn(m.GetChange())}
}

func watchDeletedIn(*kafka.WatchDeleted) domain.FactBody { return domain.WatchDeleted{} }
