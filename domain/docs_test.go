package domain_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// TestTheDiagramIsTrue reads the transitions of a delivery out of the page for
// people and holds them to those to which random sequences are held.
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
	for line := range strings.SplitSeq(rows, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 3 {
			t.Fatalf("a row of %d cells: %s", len(cells), line)
		}
		from := domain.DeliveryState(strings.ReplaceAll(cells[0], "(none)", ""))
		if documented[from] == nil {
			documented[from] = make(map[string][]domain.DeliveryState)
		}
		for to := range strings.SplitSeq(cells[2], ", ") {
			documented[from][cells[1]] = append(documented[from][cells[1]], domain.DeliveryState(to))
		}
	}
	if !reflect.DeepEqual(documented, transitions) {
		t.Errorf("the page says\n%v\nand the tests hold\n%v", documented, transitions)
	}
}
