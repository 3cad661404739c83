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

// A list that has as many events as a round reads says that others may be beyond it where its last
// was not seen before, or an event came so late that others beyond may have. A few that are a
// moment late in a steady flow are shown, and no reason to warn.
func TestAFullListIsWarnedOfWhereEventsMayBeBeyondIt(t *testing.T) {
	newest := time.Now()
	list := make([]client.Event, 11) // newest first, a second apart
	for n := range list {
		list[n] = client.Event{
			ID:        fmt.Sprintf("evt_%d", n),
			CreatedAt: newest.Add(-time.Duration(n) * time.Second),
		}
	}
	for _, c := range []struct {
		unseen []int
		warns  bool
	}{
		{nil, false}, {[]int{0}, false}, {[]int{1, 4}, false}, {[]int{5}, true}, {[]int{8}, true},
		{[]int{10}, true}, {[]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, true},
	} {
		known, err := simplelru.NewLRU[string, *tailed](20, nil)
		if err != nil {
			t.Fatal(err)
		}
		for n, e := range list {
			if !slices.Contains(c.unseen, n) {
				known.Add(e.ID, &tailed{})
			}
		}
		tail := Tail{known: known, newest: newest}
		if warns := tail.mayMiss(list); warns != c.warns {
			t.Errorf("of %d unseen it warns: %t", c.unseen, warns)
		}
	}
	atOnce := []client.Event{{ID: "evt_1", CreatedAt: newest}, {ID: "evt_2", CreatedAt: newest}}
	known, err := simplelru.NewLRU[string, *tailed](20, nil)
	if err != nil {
		t.Fatal(err)
	}
	known.Add("evt_2", &tailed{})
	if tail := (Tail{known: known, newest: newest}); !tail.mayMiss(atOnce) {
		t.Error("of a flood of one moment it does not warn")
	}
}
