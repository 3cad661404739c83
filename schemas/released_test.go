package schemas_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

// During an upgrade, the previous release reads what this program writes. The file released.txt
// lists what that release can read: one line per field of its messages, and one line per fact and
// command that it decodes. Generate the file only when you make a release:
//
//	go test ./schemas -run ReleaseBefore -args -release

const releasedFile = "testdata/released.txt"

var release = flag.Bool("release", false, "write "+releasedFile+": the forms of this program "+
	"are those of a release")

func presentFiles() *descriptorpb.FileDescriptorSet {
	set := new(descriptorpb.FileDescriptorSet)
	for _, name := range []string{"types.proto", "facts.proto", "commands.proto"} {
		file, err := protoregistry.GlobalFiles.FindFileByPath(name)
		if err != nil {
			panic(err)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
	}
	return set
}

// written returns the messages that this program writes.
func written() (all []schemas.Message) {
	for _, body := range goldenFacts {
		all = append(all,
			schemas.EncodeFact(domain.Fact{Aggregate: "ep_1", Version: 12, AtMillis: 1234, Body: body}))
	}
	for _, body := range laterFacts {
		all = append(all,
			schemas.EncodeFact(domain.Fact{Aggregate: "ep_1", Version: 12, AtMillis: 1234, Body: body}))
	}
	for _, body := range everyCommand {
		all = append(all,
			schemas.EncodeCommand(domain.Command{
				ID:             "cmd_1",
				AccountID:      "acc_1",
				IssuedAtMillis: 77,
				Body:           body,
			}))
	}
	watch := laterWatch()
	return append(all, schemas.EncodeMailOrder(goldenOrder), schemas.EncodeWatch(watch),
		schemas.EncodeEndpoint(laterEndpoint),
		schemas.EncodeAccount(domain.Account{
			ID:      "acc_1",
			Version: 3,
			Keys:    []domain.Key{goldenKey, laterKey},
		}))
}

// readsLine returns the line for a message that a decoder accepts.
func readsLine(m schemas.Message) string { return "reads " + m.Type + " v" + m.Version }

// fieldKey identifies a field as on the wire.
type fieldKey struct {
	message string
	number  protoreflect.FieldNumber
}

// formsOf returns the lines of released.txt for the fields in set, and its messages by name.
func formsOf(t *testing.T, set *descriptorpb.FileDescriptorSet) (
	fields map[fieldKey]string, messages map[string]protoreflect.MessageDescriptor,
) {
	t.Helper()
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	fields = make(map[fieldKey]string)
	messages = make(map[string]protoreflect.MessageDescriptor)
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Messages().Len() {
			m := file.Messages().Get(i)
			messages[string(m.Name())] = m
			for j := range m.Fields().Len() {
				f := m.Fields().Get(j)
				fields[fieldKey{string(m.Name()), f.Number()}] = wire(f)
			}
		}
		return true
	})
	return fields, messages
}

func lines(t *testing.T) (all []string) {
	t.Helper()
	fields, _ := formsOf(t, presentFiles())
	keys := make([]fieldKey, 0, len(fields))
	for key := range fields {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b fieldKey) int {
		return cmp.Or(cmp.Compare(a.message, b.message), cmp.Compare(a.number, b.number))
	})
	for _, key := range keys {
		all = append(all, fmt.Sprintf("%s %d %s", key.message, key.number, fields[key]))
	}
	var reads []string
	for _, m := range written() {
		reads = append(reads, readsLine(m))
	}
	slices.Sort(reads)
	return append(all, slices.Compact(reads)...)
}

// The previous release must accept the type and the version of each fact, command and row, and
// each field must have the same meaning on the wire. A release can read a new type or version
// before a later release writes it (docs/decisions/upgrades.md).
func TestTheReleaseBeforeReadsWhatThisProgramWrites(t *testing.T) {
	if *release {
		text := strings.Join(lines(t), "\n") + "\n"
		if err := os.WriteFile(releasedFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(releasedFile)
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, m := range written() {
		if !slices.Contains(before, readsLine(m)) {
			t.Errorf("%s v%s is written, and the release before does not read it: read it in this "+
				"release, and write it in the next", m.Type, m.Version)
		}
	}
	for _, fault := range breaks(t, before, presentFiles()) {
		t.Error(fault)
	}
}

// breaks reports fields that changed their kind, and fields that were removed without reserving
// their number.
func breaks(t *testing.T, before []string, now *descriptorpb.FileDescriptorSet) (faults []string) {
	t.Helper()
	fields, messages := formsOf(t, now)
	for _, line := range before {
		if strings.HasPrefix(line, "reads ") {
			continue
		}
		var key fieldKey
		if _, err := fmt.Sscan(line, &key.message, &key.number); err != nil {
			t.Fatalf("%s: %q: %v", releasedFile, line, err)
		}
		_, was, _ := strings.Cut(line, fmt.Sprintf(" %d ", key.number))
		m, found := messages[key.message]
		is, there := fields[key]
		switch {
		case !found:
			faults = append(faults, key.message+" is gone")
		case !there && !m.ReservedRanges().Has(key.number):
			faults = append(faults, fmt.Sprintf("field %d of %s is gone, and its number is not reserved",
				key.number, key.message))
		case there && is != was:
			faults = append(faults,
				fmt.Sprintf("field %d of %s was %s and is %s", key.number, key.message, was, is))
		}
	}
	return faults
}

// wire returns the properties of a field that must not change: kind, cardinality, message type
// and oneof.
func wire(f protoreflect.FieldDescriptor) string {
	parts := []string{f.Kind().String(), f.Cardinality().String()}
	if f.Message() != nil {
		parts = append(parts, string(f.Message().Name()))
	}
	if one := f.ContainingOneof(); one != nil {
		parts = append(parts, "in "+string(one.Name()))
	}
	return strings.Join(parts, " ")
}

// breaks must report changes that the previous release can't read, but not the removal of a field
// whose number is reserved.
func TestAFormThatTheReleaseBeforeCannotReadIsNamed(t *testing.T) {
	before := lines(t)
	for name, c := range map[string]struct {
		change func(*descriptorpb.DescriptorProto)
		want   string
	}{
		"another kind": {func(m *descriptorpb.DescriptorProto) {
			m.Field[1].Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
		}, "was string optional and is bytes optional"},
		"gone": {func(m *descriptorpb.DescriptorProto) { m.Field = m.Field[:1] }, "its number is not reserved"},
		"a number that is used again": {func(m *descriptorpb.DescriptorProto) {
			m.Field[2].Number, m.Field[1].Number = m.Field[1].Number, proto.Int32(99)
			m.Field[2].Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}, "is string repeated"},
	} {
		now := presentFiles()
		for _, file := range now.File {
			for _, m := range file.MessageType {
				if m.GetName() == "AccountCreated" {
					c.change(m)
				}
			}
		}
		if faults := strings.Join(breaks(t, before, now), "\n"); !strings.Contains(faults, c.want) {
			t.Errorf("%s: %q does not say %q", name, faults, c.want)
		}
	}
	reserved := presentFiles()
	for _, m := range reserved.File[1].MessageType {
		if m.GetName() == "AccountCreated" {
			gone := m.Field[2].GetNumber()
			m.Field = slices.Delete(m.Field, 2, 3)
			m.ReservedRange = append(m.ReservedRange, &descriptorpb.DescriptorProto_ReservedRange{
				Start: proto.Int32(gone),
				End:   proto.Int32(gone + 1),
			})
		}
	}
	if faults := breaks(t, before, reserved); len(faults) > 0 {
		t.Errorf("a field that is reserved is called a fault: %v", faults)
	}
}
