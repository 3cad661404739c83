package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/task"
)

// pollRecords is how many records are read at once.
const pollRecords = 1000

// TopicReading selects which records of a topic are printed.
type TopicReading struct {
	from       string
	keys       []string
	types      []string
	partitions []int32
	limit      int
}

// Register adds the flags, with the default of where reading begins.
func (r *TopicReading) Register(f *pflag.FlagSet, from string) {
	f.StringVar(&r.from, "from", from, "start, end, an offset, a time such as "+
		"2026-11-21T15:04:05Z, or how long ago, such as 10m")
	cli.Offer(f, "from", "start", "end")
	f.StringSliceVar(&r.keys, "key", nil, "only records with this key; may be repeated")
	f.StringSliceVar(&r.types, "type", nil,
		"only records of this type, such as AttemptMade; may be repeated")
	f.Int32SliceVar(&r.partitions, "partition", nil, "only this partition; may be repeated")
	f.IntVar(&r.limit, "limit", 0, "stop after so many records; 0 for no limit")
}

// Check returns every fault of the flags at once.
func (r *TopicReading) Check() error {
	var faults []error
	if r.limit < 0 {
		faults = append(faults, fmt.Errorf("--limit %d: must not be negative", r.limit))
	}
	for _, name := range r.types {
		faults = append(faults, checkType(name))
	}
	return errors.Join(faults...)
}

// Print prints the records of a topic up to its end, or as they come until ctx ends.
func (r *TopicReading) Print(
	ctx context.Context, cluster kafka.Cluster, topic schemas.Topic, follow bool, out io.Writer,
) error {
	from, ends, err := r.positions(ctx, cluster, topic.Name)
	if err != nil {
		return err
	}
	reader, err := cluster.NewReader(kafka.ReaderConfig{
		From:        kafka.Offsets{topic.Name: from},
		SkipExpired: true,
	})
	if err != nil {
		return err
	}
	defer reader.Close()
	printed := 0
	show := func(record kafka.Record) error {
		if !follow && record.Offset >= ends[record.Partition] || !r.wants(record) {
			return nil
		}
		printed++
		if err := writeRecord(out, record); err != nil {
			return err
		}
		if r.limit > 0 && printed >= r.limit {
			return errEnough
		}
		return nil
	}
	if follow {
		for err == nil {
			err = reader.Poll(ctx, pollRecords, show)
		}
	} else {
		err = reader.ReadTo(ctx, topic.Name, ends, pollRecords, show)
	}
	if errors.Is(err, errEnough) || ctx.Err() != nil {
		return nil
	}
	return err
}

// checkType refuses an unknown type of records.
func checkType(name string) error {
	types := recordTypes()
	if slices.Contains(types, name) {
		return nil
	}
	return fmt.Errorf("--type %q: no record is of this type%s; the types are %s",
		name, cli.DidYouMean(name, types, ""), strings.Join(types, ", "))
}

var errEnough = errors.New("enough records")

func (r *TopicReading) wants(record kafka.Record) bool {
	return (len(r.keys) == 0 || slices.Contains(r.keys, string(record.Key))) &&
		(len(r.types) == 0 || slices.Contains(r.types, record.Header(schemas.HeaderType)))
}

// positions returns where reading begins and where the topic ends.
func (r *TopicReading) positions(
	ctx context.Context, cluster kafka.Cluster, topic string,
) (from, ends map[int32]int64, err error) {
	starts, ends, err := cluster.Extent(ctx, topic)
	if err != nil {
		return nil, nil, err
	}
	if from, err = r.begin(ctx, cluster, topic, starts, ends); err != nil {
		return nil, nil, err
	}
	for _, p := range r.partitions {
		if _, there := ends[p]; !there {
			return nil, nil, cli.Usage(fmt.Errorf("--partition %d: %s has the partitions 0 to %d",
				p, topic, len(ends)-1))
		}
	}
	for p := range ends {
		if len(r.partitions) > 0 && !slices.Contains(r.partitions, p) {
			delete(from, p)
			delete(ends, p)
		}
	}
	return from, ends, nil
}

func (r *TopicReading) begin(
	ctx context.Context, cluster kafka.Cluster, topic string, starts, ends map[int32]int64,
) (map[int32]int64, error) {
	from := make(map[int32]int64)
	if offset, err := strconv.ParseInt(r.from, 10, 64); err == nil {
		for p := range ends {
			from[p] = min(max(offset, starts[p]), ends[p])
		}
		return from, nil
	}
	switch r.from {
	case "start":
		return starts, nil
	case "end":
		for p, end := range ends {
			from[p] = end
		}
		return from, nil
	}
	at, err := parseStart(r.from)
	if err != nil {
		return nil, err
	}
	err = cluster.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		listed, err := admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), cluster.Prefix+topic)
		if err == nil {
			err = listed.Error()
		}
		listed.Each(func(o kadm.ListedOffset) { from[o.Partition] = o.Offset })
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("asking for the offsets of %s: %w", r.from, err)
	}
	return from, nil
}

func parseStart(text string) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return time.Now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, cli.Usage(fmt.Errorf("--from %q: must be start, end, an offset, a time such as "+
			"2026-11-21T15:04:05Z, or how long ago, such as 10m", text))
	}
	return at, nil
}

// FindTopic returns one of our topics by its name, with the prefix or without.
func FindTopic(prefix, name string) (schemas.Topic, error) {
	var names []string
	for _, t := range schemas.Topics() {
		if strings.TrimPrefix(name, prefix) == t.Name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return schemas.Topic{}, cli.Usage(fmt.Errorf("there is no topic %q: the topics are %s",
		name, strings.Join(names, ", ")))
}

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
