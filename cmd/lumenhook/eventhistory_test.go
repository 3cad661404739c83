package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
)

// The history of an event consists of the engine's facts: delivered, sent again while its endpoint
// was disabled, held, and released.
func TestTheHistoryOfAnEvent(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms")
	wallet := s.watchedWallet(startHooks(t, s.dir))
	s.devnet(nil, "pay", "--to", wallet, "--amount", "1")
	s.eventually("an event that is delivered", func() bool { return s.delivered(1) })
	var events client.List[client.Event]
	s.cli(&events, "events", "list")
	event := events.Data[0]
	s.must("endpoints", "disable", event.Delivery.EndpointID)
	s.must("events", "resend", event.ID)
	s.must("endpoints", "enable", event.Delivery.EndpointID)
	s.eventually("that it is delivered again", func() bool {
		got, err := s.client(s.file.APIKey).GetEvent(t.Context(), event.ID)
		return err == nil && len(got.Attempts) == 2
	})
	var history client.List[client.Fact]
	s.cli(&history, "events", "history", event.ID)
	var told []string
	for _, f := range slices.Backward(history.Data) {
		var state struct {
			State    string
			Held     bool
			Attempts int
		}
		if err := json.Unmarshal(f.State, &state); err != nil {
			t.Fatal(err)
		}
		told = append(told, fmt.Sprint(f.Fact, state))
	}
	want := "[DeliveryCreated{QUEUED false 0} AttemptMade{DELIVERED false 1} " +
		"DeliveryRequeued{QUEUED true 1} EndpointEnabled{QUEUED false 1} AttemptMade{DELIVERED false 2}]"
	if fmt.Sprint(told) != want {
		t.Errorf("the history tells %v, want %s", told, want)
	}
	s.interrupt()
}
