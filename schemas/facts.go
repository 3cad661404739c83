package schemas

import (
	"fmt"
	"maps"

	"google.golang.org/protobuf/proto"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// EncodeFact writes a fact of the journal.
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
	default: // none: each fact is one of these
	}
	panic(noForm(body))
}

// DecodeFact reads a fact of the journal.
func DecodeFact(m Message) (domain.Fact, error) {
	read, known := factForms[m.Type]
	if !known {
		return domain.Fact{}, fmt.Errorf("schemas: the journal holds a fact of type %q, which this "+
			"program does not know: run a newer lumenhook", m.Type)
	}
	return read(m)
}

// factForms reads each fact type.
var factForms = together(accountFactForms, endpointFactForms, deliveryFactForms, noticeFactForms,
	watchFactForms, map[string]factForm{"CommandHandled": fact(commandHandledIn)})

// factForm reads one fact type.
type factForm func(Message) (domain.Fact, error)

// fact makes the reader of one fact type out of how its body is read.
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

// together is one table out of several that have no key in common.
func together[T any](tables ...map[string]T) map[string]T {
	all := make(map[string]T)
	for _, t := range tables {
		maps.Copy(all, t)
	}
	return all
}
