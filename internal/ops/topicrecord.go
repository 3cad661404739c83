package ops

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/task"
)

// protoPackage is where the topics' messages are registered, by package schemas.
const protoPackage = "lumenhook.kafka.v1."

// recordLine is a record for people.
type recordLine struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Time      string `json:"time"`
	Key       string `json:"key"`
	Type      string `json:"type"`
	Version   string `json:"version,omitempty"`
	Cause     string `json:"cause,omitempty"`
	Value     any    `json:"value"`
}

// writeRecord prints a record as one line of JSON. A value that this program cannot decode
// is printed raw, with the reason.
func writeRecord(w io.Writer, r kafka.Record) error {
	m := schemas.Read(r.Value, r)
	line := recordLine{
		Topic:     r.Topic,
		Partition: r.Partition,
		Offset:    r.Offset,
		Time:      domain.FormatMillis(r.Timestamp.UnixMilli()),
		Key:       strings.ToValidUTF8(string(r.Key), "\uFFFD"),
		Type:      m.Type,
		Version:   m.Version,
		Cause:     m.Cause,
	}
	if kind, value := snapshotPart(r); kind != "" {
		line.Type, line.Value = kind, value
	} else if len(r.Value) > 0 {
		value, err := messageValue(m)
		if err != nil {
			value = map[string]any{"unreadable": err.Error(), "bytes": r.Value}
		}
		line.Value = value
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(line)
}

// snapshotPart returns the display form of a snapshot record: a manifest unchanged; for a chunk,
// which is compressed, its number and its size. Its kind is empty for other records.
func snapshotPart(r kafka.Record) (kind string, value any) {
	if r.Topic != schemas.TopicSnapshots {
		return "", nil
	}
	chunk := r.Header(task.HeaderChunk)
	switch {
	case chunk != "":
		return "SnapshotChunk", map[string]any{"chunk": chunk, "compressedBytes": len(r.Value)}
	case json.Valid(r.Value):
		return "SnapshotManifest", json.RawMessage(r.Value)
	}
	return "", nil
}

// bareTypes are the types of records that are neither a command nor a fact.
var bareTypes = []string{
	"Account", "BalanceMoved", "CommandResult", "DeadLetter", "Endpoint", "KeyUse", "LedgerRead",
	"PaymentMatched", "PaymentObserved", "TransactionQuarantined", "Watch",
}

// recordTypes are the possible types of a record. Commands and facts are the messages with
// a meta.
func recordTypes() []string {
	names := slices.Clone(bareTypes)
	protoregistry.GlobalTypes.RangeMessages(func(t protoreflect.MessageType) bool {
		d := t.Descriptor()
		if strings.HasPrefix(string(d.FullName()), protoPackage) && d.Fields().ByName("meta") != nil {
			names = append(names, string(d.Name()))
		}
		return true
	})
	slices.Sort(names)
	return slices.Compact(names)
}

func messageValue(m schemas.Message) (any, error) {
	name := protoreflect.FullName(protoPackage + m.Type)
	form, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		return nil, fmt.Errorf("this program does not know the type %q", m.Type)
	}
	message := form.New().Interface()
	if err := proto.Unmarshal(m.Value, message); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", m.Type, err)
	}
	return messageFields(message.ProtoReflect()), nil
}

// messageFields returns the fields that are set, by their JSON names.
func messageFields(m protoreflect.Message) map[string]any {
	fields := make(map[string]any)
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			by := make(map[string]any)
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				by[k.String()] = fieldValue(f.MapValue(), v)
				return true
			})
			fields[f.JSONName()] = by
		case f.IsList():
			list := make([]any, v.List().Len())
			for i := range list {
				list[i] = fieldValue(f, v.List().Get(i))
			}
			fields[f.JSONName()] = list
		default:
			fields[f.JSONName()] = fieldValue(f, v)
		}
		return true
	})
	return fields
}

// fieldValue formats an envelope as JSON, text as text, and anything else, or sealed, as base64.
func fieldValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return messageFields(v.Message())
	case protoreflect.EnumKind:
		return int32(v.Enum())
	case protoreflect.BytesKind:
		data := v.Bytes()
		switch {
		case f.Name() == "body" && json.Valid(data):
			return json.RawMessage(data)
		case holdsText(f) && utf8.Valid(data):
			return string(data)
		}
		return data
	}
	return v.Interface()
}

func holdsText(f protoreflect.FieldDescriptor) bool {
	return strings.HasSuffix(string(f.Name()), "body") || f.Name() == "raw"
}
