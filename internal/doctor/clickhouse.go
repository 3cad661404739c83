package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lumenhook/lumenhook/projections/writer"
)

// leastDiskShare is the share of a ClickHouse disk that must be free for merges.
const leastDiskShare = 10 // percent

func (cfg *Config) clickhouse(ctx context.Context, f *findings) {
	switch {
	case cfg.ClickHouse == "" && cfg.Embedded:
		f.add(Warning, "fix the cause; the service tries again within 10 minutes, or when you restart it",
			"nothing could be checked: %s", cfg.NoClickHouse)
		return
	case cfg.ClickHouse == "":
		f.ok("nothing to check: %s", cfg.NoClickHouse)
		return
	}
	db, err := writer.Open(cfg.ClickHouse)
	if err != nil {
		f.failed(err, "correct --clickhouse-dsn")
		return
	}
	defer db.Close()
	grants := writer.Grants(db.Name())
	if roles := cfg.Topology.Roles; len(roles) > 0 && !slices.Contains(roles, "projector") {
		grants = writer.ReaderGrants(db.Name())
	}
	states, errs := db.Inspect(ctx, cfg.Now, grants)
	for i, state := range states {
		if errs[i] != nil {
			f.failed(errs[i], "start ClickHouse, or correct --clickhouse-dsn, the user and the password")
			continue
		}
		cfg.server(state, db.Name(), f)
	}
}

func (cfg *Config) server(s writer.ServerState, database string, f *findings) {
	f.ok("%s answers, ClickHouse %s", s.Address, s.Version)
	switch {
	case s.Unknown[writer.InspectMigrations] != nil: // reported below
	case len(s.Newer) > 0:
		f.add(Problem, "run the version of lumenhook that applied them, or a newer one",
			"the database %s has migrations of a newer version: %s", database, strings.Join(s.Newer, ", "))
	case len(s.Pending) > 0:
		f.add(Warning, "run `lumenhook migrate`, or start a projector, which applies them",
			"the database %s lacks %d migrations, such as %s", database, len(s.Pending), s.Pending[0])
	default:
		f.ok("all migrations of the database %s were applied", database)
	}
	if len(s.Denied) > 0 {
		missing := strings.Join(s.Denied, ", ")
		f.add(Problem, fmt.Sprintf("as an administrator, run `GRANT %s TO %s`", missing, s.User),
			"the user %s lacks privileges: %s", s.User, missing)
	}
	switch {
	case s.Unknown[writer.InspectDamage] != nil: // reported below
	case len(s.Damage) > 0:
		fix := "run " + s.Damage.Command()
		if cfg.Embedded {
			fix = "wait: the service rebuilds these tables from the topics, and logs its progress"
		}
		f.add(Problem, fix, "%v", s.Damage)
	default:
		f.ok("no part of the database %s is lost or damaged", database)
	}
	for _, disk := range s.Disks {
		free := percent(disk.FreeBytes, disk.TotalBytes)
		if free < leastDiskShare {
			f.add(Warning, "free up space, or shorten --history-retention",
				"its disk %s has only %s (%d%%) free, so merges may fail", disk.Name, bytes(disk.FreeBytes),
				free)
			continue
		}
		f.ok("its disk %s has %s (%d%%) free", disk.Name, bytes(disk.FreeBytes), free)
	}
	if cfg.Embedded {
		return // its disk is the data folder's, and its user has no further rights
	}
	for _, what := range slices.Sorted(maps.Keys(s.Unknown)) {
		err := s.Unknown[what]
		f.add(Warning, "grant the user the right to read it, or check it yourself", "cannot read %s",
			f.explain(err))
	}
}

func percent(part, whole uint64) uint64 {
	if whole == 0 {
		return 0
	}
	return part / (whole/100 + 1)
}

func bytes(n uint64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
