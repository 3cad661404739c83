package api

import (
	"net/url"
	"slices"

	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// maxFilterCharacters is more than any filter has.
const maxFilterCharacters = 256

// selection are events that a body selects, with the filters of lists.
type selection struct {
	filter readmodel.EventFilter
	values *decode.Query // the filters, as they were given
	dryRun bool          // to be counted only
}

// filtered reports whether a filter of the named ones was given.
func (s selection) filtered() bool { return len(s.values.Names()) > 0 }

// decodeSelection decodes a body of filters, of which it takes those that are named, and of
// other fields.
func decodeSelection(
	r *request, names []string, others ...decode.Field,
) (s selection, faults *problem.Faults) {
	given := make(url.Values)
	fields := append(others, decode.Into("dryRun", &s.dryRun, func(v decode.Value) bool {
		dry, _ := v.Boolean()
		return dry
	}))
	for _, name := range names {
		fields = append(fields, decode.Field{Name: name, Read: func(v decode.Value) {
			if text, ok := v.Text(maxFilterCharacters); ok {
				given.Set(name, text)
			}
		}})
	}
	faults = decode.Object(r.body, fields...)
	s.values = decode.QueryOf(given, names...)
	s.filter = eventFilterOf(r, s.values)
	s.values.FaultsAsFields(faults)
	return s, faults
}

// without returns names but for some.
func without(names []string, some ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(some, name) })
}
