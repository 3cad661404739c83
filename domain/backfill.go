package domain

import (
	"math"
	"slices"
	"strings"
)

// FirstLedger is the first ledger that can contain a payment: a network's first ledger is
// created with the network.
const FirstLedger = 2

// MaxCoveredRanges bounds the separate covered ranges of a watch. A backfill that would
// exceed it is refused; one that joins ranges is not.
const MaxCoveredRanges = 100

// Part is a range of ledgers that a backfill has begun to read, with the watch as it was
// then. A watch has at most one: its first report ends it, and only then does the next begin.
type Part struct {
	Range
	Version       uint64 // of the fact that began it: its identity
	BegunAtMillis int64  // when its events are created
	Label         string
	EndpointID    string
	Rules         Rules
	EventTypes    []EventType
	// ExpiresAtMillis and Revision are the watch's.
	ExpiresAtMillis int64
	Revision        uint64
	// MatchesFrom is where its matches are: not before this offset of its endpoint's partition
	// of the topic "matches".
	MatchesFrom int64
}

// Pinned returns the watch as pinned by a part.
func (w Watch) Pinned(p Part) Watch {
	w.Label, w.EndpointID, w.Rules, w.EventTypes = p.Label, p.EndpointID, p.Rules, p.EventTypes
	w.ExpiresAtMillis, w.Revision = p.ExpiresAtMillis, p.Revision
	return w
}

// Has reports whether a ledger belongs to the part.
func (p Part) Has(sequence uint32) bool { return p.From <= sequence && sequence <= p.To }

// Within reports whether all ledgers of the part belong to a range.
func (p Part) Within(x Range) bool { return x.From <= p.From && p.To <= x.To }

// Part returns the open part of an identity.
func (w Watch) Part(version uint64) (p Part, found bool) {
	i := slices.IndexFunc(w.Parts, func(p Part) bool { return p.Version == version })
	if i < 0 {
		return p, false
	}
	return w.Parts[i], true
}

// NextPart returns the next ledgers of the backfill up to a last one, at most that many. again
// reports whether all of them were matched against the watch before; otherwise none was.
func (w Watch) NextPart(until, most uint32) (next Range, again, found bool) {
	next = Range{w.Backfill.Next, min(until, w.Backfill.Next+most-1)}
	if next.From > until {
		return Range{}, false, false
	}
	missing := w.Uncovered(next)
	switch {
	case len(missing) == 0:
		return next, true, true
	case missing[0].From == next.From:
		return missing[0], false, true
	}
	return Range{next.From, missing[0].From - 1}, true, true
}

// Ending returns the watch without one of its parts.
func (w Watch) Ending(part uint64) Watch {
	w.Parts = slices.DeleteFunc(slices.Clone(w.Parts),
		func(p Part) bool { return p.Version == part })
	if len(w.Parts) == 0 {
		w.Parts = nil
	}
	return w
}

// Covering returns the watch with one more range covered. Ledgers that it sees live are covered
// already.
func (w Watch) Covering(x Range) Watch {
	w.Covered = w.coveredWith(x)
	return w
}

func (w Watch) coveredWith(x Range) Ranges {
	if w.LiveSince != 0 {
		x.To = min(x.To, w.LiveSince-1)
	}
	return w.Covered.Add(x)
}

// mayBegin reports whether a part may begin: its ledgers must be the backfill's next ones, and its
// endpoint the watch's.
func (w Watch) mayBegin(x NextPart) bool {
	return len(w.Parts) == 0 && w.LiveSince != 0 && w.Backfill.Next <= x.From && x.From <= x.To &&
		x.To <= w.Backfill.Until && x.EndpointID == w.EndpointID
}

// gap returns the first ledgers that the watch missed without an endpoint. It is due when the
// watch sees later ones and no backfill is in progress. A gap at which a backfill has just failed,
// and those before it, are left out, unless they are tried again. But the rest of that gap is due
// if the source has its ledgers from some ledger on (kept; 0: it is not known). No source has the
// ledgers of a chain before the network was reset.
func (w Watch) gap(again bool, kept uint32) (gap Range, due bool) {
	if w.MissedSince == 0 || w.LiveSince == 0 || w.Backfill.UnderWay() {
		return gap, false
	}
	from := max(w.MissedSince, ChainBase(w.LiveSince)+FirstLedger)
	missing := w.Uncovered(Range{from, w.LiveSince - 1})
	if w.Backfill.failed() && !again {
		at := w.Backfill.Next
		failed := slices.IndexFunc(missing, func(x Range) bool { return x.From <= at && at <= x.To })
		if failed >= 0 && at < kept && kept <= missing[failed].To {
			return Range{kept, missing[failed].To}, true
		}
		missing = missing[failed+1:]
	}
	if len(missing) == 0 {
		return gap, false
	}
	return missing[0], true
}

// Backfill is the latest request to search past ledgers for payments to a watch, with its
// progress. It is in progress until it has ended.
type Backfill struct {
	Request           uint64 // version of the fact that requested it; 0: none
	From              uint32
	To                uint32 // as requested; 0: up to the live ledger
	Until             uint32 // its last ledger; 0: not started
	Next              uint32 // the first ledger that is not done
	RequestedAtMillis int64
	EndedAtMillis     int64  // 0: in progress
	Problem           string // why not all of its ledgers were matched
	Skipped           uint32 // how many before Next were not
	// Matched are the payments that match the watch, and Created those of them that had no
	// event of it.
	Matched, Created uint32
}

// UnderWay reports whether the backfill is in progress.
func (b Backfill) UnderWay() bool { return b.Request != 0 && b.EndedAtMillis == 0 }

func (b Backfill) isUnderWay(request uint64) bool { return b.UnderWay() && b.Request == request }

// failed reports whether the backfill has ended before its last ledger.
func (b Backfill) failed() bool { return b.Problem != "" && (b.Until == 0 || b.Next <= b.Until) }

// Done reports whether every ledger of it was matched.
func (b Backfill) Done() bool { return b.EndedAtMillis != 0 && b.Problem == "" }

// Uncovered returns the ledgers of a range that were not matched against this watch, as far
// as is known: besides the ledgers that backfills have covered, the watch sees every ledger
// from LiveSince on.
func (w Watch) Uncovered(x Range) Ranges {
	covered := w.Covered
	if w.LiveSince != 0 {
		covered = covered.Add(Range{w.LiveSince, math.MaxUint32})
	}
	return covered.Missing(x)
}

// decideBackfill decides a request to search past ledgers. It replaces one in progress,
// unless that is the same and began with the watch as it is now.
func decideBackfill(state Watch, c BackfillWatch) ([]FactBody, *Rejection) {
	if c.OfEndpointID != "" && c.OfEndpointID != state.EndpointID {
		return nil, noSuchWatch()
	}
	c.From = max(c.From, FirstLedger)
	asked := BackfillRequested{From: c.From, To: c.To}
	if b := state.Backfill; b.UnderWay() && b.From == asked.From && b.To == asked.To &&
		b.Request > state.Revision {
		return nil, nil
	}
	whole := Range{c.From, c.To}
	if c.To == 0 {
		whole.To = math.MaxUint32
	}
	if len(state.Covered) >= MaxCoveredRanges && len(state.coveredWith(whole)) > MaxCoveredRanges {
		return nil, &Rejection{
			Code: CodeTooManyRanges,
			Detail: "the watch has covered 100 ranges of ledgers with gaps between them: begin or end the " +
				"backfill at one of them, or close a gap",
		}
	}
	return []FactBody{asked}, nil
}

// decideCoverage decides the follower's report of a part. A report of an open part counts even if
// another request has replaced its own. A report of a part that has ended does not: the follower of
// another term has found out how far that part was read.
func decideCoverage(state Watch, c RecordCoverage, nowMillis int64) (facts []FactBody) {
	switch {
	case c.Fulfils.Is():
		return decideFulfilment(state, c)
	case c.Missed != 0:
		return decideMissed(state, c)
	}
	if _, open := state.Part(c.Part); c.Part != 0 && !open {
		return nil
	}
	current := state.Backfill.isUnderWay(c.Request)
	first := c.LiveSince != 0 && state.LiveSince == 0
	if c.From != 0 || c.Part != 0 || first || current && c.Problem == "" {
		covered := state.covered(c, current)
		facts = append(facts, covered)
		state = state.cover(covered, nowMillis)
	}
	if c.Problem != "" && current {
		stopped := BackfillStopped{Request: c.Request, Problem: c.Problem}
		// Ledgers that were matched before are skipped, and the rest is matched. Otherwise the next
		// backfill begins with them.
		left := Range{state.Backfill.Next, c.Next.From - 1}
		if left.From < c.Next.From && len(state.Uncovered(left)) == 0 {
			stopped.Next = c.Next.From
		}
		facts = append(facts, stopped)
		state.Backfill = state.Backfill.stop(stopped, nowMillis)
	}
	if current && state.Backfill.UnderWay() && c.Next.From != 0 && state.mayBegin(c.Next) {
		facts = append(facts, PartBegun{
			Request:     c.Request,
			From:        c.Next.From,
			To:          c.Next.To,
			MatchesFrom: c.Next.MatchesFrom,
		})
	}
	if gap, due := state.gap(first, c.Next.From); due {
		facts = append(facts, BackfillRequested(gap))
	}
	return facts
}

// covered returns the fact of a report. Its counts belong to the backfill that began the part: an
// earlier backfill may have had other rules.
func (w Watch) covered(c RecordCoverage, current bool) RangeCovered {
	covered := RangeCovered{
		Request:   c.Request,
		From:      c.From,
		To:        c.To,
		Until:     c.Until,
		LiveSince: c.LiveSince,
		Part:      c.Part,
	}
	if current {
		covered.Next = w.Progress(c)
	}
	if c.Part > w.Backfill.Request {
		covered.Matched, covered.Created = c.Matched, c.Created
	}
	return covered
}

// Progress returns the first ledger that the backfill has not read after a report.
func (w Watch) Progress(c RecordCoverage) uint32 {
	b := w.Backfill
	switch {
	case c.Part != 0 && c.Part < b.Request: // of an earlier backfill
	case c.From != 0 && c.From <= b.Next && b.Next <= c.To:
		return c.To + 1
	case c.Part == 0 && c.From == 0 && c.Next.From == 0 && c.Problem == "": // none is left
		return c.Until + 1
	}
	return b.Next
}

// decideMissed decides the follower's report that it cannot deliver a payment, because the watch's
// endpoint is deleted. If the watch was changed in the meantime, the follower matches again.
func decideMissed(state Watch, c RecordCoverage) []FactBody {
	if state.LiveSince == 0 || state.LiveSince > c.Missed || state.Revision != c.IfRevision {
		return nil
	}
	return []FactBody{RangeCovered{Missed: c.Missed}}
}

// decideFulfilment decides whether a payment is the one that the watch is for: the first claim by
// the current revision of the watch. After a claim by another revision, the follower matches again.
func decideFulfilment(state Watch, c RecordCoverage) []FactBody {
	if !state.MustClaim() || state.Revision != c.IfRevision {
		return nil
	}
	return []FactBody{RangeCovered{Fulfilled: c.Fulfils}}
}

func (b BackfillRequested) backfill(f Fact) Backfill {
	return Backfill{
		Request:           f.Version,
		From:              b.From,
		To:                b.To,
		Next:              b.From,
		RequestedAtMillis: f.AtMillis,
	}
}

func (w Watch) cover(body RangeCovered, nowMillis int64) Watch {
	if body.Part != 0 {
		w = w.Ending(body.Part)
	}
	if body.From != 0 {
		w = w.Covering(Range{body.From, body.To})
	}
	if w.LiveSince == 0 {
		w.LiveSince = body.LiveSince
	}
	if body.Fulfilled.Is() {
		w.Fulfilled = body.Fulfilled
	}
	if body.Missed != 0 {
		w.Covered = w.Covered.Add(Range{w.LiveSince, body.Missed - 1})
		w.LiveSince = 0
		if w.MissedSince == 0 {
			w.MissedSince = body.Missed
		}
	}
	if w.Backfill.isUnderWay(body.Request) {
		w.Backfill = w.advance(body, nowMillis)
	}
	if w.LiveSince != 0 && len(w.Uncovered(Range{w.MissedSince, w.LiveSince - 1})) == 0 {
		w.MissedSince = 0
	}
	return w
}

// part pins the watch as it is for a range of ledgers.
func (w Watch) part(body PartBegun, f Fact) Part {
	return Part{
		Range:         Range{body.From, body.To},
		Version:       f.Version,
		BegunAtMillis: f.AtMillis,
		MatchesFrom:   body.MatchesFrom,
		Label:         w.Label,
		EndpointID:    w.EndpointID,
		Rules:         w.Rules,
		EventTypes:    w.EventTypes,

		ExpiresAtMillis: w.ExpiresAtMillis,
		Revision:        w.Revision,
	}
}

func (b Backfill) stop(body BackfillStopped, nowMillis int64) Backfill {
	if !b.isUnderWay(body.Request) {
		return b
	}
	switch {
	case b.Problem == "":
		b.Problem = body.Problem
	case !strings.Contains(b.Problem, body.Problem): // not one of a former part
		b.Problem += "; " + body.Problem
	}
	if body.Next != 0 {
		b.Next, b.Skipped = body.Next, b.Skipped+body.Next-b.Next
	}
	if body.Next == 0 || b.Next > b.Until {
		b.EndedAtMillis = nowMillis
	}
	return b
}

func (w Watch) advance(body RangeCovered, nowMillis int64) Backfill {
	b := w.Backfill
	b.Until = body.Until
	b.Matched, b.Created = b.Matched+body.Matched, b.Created+body.Created
	b.Next = body.Next
	if b.Next > b.Until {
		b.Next, b.EndedAtMillis = b.Until+1, nowMillis
	}
	return b
}
