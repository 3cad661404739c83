package projections

import "context"

// MigrateTo is Migrate with the migrations of another version of the program.
var MigrateTo = migrate

// Looks returns what runs each query of a history.
func Looks(h *History) func(context.Context, func(context.Context) error) error {
	return h.from.Load().all[0].look
}
