package domain_test

import (
	"reflect"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// fullyCovered returns a watch with the maximum number of separate ranges: 10, 20, …
func fullyCovered() domain.Watch {
	var ranges []domain.FactBody
	for i := range uint32(domain.MaxCoveredRanges) {
		ranges = append(ranges, domain.RangeCovered{From: 10 * (i + 1), To: 10 * (i + 1)})
	}
	return givenWatch(ranges...)
}

var live = domain.RangeCovered{LiveSince: 100}

// A part pins the watch as it was when the part began, and ends with the first report about it.
func TestPartsPinTheWatch(t *testing.T) {
	w := givenWatch(live, domain.BackfillRequested{From: 5, To: 90},
		domain.PartBegun{Request: 3, From: 5, To: 40, MatchesFrom: 77},
		domain.WatchUpdated{Change: domain.WatchChange{EndpointID: new("ep_2"), Label: new("later")}})
	part, found := w.Part(4)
	if !found || part.Range != (domain.Range{From: 5, To: 40}) || part.BegunAtMillis != startedAt+3 ||
		part.MatchesFrom != 77 {
		t.Fatalf("the open part is %+v", part)
	}
	if pinned := w.Pinned(part); pinned.EndpointID != endpointID || pinned.Label != "shop" ||
		pinned.ID != w.ID {
		t.Errorf("pinned as %+v", pinned)
	}
	if !part.Has(5) || !part.Has(40) || part.Has(4) || part.Has(41) ||
		!part.Within(domain.Range{From: 5, To: 40}) || part.Within(domain.Range{From: 6, To: 90}) ||
		part.Within(domain.Range{From: 5, To: 39}) {
		t.Errorf("it has other ledgers than %v", part.Range)
	}
	if _, found := w.Part(3); found {
		t.Error("a part of another fact is found")
	}
	w = w.Ending(4).Covering(domain.Range{From: 5, To: 19})
	if len(w.Parts) != 0 || !reflect.DeepEqual(w.Covered, domain.Ranges{{5, 19}}) {
		t.Errorf("left open: %v; covered: %v", w.Parts, w.Covered)
	}
}

// All ledgers of a part were either matched before or not.
func TestPartsOfABackfill(t *testing.T) {
	w := givenWatch(live, domain.RangeCovered{From: 10, To: 12}, domain.BackfillRequested{From: 5})
	for from, want := range map[uint32]struct {
		next         domain.Range
		again, found bool
	}{
		5:   {domain.Range{From: 5, To: 7}, false, true},
		8:   {domain.Range{From: 8, To: 9}, false, true},
		10:  {domain.Range{From: 10, To: 12}, true, true},
		12:  {domain.Range{From: 12, To: 12}, true, true},
		98:  {domain.Range{From: 98, To: 99}, false, true},
		100: {domain.Range{From: 100, To: 102}, true, true},
		120: {domain.Range{From: 120, To: 120}, true, true},
		121: {},
	} {
		w.Backfill.Next = from
		next, again, found := w.NextPart(120, 3)
		if next != want.next || again != want.again || found != want.found {
			t.Errorf("from %d: %v, again %t, found %t", from, next, again, found)
		}
	}
}

func next(from, to uint32, matchesFrom int64) domain.NextPart {
	return domain.NextPart{
		Range:       domain.Range{From: from, To: to},
		EndpointID:  endpointID,
		MatchesFrom: matchesFrom,
	}
}

func TestBackfillCommands(t *testing.T) {
	requested := domain.BackfillRequested{From: 5, To: 90}
	matched := domain.RangeCovered{From: 2, To: 20} // before the request
	rest := domain.NextPart{Range: domain.Range{From: 21}}
	for name, c := range map[string]struct {
		given   domain.Watch
		account string
		when    domain.CommandBody
		code    string
		then    []domain.FactBody
	}{
		"ask": {
			givenWatch(), ownAccount, domain.BackfillWatch{From: 5, To: 90}, "",
			facts(requested),
		},
		"ask from the beginning": {
			givenWatch(), ownAccount, domain.BackfillWatch{From: 1}, "",
			facts(domain.BackfillRequested{From: 2}),
		},
		"ask again": {
			givenWatch(requested), ownAccount, domain.BackfillWatch{From: 5, To: 90}, "", nil,
		},
		"ask another": {
			givenWatch(requested), ownAccount, domain.BackfillWatch{From: 6, To: 90}, "",
			facts(domain.BackfillRequested{From: 6, To: 90}),
		},
		"ask after its end": {
			givenWatch(requested, domain.BackfillStopped{Request: 2, Problem: "x"}),
			ownAccount, domain.BackfillWatch{From: 5, To: 90}, "", facts(requested),
		},
		"ask, another's": {
			givenWatch(), "acc_other", domain.BackfillWatch{From: 5}, domain.CodeNotFound, nil,
		},
		"ask, of its endpoint": {
			givenWatch(), ownAccount,
			domain.BackfillWatch{From: 5, To: 90, OfEndpointID: endpointID}, "",
			facts(requested),
		},
		"ask, of another endpoint": {
			givenWatch(), ownAccount,
			domain.BackfillWatch{From: 5, To: 90, OfEndpointID: "ep_other"}, domain.CodeNotFound, nil,
		},
		"ask, deleted": {
			givenWatch(domain.WatchDeleted{}), ownAccount, domain.BackfillWatch{From: 5},
			domain.CodeNotFound, nil,
		},
		"ask for one too many": {
			fullyCovered(), ownAccount, domain.BackfillWatch{From: 5, To: 5},
			domain.CodeTooManyRanges, nil,
		},
		"ask for what joins": {
			fullyCovered(), ownAccount, domain.BackfillWatch{From: 5}, "",
			facts(domain.BackfillRequested{From: 5}),
		},
		"ask for what joins one of the most ranges": {
			fullyCovered(), ownAccount, domain.BackfillWatch{From: 9, To: 9}, "",
			facts(domain.BackfillRequested{From: 9, To: 9}),
		},
		"cover": {
			givenWatch(requested), ownAccount,
			domain.RecordCoverage{Request: 2, From: 5, To: 9, Until: 80, LiveSince: 81}, "",
			facts(domain.RangeCovered{Request: 2, From: 5, To: 9, Until: 80, LiveSince: 81, Next: 10}),
		},
		"cover, replaced": {
			givenWatch(requested, domain.BackfillRequested{From: 6}), ownAccount,
			domain.RecordCoverage{Request: 2, From: 5, To: 9, Until: 80}, "",
			facts(domain.RangeCovered{Request: 2, From: 5, To: 9, Until: 80}),
		},
		"begin, replaced": {
			givenWatch(requested, domain.BackfillRequested{From: 6}), ownAccount,
			domain.RecordCoverage{Request: 2, Until: 80}, "", nil,
		},
		"stop": {
			givenWatch(requested), ownAccount,
			domain.RecordCoverage{Request: 2, Until: 80, Problem: "x"}, "",
			facts(domain.BackfillStopped{Request: 2, Problem: "x"}),
		},
		"stop half way": {
			givenWatch(requested), ownAccount,
			domain.RecordCoverage{Request: 2, From: 5, To: 9, Until: 80, Problem: "x"}, "",
			facts(domain.RangeCovered{Request: 2, From: 5, To: 9, Until: 80, Next: 10},
				domain.BackfillStopped{Request: 2, Problem: "x"}),
		},
		"leave out what cannot be matched again": {
			givenWatch(requested, matched), ownAccount,
			domain.RecordCoverage{Request: 2, Until: 80, Problem: "x", Next: rest}, "",
			facts(domain.BackfillStopped{Request: 2, Problem: "x", Next: 21}),
		},
		"stop where ledgers were never matched": {
			givenWatch(requested), ownAccount,
			domain.RecordCoverage{Request: 2, Until: 80, Problem: "x", Next: rest}, "",
			facts(domain.BackfillStopped{Request: 2, Problem: "x"}),
		},
		"stop, replaced": {
			givenWatch(requested, domain.BackfillRequested{From: 6}), ownAccount,
			domain.RecordCoverage{Request: 2, Problem: "x"}, "", nil,
		},
		"live": {
			givenWatch(), ownAccount, domain.RecordCoverage{LiveSince: 7}, "",
			facts(domain.RangeCovered{LiveSince: 7}),
		},
		"live, later": {
			givenWatch(domain.RangeCovered{LiveSince: 7}), ownAccount,
			domain.RecordCoverage{LiveSince: 8}, "", nil,
		},
		"begin a part": {
			givenWatch(live, requested), ownAccount,
			domain.RecordCoverage{Request: 3, Until: 80, Next: next(5, 9, 0)},
			"",
			facts(domain.RangeCovered{Request: 3, Until: 80, Next: 5},
				domain.PartBegun{Request: 3, From: 5, To: 9}),
		},
		"begin a part, moved meanwhile": {
			givenWatch(live, requested,
				domain.WatchUpdated{Change: domain.WatchChange{EndpointID: new("ep_2")}}),
			ownAccount,
			domain.RecordCoverage{Request: 3, Until: 80, Next: next(5, 9, 0)},
			"", facts(domain.RangeCovered{Request: 3, Until: 80, Next: 5}),
		},
		"end and begin a part": {
			givenWatch(live, requested, domain.PartBegun{Request: 3, From: 5, To: 9}),
			ownAccount,
			domain.RecordCoverage{
				Request: 3,
				From:    5,
				To:      9,
				Until:   80,
				Next:    next(10, 14, 77),
				Part:    4,
			},
			"",
			facts(domain.RangeCovered{Request: 3, From: 5, To: 9, Until: 80, Part: 4, Next: 10},
				domain.PartBegun{Request: 3, From: 10, To: 14, MatchesFrom: 77}),
		},
		"end a part half way": {
			givenWatch(live, requested, domain.PartBegun{Request: 3, From: 5, To: 9}),
			ownAccount,
			domain.RecordCoverage{
				Request: 3,
				From:    5,
				To:      6,
				Until:   80,
				Next:    next(7, 16, 0),
				Part:    4,
			},
			"",
			facts(domain.RangeCovered{Request: 3, From: 5, To: 6, Until: 80, Part: 4, Next: 7},
				domain.PartBegun{Request: 3, From: 7, To: 16}),
		},
		"end a part, unread": {
			givenWatch(live, requested, domain.PartBegun{Request: 3, From: 5, To: 9},
				domain.BackfillRequested{From: 50}),
			ownAccount,
			domain.RecordCoverage{Request: 3, Until: 80, Part: 4}, "",
			facts(domain.RangeCovered{Request: 3, Until: 80, Part: 4}),
		},
		"end what has ended": {
			givenWatch(live, requested, domain.PartBegun{Request: 3, From: 5, To: 9},
				domain.RangeCovered{Request: 3, From: 5, To: 6, Until: 80, Part: 4, Next: 7}),
			ownAccount,
			domain.RecordCoverage{
				Request: 3,
				From:    5,
				To:      9,
				Until:   80,
				Problem: "x",
				Next:    next(10, 14, 0),
				Part:    4,
			},
			"", nil,
		},
		"begin what is open": {
			givenWatch(live, requested, domain.PartBegun{Request: 3, From: 5, To: 9}),
			ownAccount,
			domain.RecordCoverage{Request: 3, Until: 80, Next: next(9, 14, 0)},
			"", facts(domain.RangeCovered{Request: 3, Until: 80, Next: 5}),
		},
		"begin what is covered": {
			givenWatch(live, requested, domain.RangeCovered{From: 5, To: 9}), ownAccount,
			domain.RecordCoverage{Request: 3, Until: 80, Next: next(5, 9, 0)}, "",
			facts(domain.RangeCovered{Request: 3, Until: 80, Next: 5},
				domain.PartBegun{Request: 3, From: 5, To: 9}),
		},
		"begin what is read": {
			givenWatch(live, requested,
				domain.RangeCovered{Request: 3, From: 5, To: 9, Until: 80, Next: 10}),
			ownAccount,
			domain.RecordCoverage{Request: 3, Until: 80, Next: next(9, 14, 0)},
			"", facts(domain.RangeCovered{Request: 3, Until: 80, Next: 10}),
		},
		"read the rest": {
			givenWatch(live, requested), ownAccount,
			domain.RecordCoverage{Request: 3, Until: 80}, "",
			facts(domain.RangeCovered{Request: 3, Until: 80, Next: 81}),
		},
		"count a part": {
			givenWatch(live, requested, domain.PartBegun{Request: 3, From: 5, To: 9}), ownAccount,
			domain.RecordCoverage{Request: 3, From: 5, To: 9, Until: 80, Part: 4, Matched: 3, Created: 2},
			"",
			facts(domain.RangeCovered{
				Request: 3, From: 5, To: 9, Until: 80, Part: 4, Next: 10, Matched: 3, Created: 2,
			}),
		},
		"a part of an earlier request": { // its rules may have been different
			givenWatch(live, requested, domain.PartBegun{Request: 3, From: 5, To: 9}, requested), ownAccount,
			domain.RecordCoverage{Request: 5, From: 5, To: 9, Until: 80, Part: 4, Matched: 3, Created: 2},
			"", facts(domain.RangeCovered{Request: 5, From: 5, To: 9, Until: 80, Part: 4, Next: 5}),
		},
		"ask again, changed": {
			givenWatch(requested, domain.WatchUpdated{Change: domain.WatchChange{Label: new("b")}}),
			ownAccount, domain.BackfillWatch{From: 5, To: 90}, "", facts(requested),
		},

		"begin what is live": {
			givenWatch(live, requested), ownAccount,
			domain.RecordCoverage{Request: 3, Until: 80, Next: next(100, 101, 0)},
			"", facts(domain.RangeCovered{Request: 3, Until: 80, Next: 5}),
		},
		"begin, not known live": {
			givenWatch(requested), ownAccount,
			domain.RecordCoverage{Request: 2, Until: 80, Next: next(5, 9, 0)},
			"", facts(domain.RangeCovered{Request: 2, Until: 80, Next: 5}),
		},
		"cover, deleted": {
			givenWatch(requested, domain.WatchDeleted{}), ownAccount,
			domain.RecordCoverage{Request: 2, From: 5, To: 9}, domain.CodeNotFound, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, rejection := domain.DecideWatch(c.given, domain.Command{AccountID: c.account, Body: c.when},
				startedAt)
			expect(t, got, rejection, c.code, c.then...)
		})
	}
}

// TestBackfillFold follows a backfill across ranges that were already covered to its end, and
// then a second backfill.
func TestBackfillFold(t *testing.T) {
	given := facts(domain.BackfillRequested{From: 5, To: 90}) // version 2
	step := func(f domain.FactBody) domain.Watch {
		given = append(given, f)
		return givenWatch(given...)
	}
	w := givenWatch(given...)
	want := (domain.Backfill{Request: 2, From: 5, To: 90, Next: 5, RequestedAtMillis: startedAt + 1})
	if w.Backfill != want || !w.Backfill.UnderWay() || w.Backfill.Done() {
		t.Fatalf("requested as %+v", w.Backfill)
	}
	w = step(domain.RangeCovered{Request: 1, From: 30, To: 40}) // of an earlier request
	if w.Backfill.Until != 0 || !reflect.DeepEqual(w.Covered, domain.Ranges{{30, 40}}) {
		t.Fatalf("another request's coverage made it %+v", w)
	}
	w = step(domain.RangeCovered{Request: 2, Until: 60, LiveSince: 61, Next: 5})
	if w.Backfill.Until != 60 || w.Backfill.Next != 5 || w.LiveSince != 61 || !w.Backfill.UnderWay() {
		t.Fatalf("begun as %+v", w)
	}
	w = step(domain.RangeCovered{Request: 2, From: 5, To: 29, Until: 60, LiveSince: 70, Next: 30})
	if w.Backfill.Next != 30 || w.LiveSince != 61 || !w.Backfill.UnderWay() {
		t.Fatalf("half way as %+v", w)
	}
	w = step(domain.RangeCovered{Request: 2, From: 30, To: 60, Until: 60, Next: 61})
	if !w.Backfill.Done() || w.Backfill.UnderWay() || w.Backfill.Next != 61 ||
		!reflect.DeepEqual(w.Covered, domain.Ranges{{5, 60}}) {
		t.Fatalf("done as %+v", w)
	}
	if w.Revision != 1 || w.Version != 6 || w.UpdatedAtMillis != startedAt {
		t.Errorf("a backfill counts as a change: %+v", w)
	}
	if got := w.Uncovered(domain.Range{From: 2, To: 500}); !reflect.DeepEqual(got,
		domain.Ranges{{2, 4}}) {
		t.Errorf("%v is not covered, want what came before only", got)
	}
	step(domain.BackfillRequested{From: 2}) // version 7
	if w = step(domain.BackfillStopped{Request: 2, Problem: "late"}); !w.Backfill.UnderWay() {
		t.Errorf("a stop of another request ended it: %+v", w.Backfill)
	}
	if w = step(domain.BackfillStopped{Request: 7, Problem: "gone"}); w.Backfill.UnderWay() ||
		w.Backfill.Done() || w.Backfill.Problem != "gone" {
		t.Errorf("stopped as %+v", w.Backfill)
	}
}

// A backfill that skips ledgers lists each problem once and counts the skipped ledgers.
func TestABackfillContinuesWithoutSomeLedgers(t *testing.T) {
	w := givenWatch(domain.BackfillRequested{From: 5, To: 90},
		domain.RangeCovered{Request: 2, From: 5, To: 9, Until: 90, Next: 10})
	step := func(body domain.FactBody, want domain.Backfill) {
		t.Helper()
		w = domain.EvolveWatch(w, domain.Fact{Version: w.Version + 1, AtMillis: 7, Body: body})
		got := w.Backfill
		got.Request, got.RequestedAtMillis, got.From, got.To, got.Until = 0, 0, 0, 0, 0
		if got != want {
			t.Errorf("after %+v it is %+v, want %+v", body, got, want)
		}
	}
	stopped := domain.BackfillStopped{Request: 2, Problem: "gone", Next: 21}
	step(stopped, domain.Backfill{Next: 21, Skipped: 11, Problem: "gone"})
	stopped.Next = 31
	step(stopped, domain.Backfill{Next: 31, Skipped: 21, Problem: "gone"})
	stopped.Problem, stopped.Next = "torn", 90
	step(stopped, domain.Backfill{Next: 90, Skipped: 80, Problem: "gone; torn"})
	stopped.Next = 91
	step(stopped, domain.Backfill{Next: 91, Skipped: 81, Problem: "gone; torn", EndedAtMillis: 7})
	if w.Backfill.Done() || w.Backfill.UnderWay() {
		t.Errorf("it ended as %+v", w.Backfill)
	}
}

// A watch whose endpoint was deleted stops being live at the first payment that it could not
// report. When it is live again, a backfill of the ledgers in between begins.
func TestAGapInTheCoverage(t *testing.T) {
	live := domain.RangeCovered{LiveSince: 100}
	missed := domain.RangeCovered{Missed: 120}
	toAnother := domain.WatchUpdated{Change: domain.WatchChange{EndpointID: new("ep_2")}}
	again := domain.RangeCovered{LiveSince: 130}
	gap := domain.BackfillRequested{From: 120, To: 129}
	stopped := domain.BackfillStopped{Request: 6, Problem: "x"}
	rest := domain.BackfillRequested{From: 125, To: 129}
	from := func(sequence uint32) domain.NextPart {
		return domain.NextPart{Range: domain.Range{From: sequence}}
	}
	for name, c := range map[string]struct {
		given domain.Watch
		when  domain.CommandBody
		then  []domain.FactBody
	}{
		"miss a ledger": {
			givenWatch(live), domain.RecordCoverage{Missed: 120, IfRevision: 1}, facts(missed),
		},
		"miss a ledger, before it is live": {
			givenWatch(live), domain.RecordCoverage{Missed: 99, IfRevision: 1}, nil,
		},
		"miss a ledger, not live": {
			givenWatch(live, missed), domain.RecordCoverage{Missed: 121, IfRevision: 1}, nil,
		},
		"miss a ledger, changed meanwhile": {
			givenWatch(live, toAnother), domain.RecordCoverage{Missed: 120, IfRevision: 1}, nil,
		},
		"get another endpoint": { // it is not yet known from which ledger on it is live
			givenWatch(live, missed), domain.UpdateWatch{Change: toAnother.Change}, facts(toAnother),
		},
		"be live again": {
			givenWatch(live, missed, toAnother), domain.RecordCoverage{LiveSince: 130}, facts(again, gap),
		},
		"be live again at once": {
			givenWatch(live, missed, toAnother), domain.RecordCoverage{LiveSince: 120},
			facts(domain.RangeCovered{LiveSince: 120}),
		},
		"be live again during another backfill": {
			givenWatch(live, missed, domain.BackfillRequested{From: 5}),
			domain.RecordCoverage{LiveSince: 130}, facts(again),
		},
		"end the other backfill": {
			givenWatch(live, missed, domain.BackfillRequested{From: 5, To: 9}, again),
			domain.RecordCoverage{Request: 4, Until: 9},
			facts(domain.RangeCovered{Request: 4, Until: 9, Next: 10}, gap),
		},
		"stop the other backfill": {
			givenWatch(live, missed, domain.BackfillRequested{From: 5, To: 9}, again),
			domain.RecordCoverage{Request: 4, Problem: "x"},
			facts(domain.BackfillStopped{Request: 4, Problem: "x"}, gap),
		},
		"end another backfill, which left ledgers out, before the gap": {
			givenWatch(live, missed, domain.BackfillRequested{From: 5, To: 119}, again,
				domain.RangeCovered{Request: 4, Until: 119, Next: 5},
				domain.BackfillStopped{Request: 4, Problem: "x", Next: 21}),
			domain.RecordCoverage{Request: 4, Until: 119},
			facts(domain.RangeCovered{Request: 4, Until: 119, Next: 120}, gap),
		},
		"stop the backfill of the gap": {
			givenWatch(live, missed, toAnother, again, gap),
			domain.RecordCoverage{Request: 6, Problem: "x"}, facts(stopped),
		},
		"get another endpoint after a problem": {
			givenWatch(live, missed, again, gap, domain.BackfillStopped{Request: 5, Problem: "x"}),
			domain.UpdateWatch{Change: toAnother.Change}, facts(toAnother, gap),
		},
		"get another label after a problem": {
			givenWatch(live, missed, again, gap, domain.BackfillStopped{Request: 5, Problem: "x"}),
			domain.UpdateWatch{Change: domain.WatchChange{Label: new("b")}},
			facts(domain.WatchUpdated{Change: domain.WatchChange{Label: new("b")}}),
		},
		"miss another ledger": { // the covered ledgers are between the two gaps
			givenWatch(live, missed, again, domain.RangeCovered{Missed: 140}),
			domain.RecordCoverage{LiveSince: 150}, facts(domain.RangeCovered{LiveSince: 150}, gap),
		},
		"stop the backfill of the first of two gaps": { // the second gap can still be read
			givenWatch(live, missed, again, domain.RangeCovered{Missed: 140},
				domain.RangeCovered{LiveSince: 150}, gap),
			domain.RecordCoverage{Request: 7, Problem: "x"},
			facts(domain.BackfillStopped{Request: 7, Problem: "x"},
				domain.BackfillRequested{From: 140, To: 149}),
		},
		"stop the backfill of the gap, which the source has in part": {
			givenWatch(live, missed, toAnother, again, gap),
			domain.RecordCoverage{Request: 6, Problem: "x", Next: from(125)},
			facts(stopped, domain.BackfillRequested{From: 125, To: 129}),
		},
		"stop the backfill of the gap, of which the source has nothing": {
			givenWatch(live, missed, toAnother, again, gap),
			domain.RecordCoverage{Request: 6, Problem: "x", Next: from(130)}, facts(stopped),
		},
		"read the rest of the gap": { // the next problem names the missing ledgers
			givenWatch(live, missed, toAnother, again, gap, stopped, rest,
				domain.PartBegun{Request: 8, From: 125, To: 129}),
			domain.RecordCoverage{Request: 8, From: 125, To: 129, Until: 129, Part: 9},
			facts(domain.RangeCovered{Request: 8, From: 125, To: 129, Until: 129, Part: 9, Next: 130},
				domain.BackfillRequested{From: 120, To: 124}),
		},
		"stop the backfill of the rest of the gap": { // not retried forever
			givenWatch(live, missed, toAnother, again, gap, stopped, rest),
			domain.RecordCoverage{Request: 8, Problem: "x"},
			facts(domain.BackfillStopped{Request: 8, Problem: "x"}),
		},
		"be live again on another chain": { // the ledgers of the former chain are gone
			givenWatch(live, missed, toAnother), domain.RecordCoverage{LiveSince: 200_000_050},
			facts(domain.RangeCovered{LiveSince: 200_000_050},
				domain.BackfillRequested{From: 200_000_002, To: 200_000_049}),
		},
		"read the first gap": {
			givenWatch(live, missed, again, domain.RangeCovered{Missed: 140},
				domain.RangeCovered{LiveSince: 150}, gap, domain.PartBegun{Request: 7, From: 120, To: 129}),
			domain.RecordCoverage{Request: 7, From: 120, To: 129, Until: 129, Part: 8},
			facts(domain.RangeCovered{Request: 7, From: 120, To: 129, Until: 129, Part: 8, Next: 130},
				domain.BackfillRequested{From: 140, To: 149}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, rejection := domain.DecideWatch(c.given,
				domain.Command{AccountID: ownAccount, Body: c.when}, startedAt)
			expect(t, got, rejection, "", c.then...)
		})
	}
	w := givenWatch(live, missed, again, gap, domain.PartBegun{Request: 5, From: 120, To: 129},
		domain.RangeCovered{Request: 5, From: 120, To: 129, Until: 129, Part: 6, Next: 130})
	if w.MissedSince != 0 || len(w.Uncovered(domain.Range{From: 100, To: 500})) != 0 {
		t.Errorf("after the backfill it is %+v", w)
	}
}
