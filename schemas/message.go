package schemas

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
)

// Names of record headers.
const (
	HeaderType    = "type"  // the name of the value's message
	HeaderVersion = "v"     // its schema version
	HeaderCause   = "cause" // identifier of the command that caused it
)

// Message is a record's value and the type and version in its headers.
type Message struct {
	Type    string
	Version string
	Cause   string
	Value   []byte
}

// Headers returns a record's headers by name, or an empty text.
type Headers interface {
	Header(name string) string
}

// Read makes a message from a record's value and headers.
func Read(value []byte, h Headers) Message {
	return Message{
		Type:    h.Header(HeaderType),
		Version: h.Header(HeaderVersion),
		Cause:   h.Header(HeaderCause),
		Value:   value,
	}
}

// EachHeader iterates over the headers of this message's record.
func (m Message) EachHeader(yield func(name, value string) bool) {
	_ = yield(HeaderType, m.Type) && yield(HeaderVersion, m.Version) &&
		(m.Cause == "" || yield(HeaderCause, m.Cause))
}

// firstVersion is the schema version of every message so far. A message that gets a second
// version is upcast when it is decoded.
const firstVersion = "1"

func pack(typ, cause string, m proto.Message) Message {
	value, err := proto.Marshal(m)
	if err != nil {
		// Marshal fails only on strings that are not UTF-8: the code that made the value
		// checks them, so this is a bug (never a state that can be stored).
		panic(fmt.Sprintf("schemas: encoding %s: %v", typ, err))
	}
	return Message{Type: typ, Version: firstVersion, Cause: cause, Value: value}
}

// ErrNewer is the error of a message with a schema version that this program does not know:
// a newer program decodes it.
var ErrNewer = errors.New("run a newer lumenhook")

func unpack(m Message, into proto.Message) error {
	if m.Version == "" {
		return fmt.Errorf("schemas: %.80q has no schema version: it was not written by lumenhook", m.Type)
	}
	if m.Version != firstVersion {
		return fmt.Errorf("schemas: %s has schema version %q, and this program knows %s: %w", m.Type,
			m.Version, firstVersion, ErrNewer)
	}
	if err := proto.Unmarshal(m.Value, into); err != nil {
		return fmt.Errorf("schemas: decoding %s: %w", m.Type, err)
	}
	return nil
}

func unpackAs(m Message, typ string, into proto.Message) error {
	if m.Type != typ {
		return fmt.Errorf("schemas: found %q where %s belongs", m.Type, typ)
	}
	return unpack(m, into)
}

// decodeAs decodes a message of a type.
func decodeAs[T any, R any, M interface {
	*R
	proto.Message
}](m Message, typ string, in func(M) T) (T, error) {
	b := M(new(R))
	err := unpackAs(m, typ, b)
	return in(b), err
}

// unmarshalAs decodes a value that a task stores.
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
