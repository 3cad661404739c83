package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/lumenhook/lumenhook/api/client"
)

// form holds a user's input and its errors: a page that shows it again loses nothing.
type form struct {
	Values url.Values
	Faults map[string][]string // by field
	Others []string            // errors that belong to no field
	ETag   string              // of the object that is changed
}

// Value returns the value of a field.
func (f form) Value(name string) string { return f.Values.Get(name) }

// Has reports whether a field holds a value: a box is ticked, or a choice made.
func (f form) Has(name, value string) bool { return slices.Contains(f.Values[name], value) }

// Wrong reports whether anything is.
func (f form) Wrong() bool { return len(f.Faults) > 0 || len(f.Others) > 0 }

// field is one line of a form, for its template.
type field struct {
	Name, Label, Hint, Kind, Value string
	Required                       bool
	Faults                         []string
}

// Field is an input of a type of HTML, or a textarea.
func (f form) Field(name, label, kind, hint string) field {
	kind, required := strings.CutSuffix(kind, " required")
	return field{name, label, hint, kind, f.Value(name), required, f.Faults[name]}
}

// filterInput is an input of a list's filters, for its template.
type filterInput struct {
	field
	Placeholder string
}

// Filter returns a filter's input with a placeholder.
func (f form) Filter(name, label, placeholder string) filterInput {
	return filterInput{f.Field(name, label, "text", ""), placeholder}
}

// Decimal reports whether it takes an amount: a phone shows its digits.
func (i filterInput) Decimal() bool { return strings.HasSuffix(i.Name, "Amount") }

// Filtered reports whether a list has any filter.
func (f form) Filtered() bool {
	for name := range f.Values {
		if name != "cursor" && f.text(name) != "" {
			return true
		}
	}
	return false
}

// refused adds the faults of a refusal to the form, and returns any other error. fields maps
// prefixes of the API's pointers (RFC 6901) to names of fields, the longest prefix first.
func (f *form) refused(err error, fields [][2]string) error {
	var p *client.Problem
	if !errors.As(err, &p) {
		return err
	}
	if p.Status == http.StatusPreconditionFailed {
		f.Others = append(f.Others, "It was changed meanwhile, by somebody else or in another "+
			"window. What you wrote is still here: open it again beside this page, and compare.")
		return nil
	}
	if len(p.Errors) == 0 {
		return err
	}
	f.Faults = make(map[string][]string)
	for _, fault := range p.Errors {
		where := fault.Pointer
		if fault.Parameter != "" {
			where = "/" + fault.Parameter
		}
		f.add(where, fault.Detail, fields)
	}
	return nil
}

func (f *form) add(where, detail string, fields [][2]string) {
	for _, at := range fields {
		rest, within := strings.CutPrefix(where, at[0])
		if !within || rest != "" && rest[0] != '/' {
			continue
		}
		if rest != "" { // of a list or an object that the field holds as lines
			detail = strings.ReplaceAll(rest[1:], "/", ", ") + ": " + detail
		}
		f.Faults[at[1]] = append(f.Faults[at[1]], detail)
		return
	}
	f.Others = append(f.Others, strings.TrimPrefix(where, "/")+" "+detail)
}

// lines returns the non-empty lines of a textarea.
func (f form) lines(name string) (lines []string) {
	for line := range strings.Lines(f.Value(name)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// text returns the value of a single-line field.
func (f form) text(name string) string { return strings.TrimSpace(f.Value(name)) }

// posted returns the form that a request has sent.
func (v *visit) posted() form {
	return form{Values: v.r.PostForm, ETag: v.r.PostFormValue("etag")}
}

// filters returns the filters of an address.
func (v *visit) filters() form { return form{Values: v.r.URL.Query()} }

// unfiltered shows a list whose filters the API refused, with the errors next to their fields.
func (v *visit) unfiltered(p page) (page, error) {
	v.status = http.StatusBadRequest
	return p, nil
}

// again shows a form again, with its errors.
func (v *visit) again(p page) *page {
	v.status = http.StatusUnprocessableEntity
	return &p
}
