package domain_test

import (
	"reflect"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

func sealedStory() *story {
	s := newStory()
	return s.given(
		domain.SecretRotated{Secret: domain.SealedSecret{
			Sealed:          []byte("second"),
			CreatedAtMillis: s.nowMillis,
		}},
		domain.EndpointUpdated{Change: domain.EndpointChange{Headers: &[]domain.Header{
			{Name: "A", Sealed: []byte("a")}, {Name: "B", Sealed: []byte("b")},
		}}},
	)
}

func reseal(pairs ...string) domain.ResealSecrets {
	c := domain.ResealSecrets{EndpointID: endpointID}
	for i := 0; i < len(pairs); i += 2 {
		c.Values = append(c.Values, domain.Resealed{Was: []byte(pairs[i]), Sealed: []byte(pairs[i+1])})
	}
	return c
}

// Resealing changes only the seals. A value that changed between reading and deciding stays as it
// is.
func TestReseal(t *testing.T) {
	s := sealedStory()
	first := string(s.endpoint.Secrets[1].Sealed)
	for name, c := range map[string]struct {
		values         []string
		given          []domain.FactBody // meanwhile
		secrets, heads []string          // empty: no fact
	}{
		"all": {
			[]string{"second", "2", first, "1", "a", "x", "b", "y"}, nil, []string{"2", "1"},
			[]string{"x", "y"},
		},
		"some": {
			[]string{first, "1", "b", "y"}, nil, []string{"second", "1"}, []string{"a", "y"},
		},
		"none":     {nil, nil, nil, nil},
		"the same": {[]string{"a", "a"}, nil, nil, nil},
		"unknown":  {[]string{"c", "z"}, nil, nil, nil},
		"rotated meanwhile": {
			[]string{"second", "2", first, "1"},
			[]domain.FactBody{domain.SecretRotated{Secret: domain.SealedSecret{Sealed: []byte("third")}}},
			[]string{"third", "2", "1"}, []string{"a", "b"},
		},
		"changed meanwhile": {
			[]string{"a", "x"},
			[]domain.FactBody{domain.EndpointUpdated{Change: domain.EndpointChange{
				Headers: &[]domain.Header{{Name: "A", Sealed: []byte("new")}},
			}}},
			nil, nil,
		},
		"taken away meanwhile": {
			[]string{"a", "x", "b", "y"},
			[]domain.FactBody{domain.EndpointUpdated{Change: domain.EndpointChange{
				Headers: &[]domain.Header{{Name: "B", Sealed: []byte("b")}},
			}}},
			[]string{"second", first}, []string{"y"},
		},
		"resealed by another one": {
			[]string{"a", "x"},
			[]domain.FactBody{domain.SecretsResealed{
				Secrets: s.endpoint.Secrets,
				Headers: []domain.Header{{Name: "A", Sealed: []byte("other")}},
			}},
			nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := sealedStory().given(c.given...)
			before := s.endpoint
			facts, rejection := domain.DecideEndpoint(before, s.command(reseal(c.values...)), s.nowMillis)
			if c.secrets == nil {
				expect(t, facts, rejection, "")
				return
			}
			if rejection != nil || len(facts) != 1 {
				t.Fatalf("%v, %v", facts, rejection)
			}
			if before.Secrets[0].Sealed[0] == '2' || before.Headers[0].Sealed[0] == 'x' {
				t.Error("the decision changed the state it was given")
			}
			after := s.given(facts...).endpoint
			want := before
			want.Version++
			want.Secrets, want.Headers = nil, nil
			for i, sealed := range c.secrets {
				kept := before.Secrets[i]
				kept.Sealed = []byte(sealed)
				want.Secrets = append(want.Secrets, kept)
			}
			for i, sealed := range c.heads {
				want.Headers = append(want.Headers,
					domain.Header{Name: before.Headers[i].Name, Sealed: []byte(sealed)})
			}
			if !reflect.DeepEqual(after, want) {
				t.Errorf("%+v\nnot\n%+v", after, want)
			}
		})
	}
	facts, rejection := domain.DecideEndpoint(s.given(domain.EndpointDeleted{}).endpoint,
		s.command(reseal("a", "x")), s.nowMillis)
	expect(t, facts, rejection, domain.CodeNotFound)
}

// A change that keeps a header does not contain the header's value, which may have been resealed
// since the client read it.
func TestHeadersAreKeptAsTheyAre(t *testing.T) {
	for name, c := range map[string]struct {
		wanted []domain.Header
		then   []domain.Header // nil: no fact
	}{
		"all kept":  {[]domain.Header{{Name: "A"}, {Name: "B"}}, nil},
		"one taken": {[]domain.Header{{Name: "B"}}, []domain.Header{{Name: "B", Sealed: []byte("b")}}},
		"one changed": {
			[]domain.Header{{Name: "A", Sealed: []byte("x")}, {Name: "B"}},
			[]domain.Header{{Name: "A", Sealed: []byte("x")}, {Name: "B", Sealed: []byte("b")}},
		},
		"none kept":     {[]domain.Header{}, []domain.Header{}},
		"one not there": {[]domain.Header{{Name: "A"}, {Name: "B"}, {Name: "C"}}, nil},
	} {
		s := sealedStory()
		facts, rejection := domain.DecideEndpoint(s.endpoint,
			s.command(domain.UpdateEndpoint{
				EndpointID: endpointID,
				Change:     domain.EndpointChange{Headers: &c.wanted},
			}),
			s.nowMillis)
		if c.then == nil {
			expect(t, facts, rejection, "")
			continue
		}
		t.Log(name)
		expect(t, facts, rejection, "",
			domain.EndpointUpdated{Change: domain.EndpointChange{Headers: &c.then}})
	}
}

// The sealed value of a header must not open as another header's value, nor as a secret.
func TestASealIsForOnePlace(t *testing.T) {
	places := map[string]bool{"ep_1": true, "ep_2": true}
	for _, id := range []string{"ep_1", "ep_2"} {
		for _, name := range []string{"A", "B", "Ep_1"} {
			places[domain.Header{Name: name}.SealedFor(id)] = true
		}
	}
	if len(places) != 8 {
		t.Errorf("%v", places)
	}
}
