package domain_test

import (
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// A missing fact is noticed at a later fact. The exception is the last attempt before a
// cancellation, which only the attempt count in the delivery's row reveals.
func TestAMissingFactOfADeliveryShows(t *testing.T) {
	facts := []domain.FactBody{
		domain.EndpointCreated{EndpointID: "ep_1", AccountID: "acc_1"},
		domain.DeliveryCreated{EndpointID: "ep_1", Event: domain.Event{ID: "evt_1"}},
		domain.AttemptMade{EventID: "evt_1", Number: 1, Run: 1, State: domain.StateWaiting},
		domain.AttemptMade{EventID: "evt_1", Number: 2, Run: 1, State: domain.StateDelivered},
		domain.DeliveryRequeued{EventID: "evt_1", Run: 2},
		domain.AttemptMade{EventID: "evt_1", Number: 3, Run: 2, State: domain.StateWaiting},
		domain.DeliveryRequeued{EventID: "evt_1", Run: 3},
		domain.AttemptMade{EventID: "evt_1", Number: 4, Run: 3, State: domain.StateWaiting},
		domain.DeliveryCancelled{EventID: "evt_1"},
		domain.DeliveryMoved{EventID: "evt_1", ToEndpointID: "ep_2"},
		domain.EndpointCreated{EndpointID: "ep_2", AccountID: "acc_1"},
		domain.DeliveryCreated{
			EndpointID: "ep_2",
			Event:      domain.Event{ID: "evt_1"},
			Moved:      domain.Moved{Moves: 1, Attempts: 4, Runs: 3},
		},
		domain.AttemptMade{EventID: "evt_1", Number: 5, Run: 4, State: domain.StateDelivered},
	}
	for missing := -1; missing < len(facts)-1; missing++ {
		var d domain.TrackedDelivery
		stopped := -1
		for i, body := range facts {
			f := domain.Fact{Aggregate: "ep_1", Version: uint64(i + 1), Body: body}
			if i >= 10 {
				f.Aggregate = "ep_2"
			}
			if i == missing {
				continue
			}
			if !d.Precedes(f) {
				stopped = i
				break
			}
			d = d.Evolve(f)
		}
		want, said := map[int]int{-1: -1, 0: 2, 3: 5, 7: -1, 9: 11, 10: 12}[missing]
		if !said {
			want = missing + 1
		}
		if stopped != want {
			t.Errorf("without fact %d the fold stops at %d, want %d", missing, stopped, want)
		}
	}
}

// A history whose beginning has expired must not pass for complete. An engine may begin with a
// recall, but a history may not.
func TestARecallIsNoBeginning(t *testing.T) {
	made := domain.Fact{
		Aggregate: "ep_1",
		Version:   1,
		Body:      domain.EndpointCreated{EndpointID: "ep_1", AccountID: "acc_1"},
	}
	created := domain.Fact{
		Aggregate: "ep_1",
		Version:   2,
		Body:      domain.DeliveryCreated{EndpointID: "ep_1", Event: domain.Event{ID: "evt_1"}},
	}
	attempted := domain.Fact{
		Aggregate: "ep_1",
		Version:   3,
		Body: domain.AttemptMade{
			EventID: "evt_1",
			Number:  1,
			Run:     1,
			State:   domain.StateDelivered,
		},
	}
	recalled := domain.Fact{
		Aggregate: "ep_1",
		Version:   4,
		Body: domain.DeliveryRecalled{Delivery: domain.Delivery{
			EventID:    "evt_1",
			AccountID:  "acc_1",
			EndpointID: "ep_1",
			State:      domain.StateDelivered,
			Attempts:   1,
			Run:        1,
		}},
	}
	left := domain.TrackedDelivery{}.Evolve(made)
	if left.Precedes(recalled) {
		t.Error("a history without its creation and its attempt passes for whole")
	}
	if !left.Evolve(created).Evolve(attempted).Precedes(recalled) {
		t.Error("a whole history does not go on with a recall")
	}
}

// A delivery is due at the time of its retry, or at once when its endpoint is enabled (G3). It is
// never due while its endpoint is disabled or after it has ended.
func TestWhenATrackedDeliveryIsDue(t *testing.T) {
	var d domain.TrackedDelivery
	version := uint64(0)
	for _, c := range []struct {
		name      string
		atMillis  int64
		fact      domain.FactBody
		dueMillis int64
	}{
		{"no delivery", 1, domain.EndpointCreated{EndpointID: "ep_1", AccountID: "acc_1"}, 0},
		{"created", 10, domain.DeliveryCreated{EndpointID: "ep_1", Event: domain.Event{ID: "evt_1"}}, 10},
		{"waits", 20, domain.AttemptMade{
			EventID: "evt_1", Number: 1, Run: 1, State: domain.StateWaiting, NextAttemptAtMillis: 500,
		}, 500},
		{"disabled", 30, domain.EndpointDisabled{}, 0},
		{"enabled", 40, domain.EndpointEnabled{}, 40},
		{"waits again", 50, domain.AttemptMade{
			EventID: "evt_1", Number: 2, Run: 1, State: domain.StateWaiting, NextAttemptAtMillis: 600,
		}, 600},
		{"disabled again", 60, domain.EndpointDisabled{}, 0},
		{"enabled after its time", 700, domain.EndpointEnabled{}, 600},
		{"fails", 710, domain.AttemptMade{
			EventID: "evt_1", Number: 3, Run: 1, State: domain.StateFailed,
		}, 0},
		{"requeued", 720, domain.DeliveryRequeued{
			EventID: "evt_1", Run: 2, NextAttemptAtMillis: 725,
		}, 725},
		{"the endpoint is deleted", 730, domain.EndpointDeleted{}, 0},
	} {
		version++
		d = d.Evolve(domain.Fact{
			Aggregate: "ep_1", Version: version, AtMillis: c.atMillis, Body: c.fact,
		})
		if got := d.DueMillis(); got != c.dueMillis {
			t.Errorf("%s: due at %d, want %d", c.name, got, c.dueMillis)
		}
	}
}
