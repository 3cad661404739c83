package writer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lumenhook/lumenhook/schemas"
)

type tableTopic struct{ table, topic string }

// tableTopics lists the tables. The last one is written last (P3).
var tableTopics = []tableTopic{
	{"payments", schemas.TopicPayments},
	{"balance_moves", schemas.TopicPayments},
	{"endpoints", schemas.TopicEndpoints},
	{"watches", schemas.TopicWatches},
	{"attempts", schemas.TopicJournal},
	{countsTable, schemas.TopicJournal},
	{logTable, schemas.TopicJournal},
	{"endpoint_changes", schemas.TopicJournal},
	{factsTable, schemas.TopicJournal},
	{deliveryFactsTable, schemas.TopicJournal},
	{"events", schemas.TopicJournal},
	{"deliveries", schemas.TopicJournal},
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
	for _, t := range tableTopics {
		names = append(names, t.table)
	}
	return names
}

// Topics returns the topics that fill the tables. They have the journal's partitions.
func Topics() []string { return topicsOf(Tables()) }

func topicOf(table string) string {
	for _, t := range tableTopics {
		if t.table == table {
			return t.topic
		}
	}
	return ""
}

func topicsOf(tables []string) []string {
	var topics []string
	for _, t := range tableTopics {
		if slices.Contains(tables, t.table) && !slices.Contains(topics, t.topic) {
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
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	by := make(map[string]string)
	err := db.Query(ctx, selectGenerations, nil, func(read func(...any) error) error {
		var name, generation string
		err := read(&name, &generation)
		by[name] = generation
		return err
	})
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
	l := make(layout, len(tableTopics))
	var missing []string
	for _, t := range tableTopics {
		generation, there := generations[t.table]
		if !there {
			missing = append(missing, t.table)
		}
		l[t.table] = filled{name: t.table, generation: generation}
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
	for _, t := range tableTopics {
		if t.topic == schemas.TopicJournal {
			l[t.table] = filled{name: t.table, generation: tables[t.table]}
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
