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

// Filters of lists, and the fields of an endpoint, are those of structs of the client, and have
// their JSON names in forms.

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

// textsOf are the texts of an object's fields that have the names of a struct's.
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

// changeOf is a change to all fields of a struct: an empty one is null, which restores its default.
func changeOf(fields any) client.Patch {
	patch, v := client.Patch{}, reflect.ValueOf(fields)
	for i, name := range namesOf(fields) {
		if patch[name] = nil; !v.Field(i).IsZero() {
			patch[name] = v.Field(i).Interface()
		}
	}
	return patch
}

// read reads the fields of a form into a struct of the client. The API checks them, except for
// times and numbers.
func (f *form) read(fields any) {
	v := reflect.ValueOf(fields).Elem()
	for i, name := range namesOf(v.Interface()) {
		text, wrong := f.text(name), "must be a time like 2026-11-23T10:15, in UTC"
		if name == "memo" {
			text = f.Value(name) // it may begin or end with spaces
		}
		var at *time.Time
		switch to := v.Field(i).Addr().Interface().(type) {
		case *string:
			if *to = text; text == "on" { // a box that is ticked, for the only value
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

// readTime reads a time as browsers send it, which is taken as UTC, or as the API takes it.
func readTime(text string) (t time.Time, err error) {
	for _, form := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339Nano} {
		if t, err = time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	return t, err
}
