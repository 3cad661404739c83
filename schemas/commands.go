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
	default: // none: each command is of one of these
	}
	panic(noForm(body))
}

// noForm is the panic message for a command or fact without a Protobuf form.
func noForm(body any) string { return fmt.Sprintf("schemas: %T has no Protobuf form", body) }

// DecodeCommand decodes a command.
func DecodeCommand(m Message) (domain.Command, error) {
	read, known := commandForms[m.Type]
	if !known {
		return domain.Command{}, fmt.Errorf("schemas: found a command of type %q, which this program "+
			"does not know: run a newer lumenhook", m.Type)
	}
	return read(m)
}

// commandForms decodes each command type.
var commandForms = together(accountCommandForms, endpointCommandForms, watchCommandForms)

// commandForm decodes one command type.
type commandForm func(Message) (domain.Command, error)

// command makes the decoder of a command type from the decoder of its body.
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
