package apicli

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/lumenhook/lumenhook/api/client"
)

// However many events of lists were asked for in a round, those that lists no longer have are too.
func TestAFloodKeepsNoOlderEventsWaiting(t *testing.T) {
	known, err := simplelru.NewLRU[string, *tailed](10, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	tail := Tail{Bounds: TailBounds{Asked: 3}, known: known, oldest: now}
	for n := range 5 {
		known.Add(fmt.Sprintf("evt_%d", n), &tailed{
			created:  now.Add(-time.Hour),
			delivery: client.Delivery{State: "WAITING"},
		})
	}
	tail.asked = 100 // in a round of a flood
	var all []string
	for range 2 {
		all = append(all, tail.due()...)
	}
	if want := []string{"evt_0", "evt_1", "evt_2", "evt_3", "evt_4"}; !slices.Equal(all, want) {
		t.Errorf("asked for %v in two rounds, want %v", all, want)
	}
}
