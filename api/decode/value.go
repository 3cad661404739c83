package decode

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lumenhook/lumenhook/api/problem"
)

// maxTimeCharacters bounds the length of a time, to keep messages short.
const maxTimeCharacters = 128

// Value is one value of a body and its position. Its methods add faults to the body's faults.
type Value struct {
	node   node
	at     jsontext.Pointer
	faults *problem.Faults
	inList bool // an array element or the body itself, where null does not mean absent
}

// Given reports whether the value is present. A null member is not.
func (v Value) Given() bool { return v.node.kind != 0 && (v.node.kind != 'n' || v.inList) }

// Null reports whether the value is null.
func (v Value) Null() bool { return v.node.kind == 'n' }

// Fault adds a fault for the value.
func (v Value) Fault(code, detail string) { v.faults.Add(v.at, code, detail) }

// Faulty reports whether the body has had any fault so far.
func (v Value) Faulty() bool { return v.faults.Any() }

// Require reports whether the value is given. If not, it adds a fault.
func (v Value) Require(detail string) bool {
	if !v.Given() {
		v.Fault(problem.FaultRequired, detail)
	}
	return v.Given()
}

// is reports whether the value has this kind. It adds a fault if it is given and has another kind.
func (v Value) is(kind jsontext.Kind) bool {
	if !v.Given() {
		return false
	}
	if v.node.kind != kind {
		v.Fault(problem.FaultInvalidType, "must be "+kindName(kind)+", got "+kindName(v.node.kind))
	}
	return v.node.kind == kind
}

// Peek returns the text if the value is a string. It adds no faults.
func (v Value) Peek() (text string, isText bool) { return v.node.text, v.node.kind == '"' }

// AnyText returns an optional string of any length.
func (v Value) AnyText() (string, bool) {
	if !v.is('"') {
		return "", false
	}
	return v.node.text, true
}

// Text returns an optional string of at most maxCharacters characters.
func (v Value) Text(maxCharacters int) (string, bool) {
	s, ok := v.AnyText()
	if ok && utf8.RuneCountInString(s) > maxCharacters {
		v.Fault(problem.FaultTooLong, fmt.Sprintf("must have at most %d characters", maxCharacters))
		return "", false
	}
	return s, ok
}

// RequiredText returns a required string of at most maxCharacters characters.
func (v Value) RequiredText(maxCharacters int) (string, bool) {
	if !v.Require("is required") {
		return "", false
	}
	return v.Text(maxCharacters)
}

// Integer returns an optional integer between least and most.
func (v Value) Integer(least, most int) (int, bool) {
	if !v.is('0') {
		return 0, false
	}
	// JSON has only one kind of number: 5, 5.0 and 5e0 are equal. A float64 represents every
	// integer in the API's ranges exactly.
	f, err := strconv.ParseFloat(v.node.text, 64)
	if err != nil || f != math.Trunc(f) || f < float64(least) || f > float64(most) {
		v.Fault(problem.FaultOutOfRange,
			fmt.Sprintf("must be a whole number from %d to %d", least, most))
		return 0, false
	}
	return int(f), true
}

// Boolean returns an optional boolean.
func (v Value) Boolean() (value, given bool) {
	if !v.Given() {
		return false, false
	}
	if v.node.kind != 't' && v.node.kind != 'f' {
		v.Fault(problem.FaultInvalidType, "must be true or false, got "+kindName(v.node.kind))
		return false, false
	}
	return v.node.kind == 't', true
}

// Time returns an optional time in Unix milliseconds.
func (v Value) Time() (int64, bool) {
	s, ok := v.Text(maxTimeCharacters)
	if !ok {
		return 0, false
	}
	millis, err := parseTime(s)
	if err != nil {
		v.Fault(problem.FaultInvalidTime, err.Error())
	}
	return millis, err == nil
}

// Elements returns an optional array of at most maxElements elements.
func (v Value) Elements(maxElements int) ([]Value, bool) {
	if !v.is('[') {
		return nil, false
	}
	if n := len(v.node.elements); n > maxElements {
		v.Fault(problem.FaultTooMany,
			fmt.Sprintf("must have at most %d elements, got %d", maxElements, n))
		return nil, false
	}
	elements := make([]Value, len(v.node.elements))
	for i, n := range v.node.elements {
		elements[i] = Value{n, v.at.AppendToken(strconv.Itoa(i)), v.faults, true}
	}
	return elements, true
}

// Only reports whether the value is an object. It adds a fault for every member that is not in
// names.
func (v Value) Only(names ...string) bool {
	if !v.is('{') {
		return false
	}
	for name, member := range v.Members() {
		if !slices.Contains(names, name) {
			member.Fault(problem.FaultUnknownField,
				"is not a field here; the fields are "+strings.Join(names, ", "))
		}
	}
	return true
}

// IsObject reports whether the value is an object. It adds a fault if the value has another kind.
func (v Value) IsObject() bool { return v.is('{') }

// Members iterates over an object's members in their order in the body.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for _, m := range v.node.members {
			if !yield(m.name, v.member(m.name, m.value)) {
				return
			}
		}
	}
}

func (v Value) member(name string, n node) Value {
	return Value{node: n, at: v.at.AppendToken(name), faults: v.faults}
}

// Member returns the named member, which may be absent.
func (v Value) Member(name string) Value {
	n, _ := v.node.member(name)
	return v.member(name, n)
}

// names reports whether the object contains the member, even if it is null.
func (v Value) names(name string) bool {
	_, there := v.node.member(name)
	return there
}

// Onto applies the value, as a merge patch (RFC 7396), to an object whose members are all strings.
// It does not merge objects that differ in the member named kind.
func (v Value) Onto(target map[string]string, kind string) (merged Value, applied bool) {
	if v.node.kind != '{' || len(target) == 0 {
		return v, false
	}
	if given, named := v.node.member(kind); named &&
		(given.kind != '"' || given.text != target[kind]) {
		return v, false
	}
	result := node{kind: '{'}
	for name, text := range target {
		if !v.names(name) {
			result.members = append(result.members, member{name, node{kind: '"', text: text}})
		}
	}
	for _, m := range v.node.members {
		if m.value.kind != 'n' {
			result.members = append(result.members, m)
		}
	}
	v.node = result
	return v, true
}

func (n node) member(name string) (node, bool) {
	for _, m := range n.members {
		if m.name == name {
			return m.value, true
		}
	}
	return node{}, false
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	}
	return "a boolean"
}
