package schemas

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// EncodeCommand encodes a command.
func EncodeCommand(c domain.Command) Message {
	meta := &kafka.CommandMeta{
		CommandId:      c.ID,
		AccountId:      c.AccountID,
		BodyHash:       c.BodyHash,
		IssuedAtMillis: c.IssuedAtMillis,
		KeyId:          c.KeyID,
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
	default: // the interfaces above cover all commands
	}
	panic(noForm(body))
}

// noForm returns the panic message for a command or fact without a Protobuf form.
func noForm(body any) string { return fmt.Sprintf("schemas: %T has no Protobuf form", body) }

// DecodeCommand decodes a command.
func DecodeCommand(m Message) (domain.Command, error) {
	read, known := commandForms[m.Type]
	if !known {
		return domain.Command{}, fmt.Errorf("schemas: unknown command type %q: run a newer lumenhook",
			m.Type)
	}
	return read(m)
}

var commandForms = together(accountCommandForms, endpointCommandForms, watchCommandForms)

type commandForm func(Message) (domain.Command, error)

// command returns a decoder of commands, given a decoder of their bodies.
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
			KeyID:          meta.GetKeyId(),
			Body:           in(b),
		}, nil
	}
}
