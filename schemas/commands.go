package schemas

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// EncodeCommand writes a command.
func EncodeCommand(c domain.Command) Message {
	meta := &kafka.CommandMeta{
		CommandId:      c.ID,
		AccountId:      c.AccountID,
		BodyHash:       c.BodyHash,
		IssuedAtMillis: c.IssuedAtMillis,
	}
	return pack(c.Body.CommandType(), c.ID, commandOut(meta, c.Body))
}

func commandOut(meta *kafka.CommandMeta, body domain.CommandBody) proto.Message {
	switch b := body.(type) {
	case domain.AccountCommand:
		return accountCommandOut(meta, b)
	case domain.EndpointCommand:
		return endpointCommandOut(meta, b)
	case domain.WatchCommand:
		return watchCommandOut(meta, b)
	default: // none: each command is of one of these
	}
	panic(noForm(body))
}

// noForm says of a kind of command or fact that it was not given a Protobuf form.
func noForm(body any) string { return fmt.Sprintf("schemas: %T has no Protobuf form", body) }

// DecodeCommand reads a command.
func DecodeCommand(m Message) (domain.Command, error) {
	read, known := commandForms[m.Type]
	if !known {
		return domain.Command{}, fmt.Errorf("schemas: found a command of type %q, which this program "+
			"does not know: run a newer lumenhook", m.Type)
	}
	return read(m)
}

// commandForms reads each command type.
var commandForms = together(accountCommandForms, endpointCommandForms, watchCommandForms)

// commandForm reads one command type.
type commandForm func(Message) (domain.Command, error)

// command makes the reader of one command type out of how its body is read.
func command[T any, M interface {
	*T
	proto.Message
	GetMeta() *kafka.CommandMeta
}](in func(M) domain.CommandBody) commandForm {
	return func(m Message) (domain.Command, error) {
		b := M(new(T))
		if err := unpack(m, b); err != nil {
			return domain.Command{}, err
		}
		meta := b.GetMeta()
		return domain.Command{
			ID:             meta.GetCommandId(),
			AccountID:      meta.GetAccountId(),
			BodyHash:       meta.GetBodyHash(),
			IssuedAtMillis: meta.GetIssuedAtMillis(),
			Body:           in(b),
		}, nil
	}
}
