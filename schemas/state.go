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

// MarshalAccount writes an account as a task keeps it.
func MarshalAccount(a domain.Account) []byte { return EncodeAccount(a).Value }

// MarshalEndpoint writes an endpoint as a task keeps it.
func MarshalEndpoint(e domain.Endpoint) []byte { return EncodeEndpoint(e).Value }

// MarshalWatch writes a watch as a task keeps it.
func MarshalWatch(w domain.Watch) []byte { return EncodeWatch(w).Value }

// UnmarshalAccount reads an account as a task keeps it.
func UnmarshalAccount(value []byte) (domain.Account, error) {
	var row kafka.Account
	err := proto.Unmarshal(value, &row)
	return accountIn(&row), err
}

// UnmarshalEndpoint reads an endpoint as a task keeps it.
func UnmarshalEndpoint(value []byte) (domain.Endpoint, error) {
	var row kafka.Endpoint
	err := proto.Unmarshal(value, &row)
	return endpointIn(&row), err
}

// UnmarshalWatch reads a watch as a task keeps it.
func UnmarshalWatch(value []byte) (domain.Watch, error) {
	var row kafka.Watch
	err := proto.Unmarshal(value, &row)
	return watchIn(&row), err
}

// MarshalHandled writes what a task remembers of a command.
func MarshalHandled(h domain.CommandHandled) []byte {
	return pack("CommandHandled", "", factOut(nil, h)).Value
}

// UnmarshalHandled reads what a task remembers of a command.
func UnmarshalHandled(value []byte) (domain.CommandHandled, error) {
	var r kafka.CommandHandled
	err := proto.Unmarshal(value, &r)
	return commandHandledIn(&r).(domain.CommandHandled), err
}
