package projections_test

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
)

func aWatch(n int) (id string, facts []domain.Fact) {
	s := newStory(0)
	s.endpointID = domain.DeriveID(domain.WatchPrefix, "steps", fmt.Sprint(n))
	label, none := "the till", "<script>alert(1)</script>"
	return s.endpointID, []domain.Fact{
		s.fact(domain.WatchCreated{Watch: domain.Watch{
			ID:            s.endpointID,
			AccountID:     testAccount,
			WalletAddress: "GWALLET",
			EventTypes:    []domain.EventType{domain.PaymentReceived},
		}}),
		s.fact(domain.WatchUpdated{Change: domain.WatchChange{Label: &label}}),
		s.fact(domain.BackfillRequested{From: 5, To: 9}),
		s.fact(domain.WatchUpdated{Change: domain.WatchChange{Label: &none}}),
	}
}

func watchPage(
	t *testing.T, h *history.History, id string, before uint64, limit int,
) readmodel.StepPage[domain.Watch] {
	t.Helper()
	page, err := h.WatchSteps(t.Context(),
		readmodel.StepFilter{AccountID: testAccount, ID: id, Before: before, Limit: limit})
	must(t, err)
	return page
}

// The steps of a watch are the fold of its facts, on pages of any size, live and rebuilt.
func TestAWatchHasItsSteps(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.project(nil)
	id, facts := aWatch(0)
	r.append(facts...)
	r.append(facts[1:3]...) // repeated, as after a crash
	h := r.history(0)
	var state domain.Watch
	var want []domain.Step[domain.Watch] // newest first
	for _, f := range facts {
		before := state
		state = domain.EvolveWatch(state, f)
		want = append([]domain.Step[domain.Watch]{{Fact: f, Before: before, After: state}}, want...)
	}
	check := func() {
		t.Helper()
		for _, limit := range []int{1, 2, 3, 4, 250} {
			var got []domain.Step[domain.Watch]
			var before uint64
			for more := true; more; {
				page := watchPage(t, h, id, before, limit)
				got, more = append(got, page.Steps...), page.More
				before = got[len(got)-1].Fact.Version
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("by %d: the steps are %+v, want %+v", limit, got, want)
			}
		}
	}
	check()
	r.awaitProjected()
	r.rebuiltAndVerified("facts", 4)
	check()
	for name, f := range map[string]readmodel.StepFilter{
		"another account's": {AccountID: otherAccount, ID: id, Limit: 1},
		"nobody's":          {AccountID: testAccount, ID: id[:len(id)-1] + "0", Limit: 1},
	} {
		_, err := h.WatchSteps(t.Context(), f)
		t.Log(name)
		isFault(t, err, readmodel.ErrNotFound)
	}
}

// The steps of an endpoint contain no deliveries and no sealed values.
func TestAnEndpointHasItsSteps(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.project(nil)
	s := newStory(1)
	const sealed = "sealedsealedsealed"
	headers := []domain.Header{{Name: "Authorization", Sealed: []byte(sealed)}}
	secret := domain.SealedSecret{Sealed: []byte(sealed), CreatedAtMillis: startMillis}
	r.append(
		s.fact(domain.EndpointCreated{
			EndpointID:       s.endpointID,
			AccountID:        testAccount,
			EndpointSettings: domain.EndpointSettings{URL: "https://example.com/", Headers: headers},
			Secret:           secret,
		}),
		s.created(1),
		s.attempted(1, 1, domain.StateFailed, domain.AttemptResult{SentAtMillis: startMillis}),
		s.fact(domain.EndpointUpdated{Change: domain.EndpointChange{Headers: &headers}}),
		s.fact(domain.SecretRotated{Secret: secret}),
		s.fact(domain.SecretsResealed{Secrets: []domain.SealedSecret{secret}, Headers: headers}),
		s.fact(domain.EndpointDisabled{Reason: domain.DisabledGone}),
		s.fact(domain.EndpointEnabled{}),
		s.fact(domain.EndpointDeleted{}),
	)
	page, err := r.history(0).EndpointSteps(t.Context(),
		readmodel.StepFilter{AccountID: testAccount, ID: s.endpointID, Limit: 10})
	must(t, err)
	var names []string
	for _, step := range page.Steps {
		names = append(names, fmt.Sprint(step.Fact.Version, step.Fact.Body.FactType(), step.After.Status))
		if bytes.Contains(schemas.EncodeFact(step.Fact).Value, []byte(sealed)) {
			t.Errorf("a step holds what is sealed: %+v", step.Fact)
		}
		for _, h := range step.After.Headers {
			if h.Name != "Authorization" || h.Sealed != nil {
				t.Errorf("the headers are %v", step.After.Headers)
			}
		}
	}
	want := "[9EndpointDeleteddeleted 8EndpointEnabledactive 7EndpointDisableddisabled " +
		"6SecretsResealedactive 5SecretRotatedactive 4EndpointUpdatedactive 1EndpointCreatedactive]"
	if fmt.Sprint(names) != want || page.More {
		t.Errorf("the steps are %v, want %s", names, want)
	}
	if n := r.count("SELECT count() FROM facts WHERE position(value, '" + sealed + "') > 0"); n > 0 {
		t.Errorf("%d rows hold what is sealed", n)
	}
}

// If the table lacks the first facts of a watch, reads return an error until it is rebuilt.
func TestStepsWithoutTheFirstFacts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.project(nil)
	id, facts := aWatch(0)
	r.append(facts[:3]...)
	r.awaitProjected()
	run.finish(t)
	r.exec("TRUNCATE TABLE facts")
	r.project(nil)
	r.append(facts[3])
	later, laterFacts := aWatch(1)
	r.append(laterFacts...)
	r.awaitProjected()
	h := r.history(0)
	_, err := h.WatchSteps(t.Context(),
		readmodel.StepFilter{AccountID: testAccount, ID: id, Limit: 10})
	isFault(t, err, readmodel.ErrFactsMissing)
	if got := watchPage(t, h, later, 0, 10); len(got.Steps) != 4 {
		t.Errorf("a later watch has %+v", got)
	}
	must(t, writer.Rebuild(t.Context(), r.refold(func(c *writer.RefoldConfig) {
		c.Tables = []string{"facts"}
	})))
	if got := watchPage(t, h, id, 0, 10); len(got.Steps) != 4 {
		t.Errorf("once rebuilt, it has %+v", got)
	}
}

// If there are more facts than a fold may have, the request is rejected. The error must not
// reveal another account's object.
func TestManyFactsAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.project(nil)
	id, facts := aWatch(0)
	r.append(facts[:2]...)
	r.awaitProjected()
	r.exec(`INSERT INTO facts (aggregate_id, version, fact, form, value)
		SELECT aggregate_id, number + 3, fact, form, value
		FROM facts, numbers(99999) AS n WHERE version = 2`)
	filter := readmodel.StepFilter{AccountID: testAccount, ID: id, Limit: 2}
	h := r.history(0)
	_, err := h.WatchSteps(t.Context(), filter)
	isFault(t, err, readmodel.ErrManyFacts)
	filter.AccountID = otherAccount
	_, err = h.WatchSteps(t.Context(), filter)
	isFault(t, err, readmodel.ErrNotFound)
}

func TestLargeFactsAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.project(nil)
	id, facts := aWatch(0)
	senders := make([]string, 1000)
	for i := range senders {
		senders[i] = fmt.Sprintf("G%055d", i)
	}
	facts[1].Body = domain.WatchUpdated{Change: domain.WatchChange{SenderAllowlist: &senders}}
	r.append(facts[:2]...)
	r.awaitProjected()
	most := 32 << 20 / len(schemas.EncodeFact(facts[1]).Value)
	r.exec(fmt.Sprintf(`INSERT INTO facts (aggregate_id, version, fact, form, value)
		SELECT aggregate_id, number + 3, fact, form, value
		FROM facts, numbers(%d) AS n WHERE version = 2`, most))
	h := r.history(0)
	if got := watchPage(t, h, id, uint64(most), 2); len(got.Steps) != 2 || !got.More {
		t.Errorf("below the bound it has %d steps", len(got.Steps))
	}
	_, err := h.WatchSteps(t.Context(),
		readmodel.StepFilter{AccountID: testAccount, ID: id, Limit: 2})
	isFault(t, err, readmodel.ErrManyFacts)
}
