package decode

import (
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/lumenhook/lumenhook/api/problem"
)

// Field is a field that a body may have. Read decodes it, and is also called if it is absent.
type Field struct {
	Name string
	Read func(Value)
}

// Into returns a field that is decoded into an existing variable.
func Into[T any](name string, to *T, read func(Value) T) Field {
	return Field{name, func(v Value) { *to = read(v) }}
}

// IntoNew returns a field that is decoded into a new variable. If a patch omits the field, to stays
// nil.
func IntoNew[T any](name string, to **T, read func(Value) T) Field {
	return Field{name, func(v Value) {
		read := read(v)
		*to = &read
	}}
}

// Object decodes all fields of a body, in the order listed.
func Object(body []byte, fields ...Field) *problem.Faults {
	root, faults := readRoot(body)
	root.read(fields, func(Value, string) bool { return true })
	return faults
}

// Shown is an object as the API returns it. A patch may send the object's read-only fields back,
// but only unchanged.
type Shown struct {
	Object   any      // compared as JSON
	Changing []string // fields that change on their own; not compared
	Repeated bool     // the patch may already be applied; nothing is compared
}

// Patch decodes the fields that are present in a JSON merge patch (RFC 7396). null restores a
// field's default.
func Patch(body []byte, shown Shown, fields ...Field) *problem.Faults {
	root, faults := readRoot(body)
	have, sent := membersOf(shown.Object), membersOf(jsontext.Value(body))
	root.node.members = slices.DeleteFunc(root.node.members, func(m member) bool {
		value, known := have[m.name]
		changing := slices.Contains(shown.Changing, m.name)
		if !known && !changing ||
			slices.ContainsFunc(fields, func(f Field) bool { return f.Name == m.name }) {
			return false
		}
		if !changing && !shown.Repeated && !reflect.DeepEqual(value, sent[m.name]) {
			root.Member(m.name).Fault(problem.FaultCannotChange,
				"is read-only and has another value now: leave it out, or read the object again")
		}
		return true
	})
	root.read(fields, Value.names)
	return faults
}

// membersOf returns the members of a value that encodes to a JSON object, and nil for any other
// value.
func membersOf(v any) (members map[string]any) {
	if text, err := json.Marshal(v); err == nil {
		_ = json.Unmarshal(text, &members) // a body has been parsed before, so its faults are known
	}
	return members
}

func (v Value) read(fields []Field, wanted func(Value, string) bool) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	if !v.Only(names...) {
		return
	}
	for _, f := range fields {
		if wanted(v, f.Name) {
			f.Read(v.Member(f.Name))
		}
	}
}

// NoFields adds a fault for every field of the object.
func NoFields(body []byte) *problem.Faults {
	root, faults := readRoot(body)
	if root.is('{') {
		for _, member := range root.Members() {
			member.Fault(problem.FaultUnknownField, "is not a field here: this operation takes no body")
		}
	}
	return faults
}

// readRoot parses the body. The value of an unparsable body is absent.
func readRoot(body []byte) (Value, *problem.Faults) {
	faults := &problem.Faults{}
	return Value{node: parse(body, faults), faults: faults, inList: true}, faults
}
