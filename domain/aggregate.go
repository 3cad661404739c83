package domain

import "strings"

// Kind is a kind of aggregate. Deliveries belong to their endpoint.
type Kind string

// Kinds of aggregate.
const (
	KindNone     Kind = "" // any other identifier
	KindAccount  Kind = "account"
	KindEndpoint Kind = "endpoint"
	KindWatch    Kind = "watch"
)

// KindOf returns the kind of the aggregate with an identifier.
func KindOf(aggregate string) Kind {
	switch {
	case strings.HasPrefix(aggregate, EndpointPrefix):
		return KindEndpoint
	case strings.HasPrefix(aggregate, WatchPrefix):
		return KindWatch
	case strings.HasPrefix(aggregate, AccountPrefix):
		return KindAccount
	}
	return KindNone
}

func (k Kind) prefix() string {
	switch k {
	case KindAccount:
		return AccountPrefix
	case KindEndpoint:
		return EndpointPrefix
	case KindWatch:
		return WatchPrefix
	case KindNone:
	}
	return ""
}

// EvolveEndpoint applies one fact of an endpoint's aggregate to the endpoint and to the delivery of
// [Fact.EventID], which gets the epoch of its endpoint after the fact.
func EvolveEndpoint(endpoint Endpoint, delivery Delivery, f Fact) (Endpoint, Delivery) {
	endpoint = evolveEndpoint(endpoint, f)
	return endpoint, evolveDelivery(delivery, endpoint.Epoch, f)
}
