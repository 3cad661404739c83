package domain

import "strings"

// Kind is a kind of aggregate. A delivery belongs to the aggregate of its endpoint.
type Kind string

// Kinds of aggregate.
const (
	KindNone     Kind = "" // any other ID
	KindAccount  Kind = "account"
	KindEndpoint Kind = "endpoint"
	KindWatch    Kind = "watch"
)

// KindOf returns the kind of the aggregate with the given ID.
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

// EvolveEndpoint applies a fact of an endpoint's aggregate to the endpoint and to the delivery of
// [Fact.EventID]. The delivery gets the epoch that the endpoint has after the fact.
func EvolveEndpoint(endpoint Endpoint, delivery Delivery, f Fact) (Endpoint, Delivery) {
	endpoint = evolveEndpoint(endpoint, f)
	return endpoint, evolveDelivery(delivery, endpoint.Epoch, f)
}
