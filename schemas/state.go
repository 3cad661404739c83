package schemas

import (
	"google.golang.org/protobuf/proto"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// MarshalDelivery writes a delivery as a task keeps it.
func MarshalDelivery(d domain.Delivery) []byte { return pack("Delivery", "", deliveryOut(d)).Value }

// UnmarshalDelivery reads a delivery as a task keeps it.
func UnmarshalDelivery(value []byte) (domain.Delivery, error) {
	var r kafka.Delivery
	err := proto.Unmarshal(value, &r)
	return deliveryIn(&r), err
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
