package schemas_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

// While a deployment is upgraded, the program of the release before reads what this
// one writes. released/forms.json is what that release knows: its messages, and the
// schema versions and types that its decoder takes. `make release-forms` writes it,
// once a release is made and never otherwise.

const releasedFile = "released/forms.json"

var release = flag.Bool("release", false,
	"write released/forms.json: this program's forms are those of a release")

// forms are what a release reads.
type forms struct {
	Messages json.RawMessage `json:"messages"` // a FileDescriptorSet
	// Read are the facts and commands that its decoder takes, as type and version.
	Read []string `json:"read"`
}

// presentFiles are the Protobuf files of this program.
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

// written are the facts and commands that this program writes, as messages.
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

func formOf(m schemas.Message) string { return m.Type + " v" + m.Version }

func loadReleased(t *testing.T) (*protoregistry.Files, []string) {
	t.Helper()
	if *release {
		writeReleased(t)
	}
	text, err := os.ReadFile(releasedFile)
	if err != nil {
		t.Fatal(err)
	}
	var f forms
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	return filesOf(t, f.Messages), f.Read
}

func filesOf(t *testing.T, text []byte) *protoregistry.Files {
	t.Helper()
	set := new(descriptorpb.FileDescriptorSet)
	if err := protojson.Unmarshal(text, set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func writeReleased(t *testing.T) {
	t.Helper()
	set, err := protojson.Marshal(presentFiles())
	if err != nil {
		t.Fatal(err)
	}
	f := forms{Messages: set}
	for _, m := range written() {
		f.Read = append(f.Read, formOf(m))
	}
	slices.Sort(f.Read)
	f.Read = slices.Compact(f.Read)
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(releasedFile, append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTheReleaseBeforeReadsWhatThisProgramWrites: each fact, command and row is of a
// type and version that it takes, and says to it what it says to us, but for fields
// that it does not know. A new type, or a new version, is read a release before it
// is written (docs/decisions/upgrades.md).
func TestTheReleaseBeforeReadsWhatThisProgramWrites(t *testing.T) {
	files, reads := loadReleased(t)
	for _, m := range written() {
		if !slices.Contains(reads, formOf(m)) {
			t.Errorf("%s is written, and the release before does not read it: read it in this release, and write it in the next", formOf(
				m,
			))
			continue
		}
		if err := readsAlike(files, m); err != nil {
			t.Errorf("%s: %v", formOf(m), err)
		}
	}
	for _, fault := range breaks(files, presentFiles()) {
		t.Error(fault)
	}
}

// readsAlike decodes a message as the release before does, writes what it knows of
// it, and holds it against the same of ours.
func readsAlike(files *protoregistry.Files, m schemas.Message) error {
	name := protoreflect.FullName("lumenhook.kafka.v1." + m.Type)
	found, err := files.FindDescriptorByName(name)
	if err != nil {
		return err
	}
	theirs := dynamicpb.NewMessage(found.(protoreflect.MessageDescriptor))
	if err := proto.Unmarshal(m.Value, theirs); err != nil {
		return err
	}
	ours, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		return err
	}
	read := ours.New().Interface()
	known, err := proto.Marshal(theirs)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(known, read); err != nil {
		return err
	}
	full := ours.New().Interface()
	if err := proto.Unmarshal(m.Value, full); err != nil {
		return err
	}
	if !proto.Equal(read, full) {
		return errors.New("it reads as something else")
	}
	return nil
}

// breaks names what makes two sets of files disagree on the wire: a field of another
// kind under its number, and one that is gone without its number being reserved.
func breaks(before *protoregistry.Files, now *descriptorpb.FileDescriptorSet) (faults []string) {
	present, err := protodesc.NewFiles(now)
	if err != nil {
		return []string{err.Error()}
	}
	before.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Messages().Len() {
			was := file.Messages().Get(i)
			found, err := present.FindDescriptorByName(was.FullName())
			if err != nil {
				faults = append(faults, fmt.Sprintf("%s is gone", was.FullName()))
				continue
			}
			faults = append(faults, breaksOf(was, found.(protoreflect.MessageDescriptor))...)
		}
		return true
	})
	return faults
}

func breaksOf(was, is protoreflect.MessageDescriptor) (faults []string) {
	for i := range was.Fields().Len() {
		before := was.Fields().Get(i)
		now := is.Fields().ByNumber(before.Number())
		switch {
		case now == nil && !is.ReservedRanges().Has(before.Number()):
			faults = append(faults, fmt.Sprintf("%s is gone, and its number %d is not reserved",
				before.FullName(), before.Number()))
		case now != nil && wire(now) != wire(before):
			faults = append(faults,
				fmt.Sprintf("%s was %s and is %s", before.FullName(), wire(before), wire(now)))
		}
	}
	return faults
}

// wire is what of a field must stay: its kind, whether it repeats, the message in it,
// and the oneof that it is in.
func wire(f protoreflect.FieldDescriptor) string {
	parts := []string{f.Kind().String(), f.Cardinality().String()}
	if f.Message() != nil {
		parts = append(parts, string(f.Message().FullName()))
	}
	if one := f.ContainingOneof(); one != nil {
		parts = append(parts, "in "+string(one.Name()))
	}
	return strings.Join(parts, " ")
}

// What would break the release before is named.
func TestAFormThatTheReleaseBeforeCannotReadIsNamed(t *testing.T) {
	before, err := protodesc.NewFiles(presentFiles())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*descriptorpb.DescriptorProto)
		want   string
	}{
		"another kind": {func(m *descriptorpb.DescriptorProto) {
			m.Field[1].Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
		}, "was string optional and is bytes optional"},
		"gone": {func(m *descriptorpb.DescriptorProto) { m.Field = m.Field[:1] }, "is not reserved"},
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
		if faults := strings.Join(breaks(before, now), "\n"); !strings.Contains(faults, c.want) {
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
	if faults := breaks(before, reserved); len(faults) > 0 {
		t.Errorf("a field that is reserved is called a fault: %v", faults)
	}
}
