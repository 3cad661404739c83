package cli

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// Reads says what a command that changes nothing may answer: a value of each form. A --field that
// none of them has is refused before anything is asked.
func (o *Output) Reads(c *cobra.Command, answers ...any) {
	Before(c, func() error { return o.checkField(answers) })
}

// Changes is Reads of a command that changes something. Should the answer lack the member all the
// same, the whole of it is printed: what it shows may be shown only once.
func (o *Output) Changes(c *cobra.Command, answers ...any) {
	Before(c, func() error {
		o.changes = true
		return o.checkField(answers)
	})
}

// Before adds a check to those that a command makes before it runs.
func Before(c *cobra.Command, check func() error) {
	former := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if former == nil {
			return check()
		}
		return errors.Join(former(c, args), check())
	}
}

func (o *Output) checkField(answers []any) error {
	if o.Field == "" {
		return nil
	}
	why := ""
	for _, answer := range answers {
		if why = noMember(reflect.TypeOf(answer), o.Field); why == "" {
			return nil
		}
	}
	return fmt.Errorf("--field %q: %s", o.Field, why)
}

// noMember returns why no answer of a type has a member at a path, or "" if one may have it.
func noMember(t reflect.Type, path string) string {
	reached := "the answer"
	for name := range strings.SplitSeq(path, ".") {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch {
		case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
			return reached + " has no members"
		case t.Implements(reflect.TypeFor[json.Marshaler]()), t.Kind() == reflect.Interface:
			return "" // only the answer itself shows
		case t.Kind() == reflect.Map:
			t = t.Elem()
		case t.Kind() == reflect.Slice:
			if n, err := strconv.Atoi(name); err != nil || n < 0 {
				return fmt.Sprintf("%s has no %q; it is a list, whose members are numbered from 0 on",
					reached, name)
			}
			t = t.Elem()
		case t.Kind() == reflect.Struct:
			members := membersOf(t)
			if len(members) == 0 {
				return "there is nothing to answer: leave it out"
			}
			inside, there := members[name]
			if !there {
				return fmt.Sprintf("%s has no %q; it has %s", reached, name,
					strings.Join(slices.Sorted(maps.Keys(members)), ", "))
			}
			t = inside
		default:
			return reached + " has no members"
		}
		reached = strings.TrimPrefix(reached+"."+name, "the answer.")
	}
	return ""
}

// membersOf returns the types of the members that a struct has as JSON.
func membersOf(t reflect.Type) map[string]reflect.Type {
	members := make(map[string]reflect.Type)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "-" && (name != "" || !f.Anonymous) {
			if name == "" {
				name = f.Name
			}
			members[name] = f.Type
		}
	}
	return members
}
