package schemas

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
)

// Header names.
const (
	HeaderType    = "type"  // name of the value's Protobuf message
	HeaderVersion = "v"     // its schema version
	HeaderCause   = "cause" // ID of the command that caused the record
)

// Message is a record's value with the contents of its headers.
type Message struct {
	Type    string
	Version string
	Cause   string
	Value   []byte
}

// Headers returns the value of a record's header, or "".
type Headers interface {
	Header(name string) string
}

// Read returns a message with a record's value and headers.
func Read(value []byte, h Headers) Message {
	return Message{
		Type:    h.Header(HeaderType),
		Version: h.Header(HeaderVersion),
		Cause:   h.Header(HeaderCause),
		Value:   value,
	}
}

// EachHeader iterates over the headers of the message's record.
func (m Message) EachHeader(yield func(name, value string) bool) {
	_ = yield(HeaderType, m.Type) && yield(HeaderVersion, m.Version) &&
		(m.Cause == "" || yield(HeaderCause, m.Cause))
}

// firstVersion is the schema version of all messages so far. Decoders will convert older ones.
const firstVersion = "1"

func pack(typ, cause string, m proto.Message) Message {
	value, err := proto.Marshal(m)
	if err != nil {
		// Marshal fails only for invalid UTF-8, which callers check before, so this is a bug.
		panic(fmt.Sprintf("schemas: encoding %s: %v", typ, err))
	}
	return Message{Type: typ, Version: firstVersion, Cause: cause, Value: value}
}

// ErrNewer is returned for messages with an unknown schema version, which a newer program can read.
var ErrNewer = errors.New("run a newer lumenhook")

func unpack(m Message, into proto.Message) error {
	if m.Version == "" {
		return fmt.Errorf("schemas: %.80q has no schema version: it was not written by lumenhook", m.Type)
	}
	if m.Version != firstVersion {
		return fmt.Errorf("schemas: %s has schema version %q, but this program only supports %s: %w",
			m.Type, m.Version, firstVersion, ErrNewer)
	}
	if err := proto.Unmarshal(m.Value, into); err != nil {
		return fmt.Errorf("schemas: decoding %s: %w", m.Type, err)
	}
	return nil
}

func unpackAs(m Message, typ string, into proto.Message) error {
	if m.Type != typ {
		return fmt.Errorf("schemas: expected a record of type %s, got %q", typ, m.Type)
	}
	return unpack(m, into)
}

func decodeAs[T any, R any, M interface {
	*R
	proto.Message
}](m Message, typ string, in func(M) T) (T, error) {
	b := M(new(R))
	err := unpackAs(m, typ, b)
	return in(b), err
}

func unmarshalAs[T any, R any, M interface {
	*R
	proto.Message
}](value []byte, in func(M) T) (T, error) {
	b := M(new(R))
	err := proto.Unmarshal(value, b)
	return in(b), err
}

func mapped[Out, In any](in []In, f func(In) Out) []Out {
	if len(in) == 0 {
		return nil
	}
	out := make([]Out, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

func strings[Out, In ~string](in []In) []Out {
	if len(in) == 0 {
		return nil
	}
	out := make([]Out, len(in))
	for i, s := range in {
		out[i] = Out(s)
	}
	return out
}

func pointer[T any](v T) *T { return &v }
