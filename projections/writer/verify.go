package writer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	verifySuffix   = "_verify"
	verifyWaitMax  = 30 * time.Second // for the live tables to reach the refold's position
	compareMax     = 10 * time.Minute
	examplesOfDiff = 5
)

// Difference is a partition and day for which a live table differs from its topic.
type Difference struct {
	Table      string
	Partition  int32
	Day        string // YYYY-MM-DD, UTC
	LiveRows   uint64
	LiveSum    uint64
	RefoldRows uint64
	RefoldSum  uint64
	Examples   []string // keys of some of the rows that differ
}

// Doubled is an event with several deliveries that were not cancelled. The journal itself then
// violates the rule that an event has at most one (G2).
type Doubled struct {
	EventID   string
	Endpoints []string // of these deliveries
}

// Verification is the result of a comparison.
type Verification struct {
	Rows          map[string]uint64 // rows compared, by table
	Former        map[string]uint64 // not compared, because the topics lack their facts
	LeftOut       map[string]int    // invalid records that are in no table, by topic
	Differences   []Difference
	Doubled       []Doubled // some of the events
	DoubledEvents uint64    // number of all such events
}

// Verify folds the topics into separate tables, and compares counts and checksums with the live
// ones by partition and day. It ignores rows that changed after the refold ended. It drops its own
// tables at the end.
func Verify(ctx context.Context, cfg RefoldConfig) (v Verification, err error) {
	if cfg, err = cfg.complete(ctx); err != nil {
		return v, err
	}
	f, err := newRefold(ctx, cfg, verifySuffix)
	if err != nil {
		return v, err
	}
	defer f.close()
	var own []string
	for _, name := range cfg.Tables {
		own = append(own, name+verifySuffix)
	}
	if err := cfg.DB.drop(ctx, own...); err != nil { // left by an interrupted verification
		return v, err
	}
	defer func() {
		if dropped := cfg.DB.drop(context.WithoutCancel(ctx), own...); err == nil {
			err = dropped
		}
	}()
	if err := f.makeTables(ctx); err != nil {
		return v, err
	}
	// The new tables begin where the topics begin.
	if err := f.DB.recordProgress(ctx, f.layout, f.next); err != nil {
		return v, err
	}
	ends, err := f.endsNow(ctx)
	if err != nil {
		return v, err
	}
	if err := f.fill(ctx, ends); err != nil {
		return v, err
	}
	if err := f.awaitLive(ctx); err != nil {
		return v, err
	}
	v.Rows, v.Former, v.LeftOut = make(map[string]uint64), make(map[string]uint64), f.dead
	if f.partial, err = f.restartedTables(ctx); err != nil {
		return v, err
	}
	f.partial = append(f.partial, f.lateTables()...)
	for _, name := range cfg.Tables {
		if err := f.compare(ctx, name, &v); err != nil {
			return v, fmt.Errorf("projections: comparing %s: %w", name, err)
		}
	}
	if slices.Contains(cfg.Tables, "deliveries") {
		err = f.findDoubled(ctx, &v)
	}
	return v, err
}

// awaitLive waits until the live tables contain everything that was refolded.
func (f *refold) awaitLive(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, verifyWaitMax,
		fmt.Errorf("projections: the live tables are behind the topics by more than %s; is a projector "+
			"running?", verifyWaitMax))
	defer cancel()
	tick := time.NewTicker(progressPoll)
	defer tick.Stop()
	for {
		behind, err := f.DB.behind(ctx, f.next)
		if err != nil || behind == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// rowsOf returns a subquery of the rows to compare: key, part, day, hash.
func (f *refold) rowsOf(name, suffix string, columns []string, since string) string {
	how := specOf(name)
	bounds := f.extents[topicOf(name)].starts
	var partitions, ends []string
	for _, p := range kafka.Partitions(bounds) {
		partitions = append(partitions, strconv.Itoa(int(p)))
		ends = append(ends, strconv.FormatInt(f.next[topicPartition{topicOf(name), p}], 10))
	}
	bound := "transform(toInt64(partition), [" + strings.Join(partitions, ",") + "], [" +
		strings.Join(ends, ",") + "], toInt64(0))"
	where := []string{"toInt64(offset) < " + bound,
		how.key + " NOT IN (SELECT " + how.key + " FROM {database:Identifier}." + name +
			" FINAL WHERE toInt64(offset) >= " + bound + ")"}
	if how.only != "" {
		where = append(where, how.only)
	}
	if since != "" {
		where = append(where, since)
	}
	if slices.Contains(f.partial, name) {
		where = append(where, how.key+" IN "+f.keysOf(name))
	}
	return "SELECT " + how.key + " AS key, toInt32(partition) AS part, toString(toDate(" + how.day +
		")) AS day, sipHash64(toString(tuple(" + strings.Join(columns, ", ") + "))) AS hash" +
		" FROM {database:Identifier}." + name + suffix + " FINAL WHERE " + strings.Join(where, " AND ")
}

// keysOf returns a subquery of the keys of a restarted table's rows that were refolded from their
// beginning. It excludes deliveries whose creation is not among the facts (they have no day), and
// the first span of each endpoint, which may also contain attempts of the former topics.
func (f *refold) keysOf(name string) string {
	how := specOf(name)
	table := "{database:Identifier}." + name + f.suffix
	whole := "toDate(" + how.day + ") != toDate(0)"
	if name == countsTable {
		whole = "(endpoint_id, seconds, at) NOT IN (SELECT endpoint_id, seconds, min(at) FROM " + table +
			" GROUP BY endpoint_id, seconds)"
	}
	return "(SELECT " + how.key + " FROM " + table + " FINAL WHERE " + whole + ")"
}

// countFormer counts the rows of a table whose facts, or whose first facts, the topics lack because
// it was restarted on other topics ([Restart]) or because retention deleted them. The offset of a
// row doesn't say whether it comes from former topics.
func (f *refold) countFormer(ctx context.Context, name string, v *Verification) error {
	if !slices.Contains(f.partial, name) {
		return nil
	}
	var rows uint64
	err := f.DB.QueryRow(ctx, "SELECT count() FROM {database:Identifier}."+name+" FINAL WHERE "+
		specOf(name).key+" NOT IN "+f.keysOf(name), nil, &rows)
	if rows > 0 {
		v.Former[name] = rows
	}
	return err
}

// compare adds a table's counts and differences to v.
func (f *refold) compare(ctx context.Context, name string, v *Verification) error {
	ctx, cancel := context.WithTimeout(ctx, compareMax)
	defer cancel()
	columns, err := f.DB.storedColumns(ctx, name)
	if err != nil {
		return err
	}
	for i, c := range columns {
		switch c { // sets: the order of members doesn't matter
		case "attempt_times":
			columns[i] = "arraySort(" + c + ")"
		case "delivered", "failed":
			columns[i] = "arraySort(bitmapToArray(" + c + "))"
		}
	}
	since, err := f.withinRetention(ctx, name)
	if err == nil {
		err = f.countFormer(ctx, name, v)
	}
	if err != nil {
		return err
	}
	live, refolded := f.rowsOf(name, "", columns, since), f.rowsOf(name, f.suffix, columns, since)
	// The two sides are summed separately, so that the report can show both.
	query := `
SELECT part, day, sumIf(n, side = 0), sumIf(s, side = 0), sumIf(n, side = 1), sumIf(s, side = 1)
FROM (
    SELECT 0 AS side, part, day, count() AS n, sum(hash) AS s FROM (` + live + `) GROUP BY part, day
    UNION ALL SELECT 1, part, day, count(), sum(hash) FROM (` + refolded + `) GROUP BY part, day
) GROUP BY part, day ORDER BY part, day`
	var differences []Difference
	err = f.DB.Query(ctx, query, nil, func(read func(...any) error) error {
		d := Difference{Table: name}
		err := read(&d.Partition, &d.Day, &d.LiveRows, &d.LiveSum, &d.RefoldRows, &d.RefoldSum)
		v.Rows[name] += d.RefoldRows
		if d.LiveRows != d.RefoldRows || d.LiveSum != d.RefoldSum {
			differences = append(differences, d)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range differences {
		if err := f.examples(ctx, &differences[i], live, refolded); err != nil {
			return err
		}
	}
	v.Differences = append(v.Differences, differences...)
	return nil
}

// examples adds keys of rows that only one side has, or that differ.
func (f *refold) examples(ctx context.Context, d *Difference, live, refolded string) error {
	query := `SELECT key FROM (SELECT key, hash FROM (` + live +
		`) WHERE part = {part:Int32} AND day = {day:String}
    UNION ALL SELECT key, hash FROM (` + refolded +
		`) WHERE part = {part:Int32} AND day = {day:String})
GROUP BY key HAVING count() != 2 OR uniqExact(hash) != 1 ORDER BY key LIMIT ` +
		strconv.Itoa(examplesOfDiff)
	which := Parameters{"part": strconv.Itoa(int(d.Partition)), "day": d.Day}
	return f.DB.Query(ctx, query, which, func(read func(...any) error) error {
		var key string
		err := read(&key)
		d.Examples = append(d.Examples, key)
		return err
	})
}

const selectDoubled = `
SELECT event_id, arraySort(groupArray(endpoint_id)), count() OVER ()
FROM (
    SELECT event_id, endpoint_id FROM {database:Identifier}.{table:Identifier} FINAL
    WHERE state != 'CANCELLED'
)
GROUP BY event_id HAVING count() > 1
ORDER BY event_id LIMIT {limit:UInt32}
SETTINGS optimize_aggregation_in_order = 1`

// findDoubled looks for events with two active deliveries in the refolded tables. The comparison
// cannot find them, because the live tables contain them as well.
func (f *refold) findDoubled(ctx context.Context, v *Verification) error {
	ctx, cancel := context.WithTimeout(ctx, compareMax)
	defer cancel()
	which := Parameters{"table": "deliveries" + f.suffix, "limit": strconv.Itoa(examplesOfDiff)}
	err := f.DB.Query(ctx, selectDoubled, which, func(read func(...any) error) error {
		var d Doubled
		err := read(&d.EventID, &d.Endpoints, &v.DoubledEvents)
		v.Doubled = append(v.Doubled, d)
		return err
	})
	if err != nil {
		return fmt.Errorf("projections: looking for events with two deliveries: %w", err)
	}
	return nil
}

func (f *refold) withinRetention(ctx context.Context, name string) (condition string, err error) {
	age := specOf(name).age
	if age == "" {
		return "", nil
	}
	retention, err := f.DB.Retention(ctx, name)
	if err != nil || retention == 0 {
		return "", err
	}
	since := f.Now().Add(-retention).Add(24 * time.Hour).Unix()
	return fmt.Sprintf("toUnixTimestamp(toDateTime(%s)) > %d", age, since), nil
}
