package writer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lumenhook/lumenhook/schemas"
)

// tableSpec describes a table that is filled from a topic.
type tableSpec struct {
	name, topic string
	of          func(*block) table // the block's rows for it
	// age is the column that determines when a row expires. Rows of current state don't.
	age string
	// key and day are the expressions by which Verify compares rows, and only selects them.
	key, day, only string
}

// tableSpecs lists the tables. The last one is written last (P3).
var tableSpecs = []tableSpec{
	{
		name: "payments", topic: schemas.TopicPayments, age: "ledger_closed_at",
		key: "payment_id", day: "ledger_closed_at",
		of: func(b *block) table { return tableOf(b.payments, paymentColumns) },
	},
	{
		name: "balance_moves", topic: schemas.TopicPayments, age: "ledger_closed_at",
		key: "move_id", day: "ledger_closed_at",
		of: func(b *block) table { return tableOf(b.moves, moveColumns) },
	},
	// Deleted objects may have been compacted away in their topic.
	{
		name: "endpoints", topic: schemas.TopicEndpoints,
		key: "endpoint_id", day: "created_at", only: "NOT deleted",
		of: func(b *block) table { return tableOf(b.endpoints, endpointColumns) },
	},
	{
		name: "watches", topic: schemas.TopicWatches,
		key: "watch_id", day: "created_at", only: "NOT deleted",
		of: func(b *block) table { return tableOf(b.watches, watchColumns) },
	},
	{
		name: "attempts", topic: schemas.TopicJournal, age: "sent_at",
		key: "concat(event_id, '/', endpoint_id, '/', toString(number))", day: "sent_at",
		of: func(b *block) table { return tableOf(b.attempts, attemptColumns) },
	},
	{
		name: countsTable, topic: schemas.TopicJournal, age: "at",
		key: "concat(endpoint_id, '/', toString(seconds), '/', toString(at))", day: "at",
		of: func(b *block) table { return tableOf(b.attempts, countColumns) },
	},
	{
		name: logTable, topic: schemas.TopicJournal,
		key: "concat(endpoint_id, '/', toString(log_from), '/', toString(leaf))", day: "sent_at",
		of: func(b *block) table { return tableOf(b.leaves, leafColumns) },
	},
	{
		name: "endpoint_changes", topic: schemas.TopicJournal, age: "changed_at",
		key: "concat(endpoint_id, '/', toString(version))", day: "changed_at",
		of: func(b *block) table { return tableOf(b.changes, changeColumns) },
	},
	{
		name: factsTable, topic: schemas.TopicJournal,
		key: "concat(aggregate_id, '/', toString(version))", day: "happened_at",
		of: func(b *block) table { return tableOf(b.facts, keptColumns) },
	},
	{
		name: deliveryFactsTable, topic: schemas.TopicJournal, age: "happened_at",
		key: "concat(event_id, '/', endpoint_id, '/', toString(version))", day: "happened_at",
		of: func(b *block) table { return tableOf(b.ofDelivery, deliveryFactColumns) },
	},
	{
		name: "events", topic: schemas.TopicJournal, age: "created_at",
		key: "concat(event_id, '/', endpoint_id)", day: "created_at",
		of: func(b *block) table { return tableOf(b.events, eventColumns) },
	},
	{
		name: "deliveries", topic: schemas.TopicJournal, age: "updated_at",
		key: "concat(event_id, '/', endpoint_id)", day: "created_at",
		of: func(b *block) table { return tableOf(b.deliveries, deliveryColumns) },
	},
}

const (
	countsTable = "attempt_counts" // attempts by time span
	logTable    = "attempt_log"    // leaf hashes of the attempt logs
	factsTable  = "facts"          // facts of endpoints and watches themselves
	// deliveryFactsTable has the facts of deliveries that are neither in events nor in attempts.
	deliveryFactsTable = "delivery_facts"
)

// Lengths of the time spans of attempt_counts, in seconds.
const (
	ShortSpan = 5 * 60
	LongSpan  = 60 * 60
)

// Tables for the projector's own records.
const (
	progressTable = "projection_progress"
	versionsTable = "schema_versions"
)

// Tables returns the tables that are filled from topics.
func Tables() []string {
	var names []string
	for _, t := range tableSpecs {
		names = append(names, t.name)
	}
	return names
}

// Topics returns the topics that fill the tables. They have the journal's partitions.
func Topics() []string { return topicsOf(Tables()) }

// specOf returns the zero value for any other table.
func specOf(table string) tableSpec {
	for _, t := range tableSpecs {
		if t.name == table {
			return t
		}
	}
	return tableSpec{}
}

func topicOf(table string) string { return specOf(table).topic }

func topicsOf(tables []string) []string {
	var topics []string
	for _, t := range tableSpecs {
		if slices.Contains(tables, t.name) && !slices.Contains(topics, t.topic) {
			topics = append(topics, t.topic)
		}
	}
	return topics
}

// filled is the ClickHouse table that is filled in place of one of our tables.
type filled struct {
	name       string
	generation string // its UUID, which survives renaming
}

type layout map[string]filled

// errTablesMissing means that tables were dropped or have not been created yet.
type errTablesMissing struct{ names []string }

func (e errTablesMissing) Error() string {
	return fmt.Sprintf("projections: there are no tables %v", e.names)
}

// errTablesChanged means that a table was recreated or exchanged.
type errTablesChanged struct{ name string }

func (e errTablesChanged) Error() string {
	return "projections: the table " + e.name +
		" was recreated or exchanged by a rebuild; continuing from its own progress"
}

const selectGenerations = `
SELECT name, toString(uuid) FROM system.tables WHERE database = {database:String}`

func (db *DB) generations(ctx context.Context) (map[string]string, error) {
	by, err := Pairs[string, string](ctx, db, selectGenerations, nil)
	if err != nil {
		return nil, fmt.Errorf("projections: asking which tables there are: %w", err)
	}
	return by, nil
}

// live returns the layout that users and the API read.
func (db *DB) live(ctx context.Context) (layout, error) {
	generations, err := db.generations(ctx)
	if err != nil {
		return nil, err
	}
	l := make(layout, len(tableSpecs))
	var missing []string
	for _, t := range tableSpecs {
		generation, there := generations[t.name]
		if !there {
			missing = append(missing, t.name)
		}
		l[t.name] = filled{name: t.name, generation: generation}
	}
	if len(missing) > 0 {
		return nil, errTablesMissing{missing}
	}
	return l, nil
}

// check returns an error unless a layout's names still refer to the same tables.
func (db *DB) check(ctx context.Context, l layout) error {
	generations, err := db.generations(ctx)
	if err != nil {
		return err
	}
	for _, f := range l {
		switch generations[f.name] {
		case f.generation:
		case "":
			return errTablesMissing{[]string{f.name}}
		default:
			return errTablesChanged{f.name}
		}
	}
	return nil
}

// tables returns the layout's tables in order of writing.
func (l layout) tables() []string {
	return slices.DeleteFunc(Tables(), func(t string) bool { _, there := l[t]; return !there })
}

func journalLayout(tables map[string]string) layout {
	l := make(layout)
	for _, t := range tableSpecs {
		if t.topic == schemas.TopicJournal {
			l[t.name] = filled{name: t.name, generation: tables[t.name]}
		}
	}
	return l
}

// JournalNames returns the tables that are filled from the journal.
func JournalNames() []string { return slices.Sorted(maps.Keys(journalLayout(nil))) }

const selectTables = `
SELECT name, toString(uuid), uptime() FROM system.tables
WHERE database = {database:String} AND name IN {tables:Array(String)}`

// JournalTables returns the UUIDs of the tables that are filled from the journal, and the server's
// uptime in seconds.
func (db *DB) JournalTables(
	ctx context.Context,
) (by map[string]string, uptime uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	by = make(map[string]string)
	err = db.Query(ctx, selectTables, Parameters{"tables": ArrayOf(JournalNames())},
		func(read func(...any) error) error {
			var name, generation string
			err := read(&name, &generation, &uptime)
			by[name] = generation
			return err
		})
	return by, uptime, err
}
