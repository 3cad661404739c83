package domain_test

import (
	"slices"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// After a rotation the former key signs for 24 hours. Repeating the rotation has no effect.
func TestASigningKeyRotates(t *testing.T) {
	const id, at = "ep_1", startedAt
	e, _ := domain.EvolveEndpoint(domain.Endpoint{}, domain.Delivery{}, domain.Fact{
		Version: 1, AtMillis: at, Body: domain.EndpointCreated{EndpointID: id, AccountID: "acc_1"},
	})
	rotate := func(to uint32, at int64) ([]domain.FactBody, *domain.Rejection) {
		change := domain.EndpointChange{SigningKey: &to}
		body := domain.UpdateEndpoint{EndpointID: id, Change: change}
		return domain.DecideEndpoint(e, domain.Command{AccountID: "acc_1", Body: body}, at)
	}
	names := func(at int64, want ...string) {
		t.Helper()
		if got := e.SigningKeyNames(at); !slices.Equal(got, want) {
			t.Errorf("%q sign at %d, want %q", got, at, want)
		}
	}
	names(at, id)
	now := at
	for round, want := range [][]string{{id + "/1", id}, {id + "/2", id + "/1"}} {
		facts, rejection := rotate(9, now)
		if rejection != nil || len(facts) != 1 {
			t.Fatalf("round %d: %v %v", round, rejection, facts)
		}
		e, _ = domain.EvolveEndpoint(e, domain.Delivery{}, domain.Fact{
			Version: e.Version + 1, AtMillis: now, Body: facts[0],
		})
		if facts, rejection := rotate(e.SigningKey, now); rejection != nil || len(facts) != 0 {
			t.Errorf("the repeat: %v %v", rejection, facts)
		}
		names(now, want...)
		now += domain.SecretOverlapMillis
		if _, rejection := rotate(9, now-1); rejection == nil ||
			rejection.Code != domain.CodeTooManySecrets {
			t.Errorf("a second rotation: %v", rejection)
		}
		names(now-1, want...)
		names(now, want[0])
	}
}
