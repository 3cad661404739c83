package apicli

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/lumenhook/lumenhook/api/client"
)

// Each round must read a bounded number of events, and the following rounds the remaining ones.
// Both changed events and events that are no longer in lists must be read.
func TestEachRoundReadsTheEventsThatWereNotReadYet(t *testing.T) {
	known, err := simplelru.NewLRU[string, *tailed](10, nil)
	if err != nil {
		t.Fatal(err)
	}
	tail := Tail{Bounds: TailBounds{Asked: 3}, known: known}
	for n := range 5 {
		k := &tailed{delivery: client.Delivery{State: "WAITING"}}
		if n%2 == 0 {
			k.delivery.State, k.changed = "DELIVERED", true
		}
		known.Add(fmt.Sprintf("evt_%d", n), k)
	}
	known.Add("evt_settled", &tailed{delivery: client.Delivery{State: "DELIVERED"}})
	var all []string
	for range 3 {
		all = append(all, tail.due()...)
	}
	if want := []string{"evt_0", "evt_1", "evt_2", "evt_3", "evt_4"}; !slices.Equal(all, want) {
		t.Errorf("read %v in three rounds, want %v", all, want)
	}
}
