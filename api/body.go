package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a body. The deepest body of the API has 3 levels, the largest about
// 1,300 values.
const (
	maxBodyBytes  = 256 << 10
	maxBodyDepth  = 32
	maxBodyValues = 10_000
)

// node is one JSON value. Member names are unique.
type node struct {
	kind     jsontext.Kind // '{' '[' '"' '0' 't' 'f' 'n'
	text     string        // of a string; a number as it was written
	members  []member
	elements []node
}

type member struct {
	name  string
	value node
}

var (
	errTooDeep       = errors.New("too deep")
	errTooManyValues = errors.New("too many values")
	errTrailingData  = errors.New("trailing data")
)

// parseJSON reads a body as strictly as RFC 7493 asks: UTF-8, unique names, one
// value and nothing behind it.
func parseJSON(body []byte) (node, *Problem) {
	if len(bytes.TrimSpace(body)) == 0 {
		p := newProblem(codeMalformedJSON, "The body is empty: send a JSON object.")
		p.Errors = []Fault{{Code: faultSyntax, Detail: "The body is empty: send a JSON object."}}
		return node{}, p
	}
	p := parser{decoder: jsontext.NewDecoder(bytes.NewReader(body))}
	root, err := p.value(0)
	if err == nil {
		if _, err = p.decoder.ReadToken(); err == io.EOF {
			return root, nil
		}
		err = errTrailingData
	}
	return node{}, p.problem(err)
}

type parser struct {
	decoder *jsontext.Decoder
	values  int
}

func (p *parser) value(depth int) (node, error) {
	if p.values++; p.values > maxBodyValues {
		return node{}, errTooManyValues
	}
	token, err := p.decoder.ReadToken()
	if err != nil {
		return node{}, err
	}
	n := node{kind: token.Kind()}
	switch n.kind {
	case '"', '0':
		n.text = token.String()
	case '{', '[':
		if depth == maxBodyDepth {
			return node{}, errTooDeep
		}
		err = p.children(&n, depth+1)
	}
	return n, err
}

func (p *parser) children(n *node, depth int) error {
	end := jsontext.Kind(']')
	if n.kind == '{' {
		end = '}'
	}
	for p.decoder.PeekKind() != end {
		var name string
		if n.kind == '{' {
			token, err := p.decoder.ReadToken()
			if err != nil {
				return err
			}
			name = token.String()
		}
		child, err := p.value(depth)
		if err != nil {
			return err
		}
		if n.kind == '{' {
			n.members = append(n.members, member{name, child})
		} else {
			n.elements = append(n.elements, child)
		}
	}
	_, err := p.decoder.ReadToken()
	return err
}

// problem says what is wrong, and where, without a byte of the body but the
// names on the way there.
func (p *parser) problem(err error) *Problem {
	at, offset := p.decoder.StackPointer(), p.decoder.InputOffset()
	code, what := faultSyntax, "the syntax is wrong"
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		at, offset = syntactic.JSONPointer, syntactic.ByteOffset
	}
	switch {
	case errors.Is(err, errTooDeep):
		code, what = faultTooDeep, fmt.Sprintf("values are nested more than %d deep", maxBodyDepth)
	case errors.Is(err, errTooManyValues):
		code, what = faultTooManyValues, fmt.Sprintf("there are more than %d values", maxBodyValues)
	case errors.Is(err, errTrailingData):
		at, code, what = "", faultTrailingData, "something follows the JSON value"
	case errors.Is(err, jsontext.ErrDuplicateName):
		code, what = faultDuplicateName, "a name occurs twice in one object"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		what = "the JSON value is not complete"
	case syntactic != nil && strings.Contains(syntactic.Err.Error(), "UTF-8"), syntactic != nil &&
		strings.Contains(syntactic.Err.Error(), "surrogate"):
		code, what = faultInvalidUTF8, "a string is not valid UTF-8"
	}
	problem := newProblem(codeMalformedJSON,
		fmt.Sprintf("The body is refused at byte %d: %s.", offset, what))
	problem.Errors = []Fault{{
		Pointer: shortPointer(at),
		Code:    code,
		Detail:  fmt.Sprintf("At byte %d: %s.", offset, what),
	}}
	return problem
}

// object reads the members of one JSON object and adds what is wrong to faults.
// A member that is null counts as absent.
type object struct {
	at     jsontext.Pointer
	node   node
	faults *faults
}

// asObject takes a value as an object, or adds a fault.
func asObject(n node, at jsontext.Pointer, f *faults) (object, bool) {
	if n.kind != '{' {
		f.add(at, faultInvalidType, "must be an object, and is "+kindName(n.kind))
		return object{}, false
	}
	return object{at: at, node: n, faults: f}, true
}

// only adds a fault for every member that has none of the names.
func (o object) only(names ...string) {
	for _, m := range o.node.members {
		if !slices.Contains(names, m.name) {
			o.faults.add(o.pointer(m.name), faultUnknownField,
				"is not a field here; the fields are "+strings.Join(names, ", "))
		}
	}
}

func (o object) pointer(name string) jsontext.Pointer { return o.at.AppendToken(name) }

func (o object) fault(name, code, detail string) { o.faults.add(o.pointer(name), code, detail) }

func (o object) get(name string) (node, bool) {
	for _, m := range o.node.members {
		if m.name == name {
			return m.value, m.value.kind != 'n'
		}
	}
	return node{}, false
}

// names tells whether the member is there, null or not.
func (o object) names(name string) bool {
	return slices.ContainsFunc(o.node.members, func(m member) bool { return m.name == name })
}

// integer reads an optional whole number.
func (o object) integer(name string, least, most int) (int, bool) {
	n, present := o.get(name)
	if !present {
		return 0, false
	}
	if n.kind != '0' {
		o.fault(name, faultInvalidType, "must be a number, and is "+kindName(n.kind))
		return 0, false
	}
	// JSON knows one kind of number: 5, 5.0 and 5e0 are the same. A float64 holds
	// every whole number of the API's ranges.
	f, err := strconv.ParseFloat(n.text, 64)
	if err != nil || f != math.Trunc(f) || f < float64(least) || f > float64(most) {
		o.fault(name, faultOutOfRange, fmt.Sprintf("must be a whole number from %d to %d", least, most))
		return 0, false
	}
	return int(f), true
}

// time reads an optional time as Unix milliseconds.
func (o object) time(name string) (int64, bool) {
	s, ok := o.text(name, maxFormCharacters)
	if !ok {
		return 0, false
	}
	millis, err := parseTime(s)
	if err != nil {
		o.fault(name, faultInvalidTime, err.Error())
	}
	return millis, err == nil
}

// text reads an optional string of at most maxCharacters.
func (o object) text(name string, maxCharacters int) (string, bool) {
	n, present := o.get(name)
	if !present {
		return "", false
	}
	s, ok := asText(n, o.pointer(name), o.faults)
	if ok && utf8.RuneCountInString(s) > maxCharacters {
		o.fault(name, faultTooLong, fmt.Sprintf("must have at most %d characters", maxCharacters))
		return "", false
	}
	return s, ok
}

// requiredText reads a string that must be there.
func (o object) requiredText(name string, maxCharacters int) (string, bool) {
	if _, present := o.get(name); !present {
		o.fault(name, faultRequired, "is required")
		return "", false
	}
	return o.text(name, maxCharacters)
}

// array reads an optional array of at most maxElements.
func (o object) array(name string, maxElements int) ([]node, bool) {
	n, present := o.get(name)
	if !present {
		return nil, false
	}
	if n.kind != '[' {
		o.fault(name, faultInvalidType, "must be an array, and is "+kindName(n.kind))
		return nil, false
	}
	if len(n.elements) > maxElements {
		o.fault(name, faultTooMany,
			fmt.Sprintf("must have at most %d elements, and has %d", maxElements, len(n.elements)))
		return nil, false
	}
	return n.elements, true
}

// element is the pointer to one element of an array.
func (o object) element(name string, i int) jsontext.Pointer {
	return o.pointer(name).AppendToken(strconv.Itoa(i))
}

func asText(n node, at jsontext.Pointer, f *faults) (string, bool) {
	if n.kind != '"' {
		f.add(at, faultInvalidType, "must be a string, and is "+kindName(n.kind))
		return "", false
	}
	return n.text, true
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
