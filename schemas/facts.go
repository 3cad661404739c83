package schemas

import (
	"fmt"
	"maps"

	"google.golang.org/protobuf/proto"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// EncodeFact encodes a fact of the journal.
func EncodeFact(f domain.Fact) Message {
	meta := &kafka.FactMeta{Aggregate: f.Aggregate, Version: f.Version, AtMillis: f.AtMillis}
	return pack(f.Body.FactType(), f.Cause, factOut(meta, f.Body))
}

func factOut(meta *kafka.FactMeta, body domain.FactBody) proto.Message {
	switch b := body.(type) {
	case domain.AccountFact:
		return accountFactOut(meta, b)
	case domain.EndpointFact:
		return endpointFactOut(meta, b)
	case domain.DeliveryFact:
		return deliveryFactOut(meta, b)
	case domain.NoticeFact:
		return noticeFactOut(meta, b)
	case domain.WatchFact:
		return watchFactOut(meta, b)
	case domain.CommandHandled:
		return commandHandledOut(meta, b)
	default: // the cases above cover all facts
	}
	panic(noForm(body))
}

// DecodeFact decodes a fact of the journal.
func DecodeFact(m Message) (domain.Fact, error) {
	read, known := factForms[m.Type]
	if !known {
		return domain.Fact{}, fmt.Errorf("schemas: the journal has a fact of unknown type %q: run a "+
			"newer lumenhook", m.Type)
	}
	return read(m)
}

var factForms = together(accountFactForms, endpointFactForms, deliveryFactForms, noticeFactForms,
	watchFactForms, map[string]factForm{"CommandHandled": fact(commandHandledIn)})

type factForm func(Message) (domain.Fact, error)

// fact returns a decoder of facts, given a decoder of their bodies.
func fact[T any, M interface {
	*T
	proto.Message
	GetMeta() *kafka.FactMeta
}](in func(M) domain.FactBody) factForm {
	return func(m Message) (domain.Fact, error) {
		b := M(new(T))
		if err := unpack(m, b); err != nil {
			return domain.Fact{}, err
		}
		meta := b.GetMeta()
		return domain.Fact{
			Aggregate: meta.GetAggregate(),
			Version:   meta.GetVersion(),
			AtMillis:  meta.GetAtMillis(),
			Cause:     m.Cause,
			Body:      in(b),
		}, nil
	}
}

// together merges tables that have no keys in common.
func together[T any](tables ...map[string]T) map[string]T {
	all := make(map[string]T)
	for _, t := range tables {
		maps.Copy(all, t)
	}
	return all
}
