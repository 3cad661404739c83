package domain

import (
	"math"
	"slices"
	"strings"
)

// FirstLedger is the first ledger that can contain a payment. Ledger 1 is the genesis ledger.
const FirstLedger = 2

// MaxCoveredRanges is the maximum number of separate covered ranges per watch. A backfill that
// would exceed it is refused, unless it joins ranges.
const MaxCoveredRanges = 100

// Part is a ledger range that a backfill has started to read, with a copy of the watch at that
// time. A watch has at most one: the next part starts after the first report has ended this one.
type Part struct {
	Range
	Version       uint64 // version of the fact that started it, which identifies the part
	BegunAtMillis int64  // the creation time of its events
	Label         string
	EndpointID    string
	Rules         Rules
	EventTypes    []EventType
	// The watch's expiry and revision.
	ExpiresAtMillis int64
	Revision        uint64
	// MatchesFrom is the offset in the endpoint's partition of "matches" where its matches start.
	MatchesFrom int64
}

// Pinned returns the watch as it was when the part started.
func (w Watch) Pinned(p Part) Watch {
	w.Label, w.EndpointID, w.Rules, w.EventTypes = p.Label, p.EndpointID, p.Rules, p.EventTypes
	w.ExpiresAtMillis, w.Revision = p.ExpiresAtMillis, p.Revision
	return w
}

// Has reports whether the part contains the ledger.
func (p Part) Has(sequence uint32) bool { return p.From <= sequence && sequence <= p.To }

// Within reports whether the range contains the whole part.
func (p Part) Within(x Range) bool { return x.From <= p.From && p.To <= x.To }

// Part returns the open part with the given version.
func (w Watch) Part(version uint64) (p Part, found bool) {
	i := slices.IndexFunc(w.Parts, func(p Part) bool { return p.Version == version })
	if i < 0 {
		return p, false
	}
	return w.Parts[i], true
}

// NextPart returns the next ledgers of the backfill: up to most of them, and none after until.
// again reports whether all of them were matched against the watch before; otherwise none was.
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

// Ending returns the watch without the given part.
func (w Watch) Ending(part uint64) Watch {
	w.Parts = slices.DeleteFunc(slices.Clone(w.Parts),
		func(p Part) bool { return p.Version == part })
	if len(w.Parts) == 0 {
		w.Parts = nil
	}
	return w
}

// Covering returns the watch with one more range covered. Ledgers seen live are already covered.
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

// mayBegin reports whether a part may start: with the next ledgers and the watch's endpoint.
func (w Watch) mayBegin(x NextPart) bool {
	return len(w.Parts) == 0 && w.LiveSince != 0 && w.Backfill.Next <= x.From && x.From <= x.To &&
		x.To <= w.Backfill.Until && x.EndpointID == w.EndpointID
}

// gap returns the first range that the watch missed while it had no endpoint. The gap is due once
// the watch sees later ledgers and no backfill is in progress. If the last backfill failed, the gap
// where it failed and the gaps before that are skipped, unless again is true. But if kept, the
// earliest ledger that the source is known to have (0 if unknown), is in the failed gap, the gap
// from kept on is due. Ledgers from before a network reset are not available from any source.
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

// Backfill is the latest request to search past ledgers for a watch's payments, with its progress.
type Backfill struct {
	Request           uint64 // version of the fact that requested it; 0 if there is none
	From              uint32
	To                uint32 // as requested; 0 means up to the live ledger
	Until             uint32 // the last ledger; 0 if it has not started
	Next              uint32 // the first ledger that is not done
	RequestedAtMillis int64
	EndedAtMillis     int64  // 0 while in progress
	Problem           string // why some ledgers were not matched
	Skipped           uint32 // number of ledgers before Next that were not matched
	// Matched is the number of payments that match the watch. Created is the number of events created
	// for them; the other payments already had one.
	Matched, Created uint32
}

// UnderWay reports whether the backfill is in progress.
func (b Backfill) UnderWay() bool { return b.Request != 0 && b.EndedAtMillis == 0 }

func (b Backfill) isUnderWay(request uint64) bool { return b.UnderWay() && b.Request == request }

func (b Backfill) failed() bool { return b.Problem != "" && (b.Until == 0 || b.Next <= b.Until) }

// Done reports whether the backfill has matched all of its ledgers.
func (b Backfill) Done() bool { return b.EndedAtMillis != 0 && b.Problem == "" }

// Uncovered returns the ledgers in a range that are not known to have been matched against the
// watch. The watch covers the ranges of its backfills and all ledgers from LiveSince on.
func (w Watch) Uncovered(x Range) Ranges {
	covered := w.Covered
	if w.LiveSince != 0 {
		covered = covered.Add(Range{w.LiveSince, math.MaxUint32})
	}
	return covered.Missing(x)
}

// decideBackfill decides a request to search past ledgers. It replaces a backfill in progress,
// unless that covers the same ledgers and started with the current revision of the watch.
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
			Detail: "the watch has covered 100 separate ledger ranges, which is the maximum; start or end " +
				"the backfill at one of them, or close a gap between them",
		}
	}
	return []FactBody{asked}, nil
}

// decideCoverage decides the follower's report of a part. The report of an open part counts even if
// the part's request has been replaced. The report of a part that has ended doesn't: a follower of
// another term has already determined how far that part was read.
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
		// If all ledgers up to there were matched before, the backfill continues after them. Otherwise it
		// stops, and the next backfill starts with them.
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

// covered returns the fact of a report. The counts apply only to the backfill that started the
// part, because an earlier backfill may have had other rules.
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

// Progress returns the first ledger that the backfill has not read after the report.
func (w Watch) Progress(c RecordCoverage) uint32 {
	b := w.Backfill
	switch {
	case c.Part != 0 && c.Part < b.Request: // part of an earlier backfill
	case c.From != 0 && c.From <= b.Next && b.Next <= c.To:
		return c.To + 1
	case c.Part == 0 && c.From == 0 && c.Next.From == 0 && c.Problem == "": // no ledgers are left
		return c.Until + 1
	}
	return b.Next
}

// decideMissed decides the follower's report that it can't deliver a payment because the watch's
// endpoint was deleted. If the watch has changed in the meantime, the follower matches again.
func decideMissed(state Watch, c RecordCoverage) []FactBody {
	if state.LiveSince == 0 || state.LiveSince > c.Missed || state.Revision != c.IfRevision {
		return nil
	}
	return []FactBody{RangeCovered{Missed: c.Missed}}
}

// decideFulfilment decides whether a payment fulfils the watch. The first claim with the watch's
// current revision wins. After a claim with another revision, the follower matches again.
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
	case !strings.Contains(b.Problem, body.Problem): // not repeated for each part
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
