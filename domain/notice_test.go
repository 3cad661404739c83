package domain_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lumenhook/lumenhook/domain"
)

// mail orders a mail that is due, or answers an order. A settled notice must stay settled, and
// the number of orders must grow by one.
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

func TestWhichOutcomeAnAnswerHas(t *testing.T) {
	const days = int64(24 * 3_600_000)
	listed := domain.MailOutcomes()
	if len(listed) != 5 {
		t.Errorf("%d outcomes", len(listed))
	}
	for _, c := range []struct {
		answer domain.MailAnswer
		after  int64
		want   domain.MailOutcome
	}{
		{domain.MailTaken, 9 * days, domain.MailSent},
		{domain.MailDeclined, 0, domain.MailRefused},
		{domain.MailNoAddress, 0, domain.MailNobody},
		{domain.MailDeferred, 3*days - 1, domain.MailRetried},
		{domain.MailDeferred, 3 * days, domain.MailGivenUp},
		{domain.MailUnserved, 9 * days, domain.MailRetried},
	} {
		n := domain.Notice{State: domain.NoticeOrdered, Number: 1, FirstAtMillis: startedAt}
		facts := domain.DecideMailAnswer(n, domain.RecordMail{Number: 1, Answer: c.answer},
			startedAt+c.after)
		got := facts[0].(domain.MailAttempted).Outcome
		if got != c.want || !slices.Contains(listed, got) {
			t.Errorf("%s after %d: %s", c.answer, c.after, got)
		}
	}
}

// A notice is settled at an address when a mail was accepted there or permanently refused. Only
// addresses that the account still has count.
func TestANoticeIsSettledAtEachAddress(t *testing.T) {
	first := domain.MailDone{}.With("a", domain.MailTaken)
	done := first.With("b", domain.MailDeclined).With("c", domain.MailTaken)
	for _, open := range []domain.MailAnswer{
		domain.MailDeferred, domain.MailUnserved, domain.MailNoAddress,
	} {
		done = done.With("d", open)
	}
	want := domain.MailDone{Taken: []string{"a", "c"}, Refused: []string{"b"}}
	if !reflect.DeepEqual(done, want) || len(first.Taken) != 1 {
		t.Errorf("done: %+v, at first %+v", done, first)
	}
	for tag, has := range map[string]bool{"a": true, "b": true, "c": true, "d": false, "": false} {
		if done.Has(tag) != has {
			t.Errorf("settled at %q: %t", tag, done.Has(tag))
		}
	}
	for kept, want := range map[string]domain.MailDone{
		"b c e": {Taken: []string{"c"}, Refused: []string{"b"}},
		"a":     {Taken: []string{"a"}, Refused: []string{}},
		"b":     {Taken: []string{}, Refused: []string{"b"}},
	} {
		if left := done.Of(strings.Fields(kept)); !reflect.DeepEqual(left, want) {
			t.Errorf("at %s: %+v", kept, left)
		}
	}
	if !reflect.DeepEqual(done, want) {
		t.Errorf("it was changed to %+v", done)
	}
	// Two results with the same beginning must not share memory.
	done.Taken, done.Refused = slices.Grow(done.Taken, 1), slices.Grow(done.Refused, 1)
	for _, answer := range []domain.MailAnswer{domain.MailTaken, domain.MailDeclined} {
		one, _ := done.With("x", answer), done.With("y", answer)
		if !one.Has("x") || one.Has("y") {
			t.Errorf("%s at another address changed %+v", answer, one)
		}
	}
}

// An order and its notice have the same name, which contains the endpoint. An address has one tag
// per account, and the tag does not reveal the address.
func TestNamesOfNotices(t *testing.T) {
	n := domain.Notice{EndpointID: endpointID, Version: 18_446_744_073_709_551_615}
	const want = "ep_1/18446744073709551615"
	if n.ID() != want || domain.NoticeID(endpointID, n.Version) != want ||
		n.Order(domain.Endpoint{ID: endpointID}).ID() != want {
		t.Errorf("its name is %q, and %q in an order", n.ID(), n.Order(domain.Endpoint{}).ID())
	}
	if of := domain.EndpointOfNotice(want); of != endpointID {
		t.Errorf("the notice is of %q", of)
	}
	tag := domain.MailTag("acc_1", "a@example.com")
	again, other := domain.MailTag("acc_1", "a@example.com"), domain.MailTag("acc_1", "b@example.com")
	if tag != again || tag == other || tag == domain.MailTag("acc_2", "a@example.com") ||
		strings.Contains(tag, "example") {
		t.Errorf("the address is named %q", tag)
	}
}
