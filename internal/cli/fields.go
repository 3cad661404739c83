package cli

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api/client"
)

// The tags of the API client's structs describe their fields: json is the name in the API, help is
// the description, and values lists the valid values. flag is the name of the flag, unless it
// follows from json (minAmount becomes --min-amount, watchId becomes --watch).

// AddFields adds a flag for each field with a help tag, except for the flags in except. The field's
// current value is the default.
func AddFields(f *pflag.FlagSet, of any, except ...string) {
	for _, one := range fieldsOf(of) {
		if !slices.Contains(except, one.flag) {
			one.add(f, one.flag)
		}
	}
}

// AddArguments is like AddFields, but uses the API's field names, for MCP clients.
func AddArguments(f *pflag.FlagSet, of any) {
	for _, one := range fieldsOf(of) {
		one.add(f, one.json)
	}
}

// ChangedFields returns the fields whose flags were given as a merge patch. An empty value becomes
// null, which restores the default.
func ChangedFields(f *pflag.FlagSet, of any) client.Patch {
	patch := client.Patch{}
	for _, one := range fieldsOf(of) {
		given := f.Lookup(one.flag)
		if given == nil || !given.Changed {
			continue
		}
		value := reflect.ValueOf(one.to).Elem()
		switch {
		case value.Kind() == reflect.Map:
			merged := map[string]any{}
			for name, text := range value.Interface().(map[string]string) {
				if merged[name] = text; text == "" {
					merged[name] = nil
				}
			}
			patch[one.json] = merged
		case value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0:
			patch[one.json] = nil
		default:
			patch[one.json] = value.Interface()
		}
	}
	return patch
}

type field struct {
	json, flag, help string
	values           []string // empty: any value
	required         bool
	to               any
}

func fieldsOf(of any) (all []field) {
	v := reflect.ValueOf(of).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		help, described := f.Tag.Lookup("help")
		if !described || f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, field{
			json:     name,
			flag:     flagName(f),
			help:     help,
			values:   strings.Fields(f.Tag.Get("values")),
			required: options == "",
			to:       v.FieldByIndex(f.Index).Addr().Interface(),
		})
	}
	return all
}

var capitals = regexp.MustCompile(`[A-Z]`)

func flagName(f reflect.StructField) string {
	if name := f.Tag.Get("flag"); name != "" {
		return name
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return flagOfName(name)
}

func flagOfName(name string) string {
	kebab := capitals.ReplaceAllStringFunc(name, func(c string) string {
		return "-" + strings.ToLower(c)
	})
	return strings.TrimSuffix(kebab, "-id")
}

var flagNames = func() map[string]string {
	names := make(map[string]string)
	for _, t := range []reflect.Type{
		reflect.TypeFor[client.EventFilter](), reflect.TypeFor[client.EndpointCreate](),
		reflect.TypeFor[client.WatchCreate](), reflect.TypeFor[client.KeyCreate](),
		reflect.TypeFor[client.KeyRoll](), reflect.TypeFor[client.PortalLinkCreate](),
	} {
		for _, f := range reflect.VisibleFields(t) {
			if f.Tag.Get("flag") != "" {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				names[name] = f.Tag.Get("flag")
			}
		}
	}
	return names
}()

// Annotations of field flags.
const (
	requiredKey = "lumenhook_required" // of an MCP tool's arguments
	valuesKey   = "lumenhook_values"
)

func (one field) add(f *pflag.FlagSet, name string) {
	switch to := one.to.(type) {
	case *string:
		f.Var(choiceOf(to, one.values), name, one.help)
	case *[]string:
		f.StringSliceVar(to, name, *to, one.help)
	case *bool:
		f.BoolVar(to, name, *to, one.help)
	case *int:
		f.IntVar(to, name, *to, one.help)
	case *int64:
		f.Int64Var(to, name, *to, one.help)
	case *map[string]string:
		f.Var(headersOf(to), name, one.help)
	case *time.Time:
		InstantVar(f, to, name, one.help)
	case *client.Bound:
		f.Var(boundOf(&to.Ledger, &to.Time, "must be a ledger from 1 to 2147483647, or "+instantForm),
			name, one.help)
	default:
		panic(fmt.Sprintf("field %s: no flag has the type %T", one.json, to))
	}
	Offer(f, name, one.values...)
	if one.required {
		annotate(f.Lookup(name), requiredKey, "true")
	}
}

// Offer sets the values that completion offers for a flag.
func Offer(f *pflag.FlagSet, name string, values ...string) {
	if len(values) > 0 {
		annotate(f.Lookup(name), valuesKey, "")
		f.Lookup(name).Annotations[valuesKey] = values
	}
}

// Values returns the values that completion offers, or none if any value is valid.
func Values(f *pflag.Flag) []string { return f.Annotations[valuesKey] }

// IsRequiredArgument reports whether an MCP client must set an argument.
func IsRequiredArgument(f *pflag.Flag) bool { return len(f.Annotations[requiredKey]) > 0 }

// value is a flag's value. form describes the valid values for errors.
type value struct {
	set        func(string) error
	text       func() string
	kind, form string
}

func (v *value) Set(text string) error { return v.set(text) }

func (v *value) String() string {
	if v.text == nil { // pflag calls String on the zero value
		return ""
	}
	return v.text()
}

func (v *value) Type() string { return v.kind }

var errForm = errors.New("is of another form") // users see the flag's form instead

// choiceOf is a string flag. If values is not empty, it accepts only those, in any case.
func choiceOf(to *string, values []string) *value {
	return &value{
		kind: "string",
		form: "must be one of " + strings.Join(values, ", "),
		text: func() string { return *to },
		set: func(text string) error {
			i := slices.IndexFunc(values, func(v string) bool { return strings.EqualFold(v, text) })
			switch {
			case i >= 0:
				text = values[i]
			case text != "" && len(values) > 0:
				return errForm
			}
			*to = text
			return nil
		},
	}
}

// headersOf is a flag that can be repeated, once per header.
func headersOf(to *map[string]string) *value {
	return &value{
		kind: "stringArray",
		form: "must be Name: value",
		text: func() string { return "" },
		set: func(text string) error {
			name, value, ok := strings.Cut(text, ":")
			if !ok || strings.TrimSpace(name) == "" {
				return errForm
			}
			if *to == nil {
				*to = make(map[string]string)
			}
			(*to)[strings.TrimSpace(name)] = strings.TrimSpace(value)
			return nil
		},
	}
}

const instantForm = "a time such as 2026-11-21T10:15:30Z, or how long ago, such as 24h"

// InstantVar adds a flag for a time, which users can also give as a duration before now.
func InstantVar(f *pflag.FlagSet, to *time.Time, name, usage string) {
	f.Var(boundOf(nil, to, "must be "+instantForm), name, usage)
}

var ledgerForm = regexp.MustCompile(`^[0-9]+$`)

// boundOf is a flag for a time or, if ledger is not nil, for a ledger.
func boundOf(ledger *uint32, at *time.Time, form string) *value {
	return &value{
		kind: "time",
		form: form,
		text: func() string {
			if at.IsZero() {
				return ""
			}
			return at.Format(time.RFC3339)
		},
		set: func(text string) (err error) {
			span, spanErr := time.ParseDuration(text)
			switch {
			case text == "":
			case ledger != nil && ledgerForm.MatchString(text):
				n, err := strconv.ParseUint(text, 10, 31)
				if *ledger = uint32(n); err != nil || n == 0 {
					return errForm
				}
			case spanErr == nil && span >= 0:
				*at = time.Now().Add(-span).UTC()
			default:
				*at, err = time.Parse(time.RFC3339Nano, text)
				*at = at.UTC()
			}
			return err
		},
	}
}

// aheadMost is how far another machine's clock may be ahead of this one's.
const aheadMost = time.Minute

// CheckPast returns an error if a flag's time is in the future. A command that waits for events
// from that time on would wait silently.
func CheckPast(name string, at time.Time) error {
	if time.Until(at) <= aheadMost {
		return nil
	}
	return Usage(fmt.Errorf("--%s %q: is in the future; use a past time, or how long "+
		"ago, such as 24h; without --%s the command starts now", name, at.Format(time.RFC3339), name))
}
