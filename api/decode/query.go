package decode

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lumenhook/lumenhook/api/problem"
)

const maxQueryBytes = 4096

// Query decodes query parameters and collects their faults.
type Query struct {
	values url.Values
	faults problem.Faults
}

// NewQuery parses the query of u. Every parameter must be one of names, and occur once.
func NewQuery(u *url.URL, names ...string) *Query {
	q := &Query{}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil || len(u.RawQuery) > maxQueryBytes {
		q.Fault("", problem.FaultSyntax,
			fmt.Sprintf("is not well-formed, or has more than %d bytes", maxQueryBytes))
		return q
	}
	return QueryOf(values, names...)
}

// QueryOf returns a query for values from another source.
func QueryOf(values url.Values, names ...string) *Query {
	q := &Query{values: values}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !slices.Contains(names, name):
			known := "there are none"
			if len(names) > 0 {
				known = "the parameters are " + strings.Join(names, ", ")
			}
			q.Fault(name, problem.FaultUnknownParameter, "is not a parameter here; "+known)
		case len(values[name]) > 1:
			q.Fault(name, problem.FaultDuplicate, "is given more than once")
		}
	}
	return q
}

// Fault adds a fault for a parameter.
func (q *Query) Fault(name, code, detail string) { q.faults.AddParameter(name, code, detail) }

// Err returns a *problem.Problem if there are faults, and nil otherwise.
func (q *Query) Err() error { return q.faults.QueryErr() }

// FaultsAsFields adds the faults to f and attributes each to the body field of that name.
func (q *Query) FaultsAsFields(f *problem.Faults) {
	for _, fault := range q.faults.List() {
		f.Add(jsontext.Pointer("").AppendToken(fault.Parameter), fault.Code, fault.Detail)
	}
}

// Names returns the names of the nonempty parameters, sorted.
func (q *Query) Names() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(q.values)), func(name string) bool {
		return q.values.Get(name) == ""
	})
}

// Get returns the value of a parameter unchecked.
func (q *Query) Get(name string) string { return q.values.Get(name) }

// Text returns an optional parameter. If given, it must not be empty.
func (q *Query) Text(name string) string {
	s := q.values.Get(name)
	if s == "" && q.values.Has(name) {
		q.Fault(name, problem.FaultEmpty, "is empty: leave it out or give a value")
	}
	return s
}

// OneOf returns an optional parameter that must be one of words.
func OneOf[T ~string](q *Query, name string, words ...T) T {
	s := T(q.Text(name))
	if s != "" && !slices.Contains(words, s) {
		names := make([]string, len(words))
		for i, word := range words {
			names[i] = string(word)
		}
		q.Fault(name, problem.FaultInvalidValue, "must be one of "+strings.Join(names, ", "))
	}
	return s
}

// Time returns an optional time in Unix milliseconds; 0 if absent.
func (q *Query) Time(name string) int64 {
	s := q.Text(name)
	if s == "" {
		return 0
	}
	millis, err := parseTime(s)
	if err != nil {
		q.Fault(name, problem.FaultInvalidTime, err.Error())
	}
	return millis
}

// Count returns an optional number between 1 and most.
func (q *Query) Count(name string, byDefault, most int) int {
	return int(q.number(name, uint64(byDefault), 1, uint64(most)))
}

// Number returns an optional number between 0 and most; 0 if absent.
func (q *Query) Number(name string, most uint64) uint64 { return q.number(name, 0, 0, most) }

func (q *Query) number(name string, byDefault, least, most uint64) uint64 {
	if !q.values.Has(name) {
		return byDefault
	}
	n, err := strconv.ParseUint(q.values.Get(name), 10, 64)
	if err != nil || n < least || n > most {
		q.Fault(name, problem.FaultOutOfRange,
			fmt.Sprintf("must be a number from %d to %d", least, most))
	}
	return n
}

var errTime = errors.New("must be a time in ISO 8601 UTC, such as 2026-11-21T10:15:30.123Z, from " +
	"the year 1970 to 9999")

// timeForm is stricter than time.Parse, which accepts one-digit hours.
var timeForm = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}([.,]\d+)?(Z|[+-]00:00)$`)

// parseTime parses a UTC time to Unix milliseconds, truncating smaller units.
func parseTime(s string) (int64, error) {
	at, err := time.Parse(time.RFC3339Nano, s)
	if !timeForm.MatchString(s) || err != nil || at.Year() > 9999 || at.UnixMilli() < 0 {
		return 0, errTime
	}
	return at.UnixMilli(), nil
}
