package problem

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lumenhook/lumenhook/api/client"
)

// maxFaults bounds the faults in one response. maxNameBytes bounds each pointer or parameter, which
// contains the client's names.
const (
	maxFaults    = 100
	maxNameBytes = 256
)

// Fault is one problem with a body or a query. A fault of a body has a JSON pointer (RFC 6901), a
// fault of a query has a parameter.
type Fault = client.Fault

// Faults collects the faults of a body or a query. The zero value is empty.
type Faults struct {
	list    []Fault
	count   int
	refused *Problem
}

// Add adds a fault of the body at a position.
func (f *Faults) Add(at jsontext.Pointer, code, detail string) {
	f.add(Fault{Pointer: shorten(string(at)), Code: code, Detail: detail})
}

// AddParameter adds a fault of a query parameter.
func (f *Faults) AddParameter(name, code, detail string) {
	f.add(Fault{Parameter: shorten(name), Code: code, Detail: detail})
}

func (f *Faults) add(fault Fault) {
	if f.count++; f.count <= maxFaults {
		f.list = append(f.list, fault)
	}
}

// Refuse records that the body could not be parsed, so that it has no other faults.
func (f *Faults) Refuse(code, detail string, why Fault) {
	why.Pointer = shorten(why.Pointer)
	f.refused = New(code, detail)
	f.refused.Errors = []Fault{why}
}

// Any reports whether there is a fault.
func (f *Faults) Any() bool { return f.count > 0 || f.refused != nil }

// List returns the collected faults, at most 100.
func (f *Faults) List() []Fault { return f.list }

// Err returns a *Problem if a body has faults, and nil otherwise. A fault with code SSRF_BLOCKED or
// SECRET_KEY_REFUSED determines the problem's code; otherwise it is VALIDATION_FAILED.
func (f *Faults) Err() error {
	if f.refused != nil {
		return f.refused
	}
	if f.count == 0 {
		return nil
	}
	return f.problem(CodeValidationFailed, "body")
}

// QueryErr is like Err, for a query.
func (f *Faults) QueryErr() error {
	if f.count == 0 {
		return nil
	}
	return f.problem(CodeInvalidParameter, "query")
}

// problem returns a problem with the first fault's text. A refusal for security takes precedence
// and sets the code. whole names the input if the fault has no position.
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
