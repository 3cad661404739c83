package schemas

import (
	"google.golang.org/protobuf/proto"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// MarshalDelivery writes a delivery as a task keeps it.
func MarshalDelivery(d domain.Delivery) []byte {
	return pack("DeliveryRecord", "", &kafka.DeliveryRecord{
		EventId: d.EventID, EventType: string(d.EventType), EndpointId: d.EndpointID, WatchId: d.WatchID, State: string(d.State),
		CreatedAtMillis: d.CreatedAtMillis, Attempts: uint32(d.Attempts), Run: uint32(d.Run), RunAttempts: uint32(d.RunAttempts), NextAttemptAtMillis: d.NextAttemptAtMillis,
	}).Value
}

// UnmarshalDelivery reads a delivery as a task keeps it.
func UnmarshalDelivery(value []byte) (domain.Delivery, error) {
	var r kafka.DeliveryRecord
	err := proto.Unmarshal(value, &r)
	return domain.Delivery{
		EventID: r.GetEventId(), EventType: domain.EventType(r.GetEventType()), EndpointID: r.GetEndpointId(), WatchID: r.GetWatchId(), State: domain.DeliveryState(r.GetState()),
		CreatedAtMillis: r.GetCreatedAtMillis(), Attempts: int(r.GetAttempts()), Run: int(r.GetRun()), RunAttempts: int(r.GetRunAttempts()), NextAttemptAtMillis: r.GetNextAttemptAtMillis(),
	}, err
}
