package broker_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestNobodysMetricsAreWanted: a client that asks is named, keeps its name, and is told that no
// metrics are wanted for a day.
func TestNobodysMetricsAreWanted(t *testing.T) {
	client := newClient(t, start(t, t.TempDir()))
	ask := kmsg.NewGetTelemetrySubscriptionsRequest()
	first, err := ask.RequestWith(t.Context(), client)
	if err != nil || first.ErrorCode != 0 {
		t.Fatal(first, err)
	}
	if len(first.RequestedMetrics) > 0 || first.PushIntervalMillis != 24*3600*1000 {
		t.Errorf("%q are wanted every %d ms", first.RequestedMetrics, first.PushIntervalMillis)
	}
	if first.ClientInstanceID == ([16]byte{}) {
		t.Error("the client was not named")
	}
	ask.ClientInstanceID = first.ClientInstanceID
	again, err := ask.RequestWith(t.Context(), client)
	if err != nil || again.ClientInstanceID != first.ClientInstanceID {
		t.Errorf("%v, %v: the client was renamed", again, err)
	}
}
