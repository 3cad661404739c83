package domain_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// The table in docs/state-machines.md must list exactly the transitions of a delivery that the
// code allows.
func TestTheDiagramIsTrue(t *testing.T) {
	text, err := os.ReadFile("../docs/state-machines.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rows, found := strings.Cut(string(text), "| from | fact | to |\n|---|---|---|\n")
	if !found {
		t.Fatal("the page has no table of transitions")
	}
	rows, _, _ = strings.Cut(rows, "\n\n")
	documented := make(map[domain.DeliveryState]map[string][]domain.DeliveryState)
	without := strings.NewReplacer("(none)", "", "(forgotten)", "")
	for line := range strings.SplitSeq(rows, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 3 {
			t.Fatalf("a row of %d cells: %s", len(cells), line)
		}
		from := domain.DeliveryState(without.Replace(cells[0]))
		if documented[from] == nil {
			documented[from] = make(map[string][]domain.DeliveryState)
		}
		for to := range strings.SplitSeq(cells[2], ", ") {
			documented[from][cells[1]] = append(documented[from][cells[1]], domain.DeliveryState(to))
		}
	}
	states := []domain.DeliveryState{
		"", domain.StateQueued, domain.StateWaiting, domain.StateDelivered, domain.StateFailed,
		domain.StateCancelled,
	}
	facts := []domain.FactBody{
		domain.DeliveryCreated{}, domain.AttemptMade{}, domain.DeliveryRecalled{},
		domain.DeliveryRequeued{}, domain.DeliveryCancelled{}, domain.DeliveryMoved{},
		domain.EndpointDeleted{},
	}
	for _, from := range states {
		for _, fact := range facts {
			for _, to := range states {
				want := slices.Contains(documented[from][fact.FactType()], to)
				if got := from.Allows(fact, to); got != want {
					t.Errorf("%s from %q to %q is allowed: %t; the page says %t", fact.FactType(), from, to,
						got, want)
				}
			}
		}
	}
}
