package domain_test

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/lumenhook/lumenhook/domain"
)

// mail orders a notice that is due, or answers an order of one, and holds that a notice
// that is settled stays so and that orders count by one.
func (w *world) mail(t *rapid.T) {
	if len(w.notices) == 0 {
		return
	}
	version := rapid.SampledFrom(slices.Sorted(maps.Keys(w.notices))).Draw(t, "notice")
	before := w.notices[version]
	var facts []domain.FactBody
	if rapid.Bool().Draw(t, "orders") {
		if before.NextAtMillis <= w.nowMillis {
			facts = domain.DecideMail(w.endpoint, before, w.nowMillis)
		}
	} else {
		facts = domain.DecideMailAnswer(before, domain.RecordMail{
			EndpointID: endpointID,
			Notice:     version,
			Number: rapid.SampledFrom([]int{
				before.Number, before.Number, before.Number, before.Number - 1, before.Number + 1,
			}).Draw(t, "order"),
			Answer: rapid.SampledFrom([]domain.MailAnswer{
				domain.MailTaken, domain.MailDeferred, domain.MailDeclined, domain.MailDeclined,
				domain.MailUnserved, domain.MailUnserved, domain.MailNoAddress,
			}).Draw(t, "answer"),
		}, w.nowMillis)
	}
	w.record(t, "", facts...)
	after := w.notices[version]
	switch {
	case len(facts) > 0 && !before.Exists():
		t.Fatalf("a notice that is settled: %+v", facts)
	case after.Exists() && after.Number-before.Number > 1, after.Number < after.Tries:
		t.Fatalf("%+v after %+v", after, before)
	case len(facts) > 0 && after.Exists() && after.NextAtMillis <= w.nowMillis:
		t.Fatalf("waits until the past: %+v", after)
	}
}

// tallyMails notes what came of notices.
func (w *world) tallyMails(reached map[string]int) {
	for _, f := range w.facts {
		if made, is := f.Body.(domain.MailAttempted); is {
			reached["mail "+string(made.Outcome)]++
		}
		if f.Notice() != 0 && w.notices[f.Notice()].State == domain.NoticeOrdered {
			reached["mail ordered"]++
		}
	}
}
