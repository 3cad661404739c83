package projections

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
)

// insertMax bounds one insert, the server's part included.
const insertMax = 30 * time.Second

// table is what a block puts into one table.
type table struct {
	name    string
	rows    int
	columns []column
}

// column is a column's name and its values, in a slice of a type that the
// client takes as a whole.
type column struct {
	name   string
	values any
}

// tables are in the order in which they are written (P3).
func (b *block) tables() []table {
	return []table{attemptsTable(b.attempts), deliveriesTable(b.deliveries), eventsTable(b.events)}
}

func eventsTable(rows []row[domain.DeliveryCreated]) table {
	type r = row[domain.DeliveryCreated]
	return table{"events", len(rows), append(placeColumns(rows),
		column{"event_id", each(rows, func(r *r) string { return r.body.Event.ID })},
		column{"type", each(rows, func(r *r) string { return string(r.body.Event.Type) })},
		column{"account_id", each(rows, func(r *r) string { return r.body.AccountID })},
		column{"endpoint_id", each(rows, func(r *r) string { return r.endpointID })},
		column{"watch_id", each(rows, func(r *r) string { return r.body.WatchID })},
		column{"wallet_address", each(rows, func(r *r) string { return r.body.WalletAddress })},
		column{"created_at", each(rows, func(r *r) int64 { return r.body.Event.CreatedAtMillis })},
		column{"body", each(rows, func(r *r) []byte { return r.body.Event.Body })},
	)}
}

func attemptsTable(rows []row[domain.AttemptMade]) table {
	type r = row[domain.AttemptMade]
	return table{"attempts", len(rows), append(placeColumns(rows),
		column{"event_id", each(rows, func(r *r) string { return r.body.EventID })},
		column{"number", each(rows, func(r *r) uint32 { return uint32(r.body.Number) })},
		column{"run", each(rows, func(r *r) uint32 { return uint32(r.body.Run) })},
		column{"event_type", each(rows, func(r *r) string { return string(r.body.EventType) })},
		column{"endpoint_id", each(rows, func(r *r) string { return r.endpointID })},
		column{"sent_at", each(rows, func(r *r) int64 { return r.body.Result.SentAtMillis })},
		column{"duration_ms", each(rows, func(r *r) uint32 { return uint32(r.body.Result.DurationMillis) })},
		column{"status_code", optional(rows, func(r *r) uint16 { return uint16(r.body.Result.StatusCode) })},
		column{"error", each(rows, func(r *r) string { return string(r.body.Result.Error) })},
		column{"response_body", each(rows, func(r *r) []byte { return r.body.Result.ResponseBody })},
		column{"state", each(rows, func(r *r) string { return string(r.body.State) })},
		column{"next_attempt_at", optional(rows, func(r *r) int64 { return r.body.NextAttemptAtMillis })},
	)}
}

func deliveriesTable(rows []row[delivery]) table {
	type r = row[delivery]
	attempts := each(rows, func(r *r) *uint32 {
		if r.body.run == 0 {
			return nil
		}
		n := uint32(r.body.attempts)
		return &n
	})
	return table{"deliveries", len(rows), append(placeColumns(rows),
		column{"event_id", each(rows, func(r *r) string { return r.body.eventID })},
		column{"endpoint_id", each(rows, func(r *r) string { return r.endpointID })},
		column{"state", each(rows, func(r *r) string { return string(r.body.state) })},
		column{"attempts", attempts},
		column{"run", optional(rows, func(r *r) uint32 { return uint32(r.body.run) })},
		column{"next_attempt_at", optional(rows, func(r *r) int64 { return r.body.nextAttemptAtMillis })},
		column{"updated_at", each(rows, func(r *r) int64 { return r.atMillis })},
	)}
}

// placeColumns say which fact a row comes from. The topic is the tables' default.
func placeColumns[B any](rows []row[B]) []column {
	return []column{
		{"version", each(rows, func(r *row[B]) uint64 { return r.version })},
		{"partition", each(rows, func(r *row[B]) int32 { return r.partition })},
		{"offset", each(rows, func(r *row[B]) int64 { return r.offset })},
	}
}

func each[R, V any](rows []R, value func(*R) V) []V {
	values := make([]V, len(rows))
	for i := range rows {
		values[i] = value(&rows[i])
	}
	return values
}

// optional gives NULL where the value is zero.
func optional[R any, V comparable](rows []R, value func(*R) V) []*V {
	values := each(rows, value)
	pointers := make([]*V, len(values))
	var zero V
	for i := range values {
		if values[i] != zero {
			pointers[i] = &values[i]
		}
	}
	return pointers
}

// insert writes rows with one statement.
func (db *DB) insert(ctx context.Context, t table) (err error) {
	if t.rows == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, insertMax)
	defer cancel()
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	batch, err := db.conn.PrepareBatch(ctx, "INSERT INTO "+db.name+"."+t.name+" ("+strings.Join(names, ", ")+")")
	if err != nil {
		return fmt.Errorf("projections: writing to %s: %w", t.name, err)
	}
	for i, c := range t.columns {
		if err := batch.Column(i).Append(c.values); err != nil {
			_ = batch.Abort()
			return fmt.Errorf("projections: writing the column %s of %s: %w", c.name, t.name, err)
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("projections: writing to %s: %w", t.name, err)
	}
	return nil
}

// write puts a block into the tables, and then says so (P1).
func (db *DB) write(ctx context.Context, b *block) error {
	if err := db.checkContinuity(ctx, b.from); err != nil {
		return err
	}
	for _, t := range b.tables() {
		if err := db.insert(ctx, t); err != nil {
			return err
		}
	}
	return db.recordProgress(ctx, b.next)
}
