package console

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
)

// The filters of lists, and the fields of endpoints, come from the client's structs. Forms use the
// fields' JSON names.

func namesOf(filter any) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(filter)) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// allowed returns the allowed values of a struct's field, from its tag.
func allowed[T any](field string) func() []string {
	f, _ := reflect.TypeFor[T]().FieldByName(field)
	values := strings.Fields(f.Tag.Get("values"))
	return func() []string { return values }
}

func pointersOf(filter any) (fields [][2]string) {
	for _, name := range namesOf(filter) {
		fields = append(fields, [2]string{"/" + name, name})
	}
	return fields
}

// following returns the query of a stream: the list's filters and a digest of what is shown.
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

// textsOf returns an object's fields as form values. fields is a struct with the names of the
// fields.
func textsOf(object, fields any) url.Values {
	var members map[string]any
	text, _ := json.Marshal(object) // it was decoded from JSON
	_ = json.Unmarshal(text, &members)
	values := url.Values{}
	for _, name := range namesOf(fields) {
		switch member := members[name].(type) {
		case []any:
			for _, one := range member {
				values.Add(name, fmt.Sprint(one))
			}
		case string, float64:
			values.Set(name, fmt.Sprint(member))
		}
	}
	return values
}

// changeOf returns a patch of all fields of a struct. Empty fields become null, which restores
// their defaults.
func changeOf(fields any) client.Patch {
	patch, v := client.Patch{}, reflect.ValueOf(fields)
	for i, name := range namesOf(fields) {
		if patch[name] = nil; !v.Field(i).IsZero() {
			patch[name] = v.Field(i).Interface()
		}
	}
	return patch
}

// read parses a form into one of the client's structs. It only validates times and numbers; the API
// validates everything else.
func (f *form) read(fields any) {
	v := reflect.ValueOf(fields).Elem()
	for i, name := range namesOf(v.Interface()) {
		text, wrong := f.text(name), "must be a time like 2026-11-23T10:15, in UTC"
		if name == "memo" {
			text = f.Value(name) // may start or end with spaces
		}
		var at *time.Time
		switch to := v.Field(i).Addr().Interface().(type) {
		case *string:
			if *to = text; text == "on" { // a checkbox with a single value
				*to = v.Type().Field(i).Tag.Get("values")
			}
		case *[]string:
			*to = f.Values[name]
		case *int:
			if *to, wrong = 0, "must be a whole number from 1, or empty"; text == "" {
				continue
			}
			n, err := strconv.Atoi(text)
			if *to = n; err != nil || n < 1 {
				f.fault(name, wrong)
			}
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

// readTime parses a time in a browser's format, which is taken as UTC, or in the API's.
func readTime(text string) (t time.Time, err error) {
	for _, form := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339Nano} {
		if t, err = time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	return t, err
}
