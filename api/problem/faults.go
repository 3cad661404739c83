package problem

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lumenhook/lumenhook/api/client"
)

// maxFaults bounds how many faults one answer lists, and maxNameBytes the length of each
// pointer or parameter, which contains names of the client's.
const (
	maxFaults    = 100
	maxNameBytes = 256
)

// Fault is one thing wrong with a body or a query. Its pointer is a JSON pointer (RFC 6901) into
// the body; a fault of a query has a parameter instead.
type Fault = client.Fault

// Faults collects the faults of a body or a query. The zero value is empty.
type Faults struct {
	list    []Fault
	count   int
	refused *Problem
}

// Add adds a fault of the body.
func (f *Faults) Add(at jsontext.Pointer, code, detail string) {
	f.add(Fault{Pointer: shorten(string(at)), Code: code, Detail: detail})
}

// AddParameter adds a fault of the query.
func (f *Faults) AddParameter(name, code, detail string) {
	f.add(Fault{Parameter: shorten(name), Code: code, Detail: detail})
}

func (f *Faults) add(fault Fault) {
	if f.count++; f.count <= maxFaults {
		f.list = append(f.list, fault)
	}
}

// Refuse refuses the body as a whole, when it could not be parsed and so has no faults.
func (f *Faults) Refuse(code, detail string, why Fault) {
	why.Pointer = shorten(why.Pointer)
	f.refused = New(code, detail)
	f.refused.Errors = []Fault{why}
}

// Any reports whether there are faults.
func (f *Faults) Any() bool { return f.count > 0 || f.refused != nil }

// List returns the first of the faults.
func (f *Faults) List() []Fault { return f.list }

// Err returns nil if a body has no faults, else a *Problem. Refusals for security have
// their own code as the problem's code; everything else is VALIDATION_FAILED.
func (f *Faults) Err() error {
	if f.refused != nil {
		return f.refused
	}
	if f.count == 0 {
		return nil
	}
	return f.problem(CodeValidationFailed, "body")
}

// QueryErr is Err for the faults of a query.
func (f *Faults) QueryErr() error {
	if f.count == 0 {
		return nil
	}
	return f.problem(CodeInvalidParameter, "query")
}

// problem has the text of the first fault, or of one that is a refusal for security, whose code it
// then has too. whole names the input if a fault has no place.
func (f *Faults) problem(code, whole string) *Problem {
	first := f.list[0]
	for _, refusal := range []string{CodeSSRFBlocked, CodeSecretKeyRefused} {
		i := slices.IndexFunc(f.list, func(fault Fault) bool { return fault.Code == refusal })
		if i >= 0 {
			code, first = refusal, f.list[i]
		}
	}
	place := cmp.Or(first.Parameter, strings.TrimPrefix(first.Pointer, "/"), whole)
	detail := place + ": " + strings.TrimPrefix(first.Detail, place+" ") + "."
	if f.count > 1 {
		detail += fmt.Sprintf(" And %d more: see errors.", f.count-1)
	}
	p := New(code, detail)
	p.Errors = f.list
	return p
}

func shorten(name string) string {
	if len(name) <= maxNameBytes {
		return name
	}
	return strings.ToValidUTF8(name[:maxNameBytes], "") + "…"
}
