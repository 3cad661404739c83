package schemas

import (
	"slices"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

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
		Matched:           b.Matched,
		Skipped:           b.Skipped,
		Created:           b.Created,
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
		Matched:           b.GetMatched(),
		Skipped:           b.GetSkipped(),
		Created:           b.GetCreated(),
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

// partsOut encodes a watch's open parts, omitting senders that are the same as the watch's.
func partsOut(w domain.Watch) []*kafka.BackfillPart {
	parts := mapped(w.Parts, partOut)
	for _, p := range parts {
		p.SendersOfWatch = len(p.GetSenderAllowlist()) > 0 &&
			slices.Equal(p.GetSenderAllowlist(), w.Rules.SenderAllowlist)
		if p.GetSendersOfWatch() {
			p.SenderAllowlist = nil
		}
	}
	return parts
}

func partsIn(w *kafka.Watch) []domain.Part {
	parts := mapped(w.GetParts(), partIn)
	for i, p := range w.GetParts() {
		if p.GetSendersOfWatch() {
			parts[i].Rules.SenderAllowlist = w.GetSenderAllowlist()
		}
	}
	return parts
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
		Version:         p.Version,
		MatchesFrom:     p.MatchesFrom,
		ExpiresAtMillis: p.ExpiresAtMillis,
		Revision:        p.Revision,
	}
}

func partIn(p *kafka.BackfillPart) domain.Part {
	return domain.Part{
		Range:         rangeIn(p.GetRange()),
		BegunAtMillis: p.GetBegunAtMillis(),
		Label:         p.GetLabel(),
		EndpointID:    p.GetEndpointId(),
		Rules:         rulesIn(p),
		EventTypes:    strings[domain.EventType](p.GetEventTypes()),
		Version:       p.GetVersion(),
		MatchesFrom:   p.GetMatchesFrom(),

		ExpiresAtMillis: p.GetExpiresAtMillis(),
		Revision:        p.GetRevision(),
	}
}

func backfillRequestedIn(m *kafka.BackfillRequested) domain.FactBody {
	return domain.BackfillRequested{From: m.GetFrom(), To: m.GetTo()}
}

func rangeCoveredIn(m *kafka.RangeCovered) domain.FactBody {
	return domain.RangeCovered{
		Request:   m.GetRequest(),
		From:      m.GetFrom(),
		To:        m.GetTo(),
		Until:     m.GetUntil(),
		LiveSince: m.GetLiveSince(),
		Part:      m.GetPart(),
		Fulfilled: fulfilmentIn(m.GetFulfilled()),
		Next:      m.GetNext(),
		Matched:   m.GetMatched(),
		Created:   m.GetCreated(),
		Missed:    m.GetMissed(),
	}
}

func partBegunIn(m *kafka.PartBegun) domain.FactBody {
	return domain.PartBegun{
		Request:     m.GetRequest(),
		From:        m.GetFrom(),
		To:          m.GetTo(),
		MatchesFrom: m.GetMatchesFrom(),
	}
}

func backfillStoppedIn(m *kafka.BackfillStopped) domain.FactBody {
	return domain.BackfillStopped{
		Request: m.GetRequest(),
		Problem: m.GetProblem(),
		Next:    m.GetNext(),
	}
}
