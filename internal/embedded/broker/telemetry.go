package broker

import (
	"crypto/rand"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// telemetryAgain is when a client may ask again whether its metrics are wanted.
const telemetryAgain = 24 * time.Hour

// wantNoMetrics answers clients that offer their own metrics (KIP-714). By itself kfake asks every
// client for all of them twice a minute, drops them, and remembers each client for ever.
func wantNoMetrics(r kmsg.Request) kmsg.Response {
	asked := r.(*kmsg.GetTelemetrySubscriptionsRequest)
	answer := asked.ResponseKind().(*kmsg.GetTelemetrySubscriptionsResponse)
	answer.ClientInstanceID = asked.ClientInstanceID
	if answer.ClientInstanceID == ([16]byte{}) {
		_, _ = rand.Read(answer.ClientInstanceID[:])
	}
	answer.PushIntervalMillis = int32(telemetryAgain.Milliseconds())
	return answer
}
