package domain

import "strings"

// Kind is what an aggregate is. Deliveries belong to their endpoint.
type Kind string

// Kinds of aggregate.
const (
	KindNone     Kind = "" // no aggregate has such an identifier
	KindAccount  Kind = "account"
	KindEndpoint Kind = "endpoint"
	KindWatch    Kind = "watch"
)

// KindOf returns the kind of the aggregate that has an identifier.
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

// prefix is what identifiers of the kind begin with.
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

// EvolveEndpoint folds one fact of an endpoint's aggregate into the endpoint, and
// into the delivery that the fact is about: that of [Fact.EventID]. A delivery is
// of the epoch that its endpoint is in after the fact. A fact about no delivery
// leaves the one that is given as it is.
func EvolveEndpoint(endpoint Endpoint, delivery Delivery, f Fact) (Endpoint, Delivery) {
	endpoint = evolveEndpoint(endpoint, f)
	return endpoint, evolveDelivery(delivery, endpoint.Epoch, f)
}
