package console

import (
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
)

// The filters of a list are the fields of a struct of the client, and have their names in forms.

// namesOf returns the names of a struct's fields.
func namesOf(filter any) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(filter)) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// allowed returns what a field of a struct may be.
func allowed[T any](field string) func() []string {
	f, _ := reflect.TypeFor[T]().FieldByName(field)
	values := strings.Fields(f.Tag.Get("values"))
	return func() []string { return values }
}

// pointersOf leads each fault of the API to the field of its name.
func pointersOf(filter any) (fields [][2]string) {
	for _, name := range namesOf(filter) {
		fields = append(fields, [2]string{"/" + name, name})
	}
	return fields
}

// following are the filters of a list that were given, and what is shown of it.
func (v *visit) following(f form, filter any) url.Values {
	follow := url.Values{"shown": {v.shown()}}
	for _, name := range namesOf(filter) {
		if text := f.Value(name); text != "" {
			follow.Set(name, text)
		}
	}
	return follow
}

var ledgerForm = regexp.MustCompile(`^[0-9]{1,10}$`)

// read reads the fields of a form into a filter. The API checks them, except for times.
func (f *form) read(filter any) {
	v := reflect.ValueOf(filter).Elem()
	for i, name := range namesOf(v.Interface()) {
		text, wrong := f.text(name), "must be a time like 2026-11-23T10:15, in UTC"
		if name == "memo" {
			text = f.Value(name) // it may begin or end with spaces
		}
		var at *time.Time
		switch to := v.Field(i).Addr().Interface().(type) {
		case *string:
			*to = text
		case *time.Time:
			at = to
		case *client.Bound:
			at, wrong = &to.Time, "must be a ledger, or a time like 2026-11-23T10:15, in UTC"
			if ledgerForm.MatchString(text) {
				to.Ledger, at = f.ledger(name), nil
			}
		}
		if at == nil || text == "" {
			continue
		}
		var err error
		if *at, err = readTime(text); err != nil {
			f.fault(name, wrong)
		}
	}
}

// readTime reads a time as browsers send it, which is taken as UTC, or as the API takes it.
func readTime(text string) (t time.Time, err error) {
	for _, form := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339Nano} {
		if t, err = time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	return t, err
}
