package writer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
)

const (
	guardEvery = 5 * time.Second  // between checks for lost parts
	recordEach = 12               // checks between recording the parts
	checkEvery = 24 * time.Hour   // between checks of all files
	checkPause = time.Minute      // minimum time between checks of all files
	checkMax   = time.Hour        // per table
	reportWait = 10 * time.Second // between log messages about a rebuild
)

// GuardConfig configures a guard.
type GuardConfig struct {
	RefoldConfig // without Tables
	// Heal makes the guard check all files at startup and once a day, and rebuild damaged tables.
	// Otherwise it only reports them, and checks the files only after a read has found a broken one.
	Heal bool
}

var healPolicy = retry.Policy{First: guardEvery, Last: 5 * time.Minute}

type guard struct {
	GuardConfig
	looks  int
	logged string              // last logged result
	broken map[string][]string // broken parts by table

	waits  *retry.Backoff // between failed rebuilds
	healAt time.Time      // earliest time of the next rebuild
	failed string         // error of the last rebuild
}

func newGuard(cfg GuardConfig) *guard {
	return &guard{GuardConfig: cfg, broken: make(map[string][]string), waits: healPolicy.Backoff()}
}

// Guard detects tables that lost rows on disk, until ctx ends. Only one guard per database may
// heal.
func Guard(ctx context.Context, cfg GuardConfig) error {
	g := newGuard(cfg)
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	var checked time.Time
	for ctx.Err() == nil {
		g.checkParts(ctx)
		age := g.Now().Sub(checked)
		if age > checkPause && g.DB.suspected.Load() || age > checkEvery && g.Heal {
			checked = g.Now()
			g.check(ctx)
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveMax)
	defer cancel()
	g.looks, g.Heal = 0, false
	g.checkParts(ending) // record the parts a last time
	return nil
}

// checkParts checks for lost parts and records the existing ones.
func (g *guard) checkParts(ctx context.Context) {
	db, err := g.DB.pin(ctx)
	var damaged Damages
	if err == nil {
		damaged, err = db.markDamage(ctx)
	}
	g.report(damaged, err)
	if err == nil && len(damaged) > 0 && g.Heal && !g.Now().Before(g.healAt) {
		if err = g.heal(ctx, db, damaged); err != nil {
			g.delay(err)
		} else {
			damaged, g.looks = nil, 0
			g.report(nil, nil)
		}
	}
	if err == nil && len(damaged) == 0 {
		g.waits.Reset()
		g.healAt, g.failed = time.Time{}, ""
	}
	if err == nil && g.looks%recordEach == 0 {
		err = db.exec(ctx, recordParts, Parameters{"damaged": ArrayOf(damaged.generations())})
		if err != nil && !IsMissing(err) && ctx.Err() == nil {
			g.Logger.Warn("cannot record the parts of the history", "error", err)
		}
	}
	g.looks++
}

// delay postpones the next rebuild after a failure, and logs each new error.
func (g *guard) delay(err error) {
	wait := g.waits.Next()
	g.healAt = g.Now().Add(wait)
	if text := err.Error(); text != g.failed {
		g.failed = text
		g.Logger.Warn("cannot rebuild the damaged tables; trying again", "error", err, "wait", wait)
	}
}

func (g *guard) report(damaged Damages, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	} else if len(damaged) > 0 {
		text = damaged.Error()
	}
	if text == g.logged {
		return
	}
	g.logged = text
	switch {
	case err != nil:
		g.Logger.Warn("cannot look for damage of the history; trying again", "error", err)
	case text == "":
		g.Logger.Warn("the history is whole again")
	case g.Heal:
		g.Logger.Error("the history lost rows on disk; rebuilding the damaged tables from the topics",
			"tables", damaged.tables(), "part", damaged[0].Example)
	default:
		g.Logger.Error("the history is incomplete", "error", damaged, "part", damaged[0].Example)
	}
}

func (g *guard) heal(ctx context.Context, db *DB, damaged Damages) error {
	if err := g.detach(ctx, db); err != nil {
		return err
	}
	cfg := g.RefoldConfig
	cfg.Tables = slices.DeleteFunc(damaged.tables(),
		func(name string) bool { return topicOf(name) == "" })
	if len(cfg.Tables) == 0 {
		return db.dropDamaged(ctx)
	}
	cfg.DB = db
	next := g.Now().Add(reportWait)
	cfg.Report = func(p RefoldProgress) {
		if now := g.Now(); now.After(next) {
			next = now.Add(reportWait)
			g.Logger.Warn("rebuilding the history", "tables", cfg.Tables, "records", p.Done, "of", p.Total)
		}
	}
	return Rebuild(ctx, cfg)
}

// detach removes broken parts from their tables, so that the remaining parts can be read and
// merged. It first waits until no reader relies on a damage check from before the tables were
// marked.
func (g *guard) detach(ctx context.Context, db *DB) error {
	if len(g.broken) == 0 {
		return nil
	}
	if err := retry.Sleep(ctx, 2*DamageAge); err != nil {
		return err
	}
	for table, parts := range g.broken {
		for _, part := range parts {
			err := db.exec(ctx, "ALTER TABLE {database:Identifier}."+table+" DETACH PART '"+part+"'", nil)
			if err != nil { // for example because the part was merged
				g.Logger.Warn("cannot detach a broken part of the history", "table", table, "error", err)
			}
		}
	}
	clear(g.broken)
	return nil
}

const checkTable = `CHECK TABLE %s.%s
SETTINGS check_query_single_value_result = 0, max_threads = 1, max_local_read_bandwidth = 67108864`

// check verifies the checksums of all files, and marks tables with a mismatch.
func (g *guard) check(ctx context.Context) {
	g.DB.suspected.Store(false)
	for _, db := range g.DB.Servers() {
		for _, table := range append(Tables(), progressTable, versionsTable, partsTable) {
			if err := g.checkTable(ctx, db, table); err != nil && !IsMissing(err) && ctx.Err() == nil {
				g.Logger.Warn("cannot check the files of the history", "table", table, "error", err)
			}
		}
	}
}

func (g *guard) checkTable(ctx context.Context, db *DB, table string) error {
	checking, cancel := context.WithTimeout(ctx, checkMax)
	defer cancel()
	generations, err := db.generations(checking)
	if err != nil {
		return err
	}
	var broken []string
	err = db.Query(checking, fmt.Sprintf(checkTable, db.name, table), nil,
		func(read func(...any) error) error {
			var part, why string
			var passed bool
			err := read(&part, &passed, &why)
			if err == nil && !passed {
				broken = append(broken, part)
				g.Logger.Error("a part of the history is broken", "table", table, "part", part, "error",
					strings.TrimSpace(why))
			}
			return err
		})
	if err != nil || len(broken) == 0 {
		return err
	}
	checked := layout{table: {name: table, generation: generations[table]}}
	if err := db.check(ctx, checked); err != nil {
		return err // for example because a rebuild replaced the table
	}
	if g.Heal {
		g.broken[table] = broken
	}
	return db.mark(ctx, table, generations[table])
}
