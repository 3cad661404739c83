package decode

import "github.com/lumenhook/lumenhook/api/problem"

// Field is one field that a body may have, and how it is decoded. An absent value is
// decoded too.
type Field struct {
	Name string
	Read func(Value)
}

// Into is a field that is decoded into a variable.
func Into[T any](name string, to *T, read func(Value) T) Field {
	return Field{name, func(v Value) { *to = read(v) }}
}

// IntoNew is a field that is decoded into a new variable, so that one that a patch does not
// name stays nil.
func IntoNew[T any](name string, to **T, read func(Value) T) Field {
	return Field{name, func(v Value) {
		read := read(v)
		*to = &read
	}}
}

// Object decodes all fields of a body, in the order of the list.
func Object(body []byte, fields ...Field) *problem.Faults {
	return fieldsOf(body, fields, func(Value, string) bool { return true })
}

// Patch decodes the fields that a body names: a JSON merge patch (RFC 7396), in which null
// restores a field's default.
func Patch(body []byte, fields ...Field) *problem.Faults {
	return fieldsOf(body, fields, Value.names)
}

func fieldsOf(body []byte, fields []Field, wanted func(Value, string) bool) *problem.Faults {
	root, faults := readRoot(body)
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	if !root.Only(names...) {
		return faults
	}
	for _, f := range fields {
		if wanted(root, f.Name) {
			f.Read(root.Member(f.Name))
		}
	}
	return faults
}

// NoFields refuses an object with any field.
func NoFields(body []byte) *problem.Faults {
	root, faults := readRoot(body)
	if root.is('{') {
		for _, member := range root.Members() {
			member.Fault(problem.FaultUnknownField, "is not a field here: this operation takes no body")
		}
	}
	return faults
}

// readRoot parses the body. One that cannot be parsed is absent.
func readRoot(body []byte) (Value, *problem.Faults) {
	faults := &problem.Faults{}
	return Value{node: parse(body, faults), faults: faults, inList: true}, faults
}
