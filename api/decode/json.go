package decode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lumenhook/lumenhook/api/problem"
)

// MaxBodyBytes is the maximum size of a request body.
const MaxBodyBytes = 256 << 10

// Limits of a body. The API's deepest body has 3 levels, its largest about 1,300 values.
const (
	maxBodyDepth  = 32
	maxBodyValues = 10_000
)

// node is one JSON value. Member names are unique.
type node struct {
	kind     jsontext.Kind // '{' '[' '"' '0' 't' 'f' 'n'
	text     string        // of a string; the literal of a number
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

// parse parses a body as strictly as RFC 7493: UTF-8, unique names, and a single value. If the body
// cannot be parsed, parse adds the fault to f and returns an absent value.
func parse(body []byte, f *problem.Faults) node {
	if len(bytes.TrimSpace(body)) == 0 {
		const detail = "The body is empty: send a JSON object."
		f.Refuse(problem.CodeMalformedJSON, detail,
			problem.Fault{Code: problem.FaultSyntax, Detail: detail})
		return node{}
	}
	p := parser{decoder: jsontext.NewDecoder(bytes.NewReader(body))}
	root, err := p.value(0)
	if err == nil {
		if _, err = p.decoder.ReadToken(); errors.Is(err, io.EOF) {
			return root
		}
		err = errTrailingData
	}
	p.refuse(err, f)
	return node{}
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

// refuse reports what is wrong and where. It reveals nothing of the body except the names on the
// path.
func (p *parser) refuse(err error, f *problem.Faults) {
	at, offset := p.decoder.StackPointer(), p.decoder.InputOffset()
	code, what := problem.FaultSyntax, "the syntax is wrong"
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		at, offset = syntactic.JSONPointer, syntactic.ByteOffset
	}
	switch {
	case errors.Is(err, errTooDeep):
		code, what = problem.FaultTooDeep,
			fmt.Sprintf("values are nested more than %d deep", maxBodyDepth)
	case errors.Is(err, errTooManyValues):
		code, what = problem.FaultTooManyValues,
			fmt.Sprintf("there are more than %d values", maxBodyValues)
	case errors.Is(err, errTrailingData):
		at, code, what = "", problem.FaultTrailingData, "something follows the JSON value"
	case errors.Is(err, jsontext.ErrDuplicateName):
		code, what = problem.FaultDuplicateName, "a name occurs twice in one object"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		what = "the JSON value is not complete"
	case syntactic != nil && (strings.Contains(syntactic.Err.Error(), "UTF-8") ||
		strings.Contains(syntactic.Err.Error(), "surrogate")):
		code, what = problem.FaultInvalidUTF8, "a string is not valid UTF-8"
	}
	f.Refuse(problem.CodeMalformedJSON,
		fmt.Sprintf("The body is refused at byte %d: %s.", offset, what),
		problem.Fault{
			Pointer: string(at),
			Code:    code,
			Detail:  fmt.Sprintf("At byte %d: %s.", offset, what),
		})
}
