package main

import (
	"slices"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// TestIdleConnectionsGoWithTheirEndpoint: those of the url that was posted to are
// dropped, once, and nobody else's.
func TestIdleConnectionsGoWithTheirEndpoint(t *testing.T) {
	moved, text := "https://new.example/", "x"
	for name, k := range map[string]struct {
		bodies []domain.FactBody
		want   []string
	}{
		"disabled":          {[]domain.FactBody{domain.AttemptMade{}, domain.EndpointDisabled{}}, []string{"https://ep_1.example/"}},
		"deleted":           {[]domain.FactBody{domain.AttemptMade{}, domain.EndpointDeleted{}}, []string{"https://ep_1.example/"}},
		"moved":             {[]domain.FactBody{domain.AttemptMade{}, domain.EndpointUpdated{Change: domain.EndpointChange{URL: &moved}}}, []string{"https://ep_1.example/"}},
		"described anew":    {[]domain.FactBody{domain.AttemptMade{}, domain.EndpointUpdated{Change: domain.EndpointChange{Description: &text}}}, nil},
		"never posted to":   {[]domain.FactBody{domain.EndpointDisabled{}}, nil},
		"disabled, deleted": {[]domain.FactBody{domain.AttemptMade{}, domain.EndpointDisabled{}, domain.EndpointDeleted{}}, []string{"https://ep_1.example/"}},
		"twice":             {[]domain.FactBody{domain.AttemptMade{}, domain.EndpointDisabled{}, domain.AttemptMade{}, domain.EndpointDisabled{}}, []string{"https://ep_1.example/", "https://ep_1.example/"}},
	} {
		t.Run(name, func(t *testing.T) {
			var dropped []string
			c := newIdleConnections(
				func(id string) (string, bool) { return "https://" + id + ".example/", id != "ep_unknown" },
				func(url string) { dropped = append(dropped, url) },
			)
			c.fact(domain.Fact{Aggregate: "ep_2", Body: domain.AttemptMade{}})
			c.fact(domain.Fact{Aggregate: "ep_unknown", Body: domain.AttemptMade{}})
			c.fact(domain.Fact{Aggregate: "ep_unknown", Body: domain.EndpointDeleted{}})
			for _, body := range k.bodies {
				c.fact(domain.Fact{Aggregate: "ep_1", Body: body})
			}
			if !slices.Equal(dropped, k.want) {
				t.Errorf("dropped %v, want %v", dropped, k.want)
			}
		})
	}
}
