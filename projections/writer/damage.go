package writer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// If ClickHouse cannot load a part, it detaches it and answers queries without its rows. It doesn't
// notice a part whose directory is missing. So projection_parts lists the parts that each table
// had. Each of them must still exist, or be covered by the part that it was merged into.
//
// A merge covers a range of block numbers, whether or not all of the blocks exist. At startup
// ClickHouse merges many small parts within milliseconds, so a new part may cover the range of a
// lost one. Such a part proves nothing. Instead, the parts that it was merged from count, which
// ClickHouse keeps for 8 minutes (old_parts_lifetime).

// partsTable lists the parts of each table by generation. A row with lost = 1 marks a table that
// lost rows. The table then stays damaged until another one replaces it, because new parts may get
// the numbers of lost ones.
const partsTable = "projection_parts"

const (
	createParts = `CREATE TABLE IF NOT EXISTS {database:Identifier}.projection_parts
(
    generation UUID                COMMENT 'UUID of the table, as in system.tables',
    lost       UInt8               COMMENT '1: the table lost rows on disk',
    parts      Array(Tuple(partition_id String, first Int64, last Int64, expires DateTime))
                                   COMMENT 'Block numbers of its parts, and when all rows expire',
    progress   Array(Tuple(topic String, partition Int32, next_offset Int64))
                                   COMMENT 'Records below these offsets are in these parts',
    taken_at   DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When the row was written'
)
ENGINE = ReplacingMergeTree(taken_at)
ORDER BY (generation, lost)
COMMENT 'The parts that each table had, to notice lost ones'`

	// generationOf extracts the table's UUID from a part's path. The table's name would not be
	// reliable, because a rebuild may give it to another table between two reads.
	generationOf = `toUUIDOrZero(extract(path, 'store/[0-9a-f]{3}/([0-9a-f-]{36})/'))`

	// allKept is true while ClickHouse still keeps all parts that were merged since its start. It is
	// never true for replicated tables: replicas fetch parts from each other without source parts.
	allKept = `(uptime() < 400 AND NOT match(engine, '^(Replicated|Shared)'))`

	// provenParts selects the parts of each partition that prove that their rows exist. Parts that
	// were merged since the start don't. uptime() and modification_time are in whole seconds.
	provenParts = `
    SELECT ` + generationOf + ` AS id, partition_id,
        groupArrayIf((min_block_number, max_block_number), active AND rows > 0) AS present,
        groupArrayIf((min_block_number, max_block_number),
            level > 0 AND modification_time >= now() - uptime() - 1 AND ` + allKept + `) AS merged,
        groupArray((min_block_number, max_block_number, delete_ttl_info_max)) AS every,
        arrayFilter(m -> arrayExists(
            p -> p.1 >= m.1 AND p.2 <= m.2 AND (p.1, p.2) != m, every), merged) AS unproven,
        arrayFilter(p -> NOT has(unproven, (p.1, p.2)) AND arrayExists(
            a -> a.1 <= p.1 AND a.2 >= p.2, present), every) AS whole
    FROM system.parts WHERE database = {database:String} AND (active OR ` + allKept + `)
    GROUP BY id, partition_id`

	// The progress is a scalar subquery, which ClickHouse evaluates before it reads the parts.
	recordParts = `
INSERT INTO {database:Identifier}.projection_parts (generation, parts, progress)
WITH (SELECT groupArray((generation, topic, partition, next)) FROM (
    SELECT generation, toString(topic) AS topic, partition, max(next_offset) AS next
    FROM {database:Identifier}.projection_progress GROUP BY generation, topic, partition)) AS at
SELECT t.uuid, groupArrayArray(arrayMap(w -> (p.partition_id, w.1, w.2, w.3), p.whole)),
    any(arrayMap(x -> (x.2, x.3, x.4), arrayFilter(x -> x.1 = t.uuid, at)))
FROM system.tables AS t LEFT JOIN (` + provenParts + `) AS p ON p.id = t.uuid
WHERE t.database = {database:String} AND t.engine LIKE '%MergeTree'
    AND t.name != 'projection_parts' AND toString(t.uuid) NOT IN {damaged:Array(String)}
GROUP BY t.uuid`

	// Retention may drop parts at any moment, so the list of the table's parts stays empty for an
	// hour.
	forgetParts = `
INSERT INTO {database:Identifier}.projection_parts (generation, progress, taken_at)
SELECT generation, argMax(progress, taken_at), now64(3) + INTERVAL 1 HOUR
FROM {database:Identifier}.projection_parts
WHERE lost = 0 AND generation IN (
    SELECT uuid FROM system.tables WHERE database = {database:String} AND name = {table:String})
GROUP BY generation`

	markLost = `
INSERT INTO {database:Identifier}.projection_parts (generation, lost, parts)
SELECT toUUID({generation:String}), 1, [('lost', 0, 0, toDateTime(0))]`

	selectDamage = `
SELECT table, toString(known.id), count(), minIf(part, part != 'lost_0_0'), max(part = 'lost_0_0')
FROM (
    SELECT t.name AS table, t.uuid AS id, p.1 AS partition, p.2 AS first, p.3 AS last,
        concat(partition, '_', toString(first), '_', toString(last)) AS part
    FROM (
        SELECT generation, arrayJoin(argMax(parts, taken_at)) AS p
        FROM {database:Identifier}.projection_parts GROUP BY generation, lost
    ) AS had JOIN system.tables AS t ON t.uuid = had.generation
    WHERE t.database = {database:String} AND (p.4 = toDateTime(0) OR p.4 > now())
    UNION ALL
    SELECT table, ` + generationOf + `, assumeNotNull(partition_id),
        assumeNotNull(min_block_number), assumeNotNull(max_block_number), name
    FROM system.detached_parts WHERE database = {database:String} AND partition_id IS NOT NULL
) AS known LEFT JOIN (` + provenParts + `) AS has
    ON has.id = known.id AND has.partition_id = known.partition
WHERE NOT arrayExists(w -> w.1 <= first AND w.2 >= last, has.whole)
GROUP BY table, known.id ORDER BY table`

	// selectSafeProgress is like selectProgress, for the recorded parts only.
	selectSafeProgress = `
SELECT toString(generation), p.1, p.2, p.3 FROM (
    SELECT generation, arrayJoin(argMax(progress, taken_at)) AS p
    FROM {database:Identifier}.projection_parts WHERE lost = 0 GROUP BY generation)
WHERE generation IN (SELECT toUUID(arrayJoin({generations:Array(String)})))`
)

// Damage is a table that lost rows on disk.
type Damage struct {
	Table   string
	Parts   uint64 // number of lost or broken parts
	Example string // name of one of them

	generation string
	marked     bool
}

// Damages is a list of tables that lost rows.
type Damages []Damage

func (d Damages) tables() (names []string) {
	for _, of := range d {
		names = append(names, of.Table)
	}
	return names
}

func (d Damages) generations() (ids []string) {
	for _, of := range d {
		ids = append(ids, of.generation)
	}
	return ids
}

// Error names the tables and the command that rebuilds them.
func (d Damages) Error() string {
	return fmt.Sprintf("the history lost rows on disk: ClickHouse has broken or missing parts of %s; "+
		"%s builds them again from the topics", strings.Join(d.tables(), ", "), d.Command())
}

// Command returns the command that rebuilds the tables.
func (d Damages) Command() string {
	command := "lumenhook rebuild"
	for _, name := range d.tables() {
		if topicOf(name) == "" { // all tables depend on it
			return "`lumenhook rebuild --all`"
		}
		command += " --table " + name
	}
	return "`" + command + "`"
}

// Damage returns the server's tables that lost rows. If there are no tables yet, it returns none.
func (db *DB) Damage(ctx context.Context) (list Damages, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	err = db.Query(ctx, selectDamage, nil, func(read func(...any) error) error {
		var d Damage
		var marked uint8
		err := read(&d.Table, &d.generation, &d.Parts, &d.Example, &marked)
		d.marked = marked > 0
		list = append(list, d)
		return err
	})
	if IsMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("projections: asking for lost parts: %w", err)
	}
	return slices.DeleteFunc(list, func(d Damage) bool {
		return topicOf(d.Table) == "" && d.Table != progressTable && d.Table != versionsTable &&
			d.Table != partsTable && !strings.HasSuffix(d.Table, rebuildSuffix)
	}), nil
}

// markDamage is like Damage, but also marks the tables before new parts take the numbers of lost
// ones. It then checks again, because a rebuild may have replaced a table in the meantime.
func (db *DB) markDamage(ctx context.Context) (Damages, error) {
	list, err := db.Damage(ctx)
	if err != nil || !slices.ContainsFunc(list, func(d Damage) bool { return !d.marked }) {
		return list, err
	}
	for _, d := range list {
		if err := db.mark(ctx, d.Table, d.generation); err != nil {
			return list, err
		}
	}
	return db.Damage(ctx)
}

func (db *DB) mark(ctx context.Context, table, generation string) error {
	if err := db.exec(ctx, markLost, Parameters{"generation": generation}); err != nil {
		return fmt.Errorf("projections: marking the table %s as damaged: %w", table, err)
	}
	return nil
}

// dropDamaged drops damaged tables without history: the projector's own records, which it recreates
// from the topics, and leftovers of an interrupted rebuild.
func (db *DB) dropDamaged(ctx context.Context) error {
	damaged, err := db.markDamage(ctx)
	if err != nil && !IsDenied(err) {
		return err
	}
	names := slices.DeleteFunc(damaged.tables(), func(name string) bool { return topicOf(name) != "" })
	if len(names) == 0 {
		return nil
	}
	if err := db.drop(ctx, names...); err != nil {
		return err
	}
	return Migrate(ctx, db)
}

// DamageAge is the maximum age of a result of the damage check.
const DamageAge = 5 * time.Second

// damageCodes are ClickHouse's error codes for missing or modified files.
var damageCodes = []int32{32, 33, 40, 74, 76, 107, 226, 228, 246, 271, 432, 740}

// suspect has the guard check the tables if an error indicates a broken file.
func (db *DB) suspect(err error) {
	if HasCode(err, damageCodes...) {
		db.suspected.Store(true)
	}
}

// IsDenied reports whether the user lacks permission for a query.
func IsDenied(err error) bool { return HasCode(err, CodeAccessDenied) }
