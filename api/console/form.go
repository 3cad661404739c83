package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/lumenhook/lumenhook/api/client"
)

// form holds a user's input and its errors, so that nothing is lost when the form is shown again.
type form struct {
	Values url.Values
	Faults map[string][]string // by field
	Others []string            // errors that don't belong to a field
	ETag   string              // of the object to change
}

// Value returns the value of a field.
func (f form) Value(name string) string { return f.Values.Get(name) }

// Has reports whether a field has a value, for checkboxes and choices.
func (f form) Has(name, value string) bool { return slices.Contains(f.Values[name], value) }

// Wrong reports whether there are any errors.
func (f form) Wrong() bool { return len(f.Faults) > 0 || len(f.Others) > 0 }

type field struct {
	Name, Label, Hint, Kind, Value string
	Required                       bool
	Faults                         []string
}

// Field returns a field. kind is an HTML input type or "textarea", optionally followed by "
// required".
func (f form) Field(name, label, kind, hint string) field {
	kind, required := strings.CutSuffix(kind, " required")
	return field{name, label, hint, kind, f.Value(name), required, f.Faults[name]}
}

type filterInput struct {
	field
	Placeholder string
}

// Filter returns the input for a list filter.
func (f form) Filter(name, label, placeholder string) filterInput {
	return filterInput{f.Field(name, label, "text", ""), placeholder}
}

// Decimal reports whether the input is for an amount, so that a phone shows a numeric keypad.
func (i filterInput) Decimal() bool { return strings.HasSuffix(i.Name, "Amount") }

// Filtered reports whether a list is filtered.
func (f form) Filtered() bool {
	for name := range f.Values {
		if name != "cursor" && f.text(name) != "" {
			return true
		}
	}
	return false
}

// refused adds the API's validation errors to the form, and returns any other error. fields maps
// prefixes of the API's pointers (RFC 6901) to form fields, longest prefix first.
func (f *form) refused(err error, fields [][2]string) error {
	var p *client.Problem
	if !errors.As(err, &p) {
		return err
	}
	if p.Status == http.StatusPreconditionFailed {
		f.Others = append(f.Others, "Someone else, or you in another window, has changed it in the "+
			"meantime. Your input is still here. Open the page in another window to compare.")
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
		if rest != "" { // an element of a field that holds several lines
			detail = strings.ReplaceAll(rest[1:], "/", ", ") + ": " + detail
		}
		f.Faults[at[1]] = append(f.Faults[at[1]], detail)
		return
	}
	f.Others = append(f.Others, strings.TrimPrefix(where, "/")+" "+detail)
}

func (f form) lines(name string) (lines []string) {
	for line := range strings.Lines(f.Value(name)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func (f form) text(name string) string { return strings.TrimSpace(f.Value(name)) }

func (v *visit) posted() form {
	return form{Values: v.r.PostForm, ETag: v.r.PostFormValue("etag")}
}

func (v *visit) filters() form { return form{Values: v.r.URL.Query()} }

func (v *visit) unfiltered(p page) (page, error) {
	v.status = http.StatusBadRequest
	return p, nil
}

func (v *visit) again(p page) *page {
	v.status = http.StatusUnprocessableEntity
	return &p
}
