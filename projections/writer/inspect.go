package writer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/schemas"
)

// ServerState is the state of a ClickHouse server. Unknown contains an error for each of the checks
// below that failed.
type ServerState struct {
	Address string
	Version string
	Clock   time.Time
	Asked   [2]time.Time // before and after reading Clock

	Pending []string // missing migrations; all of them if there is no database
	Newer   []string // migrations of a newer program
	User    string
	Denied  []string // missing grants, as after GRANT

	Damage  Damages // tables that lost rows on disk
	Disks   []DiskState
	Unknown map[string]error
}

// The checks of a server.
const (
	InspectMigrations = "migrations"
	InspectDamage     = "lost parts"
	InspectGrants     = "rights"
	InspectDisks      = "disks"
)

// DiskState is the space on a disk of ClickHouse.
type DiskState struct {
	Name                  string
	FreeBytes, TotalBytes uint64
}

// ReaderGrants are the privileges of a role that only reads the history: the API.
func ReaderGrants(database string) []string {
	return []string{"SHOW, SELECT ON `" + database + "`.*"}
}

// Grants are the privileges of the projector and of the commands that change the history, each as
// after GRANT.
func Grants(database string) []string {
	return []string{
		"SHOW, SELECT, INSERT, ALTER TABLE, CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW, " +
			"TRUNCATE, CHECK ON `" + database + "`.*",
		"SELECT ON system.parts", "SELECT ON system.detached_parts",
		"TABLE ENGINE ON MergeTree", "TABLE ENGINE ON ReplacingMergeTree",
		"TABLE ENGINE ON AggregatingMergeTree",
	}
}

// Inspect returns the state and the error of each server. The error is set if a server doesn't
// respond. The user should have the grants.
func (db *DB) Inspect(
	ctx context.Context, now func() time.Time, grants []string,
) ([]ServerState, []error) {
	return db.ofEach(ctx, now,
		func(db *DB, ctx context.Context, now func() time.Time) (ServerState, error) {
			return db.inspect(ctx, now, grants)
		})
}

// Clocks is like Inspect, but only queries versions and clocks.
func (db *DB) Clocks(ctx context.Context, now func() time.Time) ([]ServerState, []error) {
	return db.ofEach(ctx, now, (*DB).clock)
}

func (db *DB) ofEach(
	ctx context.Context, now func() time.Time,
	ask func(*DB, context.Context, func() time.Time) (ServerState, error),
) (states []ServerState, errs []error) {
	for _, one := range db.Servers() {
		state, err := ask(one, ctx, now)
		states, errs = append(states, state), append(errs, err)
	}
	return states, errs
}

func (db *DB) clock(ctx context.Context, now func() time.Time) (ServerState, error) {
	state := ServerState{Address: db.addr}
	state.Asked[0] = now()
	err := db.QueryRow(ctx, `SELECT version(), now64(3, 'UTC')`, nil, &state.Version, &state.Clock)
	if err != nil {
		return state, fmt.Errorf("projections: asking ClickHouse at %s: %w", db.addr, err)
	}
	state.Asked[1] = now()
	return state, nil
}

func (db *DB) inspect(
	ctx context.Context, now func() time.Time, grants []string,
) (ServerState, error) {
	state, err := db.clock(ctx, now)
	if err != nil {
		return state, err
	}
	state.Unknown = make(map[string]error)
	for what, ask := range map[string]func(context.Context, *ServerState) error{
		InspectMigrations: db.inspectMigrations,
		InspectDamage: func(ctx context.Context, s *ServerState) (err error) {
			s.Damage, err = db.Damage(ctx)
			return err
		},
		InspectGrants: func(ctx context.Context, s *ServerState) error {
			return db.inspectGrants(ctx, s, grants)
		},
		InspectDisks: db.inspectDisks,
	} {
		if err := ask(ctx, &state); err != nil {
			state.Unknown[what] = fmt.Errorf("its %s: %w", what, err)
		}
	}
	return state, nil
}

func (db *DB) inspectMigrations(ctx context.Context, state *ServerState) error {
	applied, err := db.appliedVersions(ctx)
	if err != nil && !IsMissing(err) {
		return err
	}
	known := schemas.ClickHouseMigrations()
	for _, m := range known {
		if _, done := applied[m.Version]; !done {
			state.Pending = append(state.Pending, m.Name)
		}
	}
	for version, name := range applied {
		if int(version) > len(known) {
			state.Newer = append(state.Newer, name)
		}
	}
	return nil
}

func (db *DB) inspectGrants(ctx context.Context, state *ServerState, grants []string) error {
	if err := db.QueryRow(ctx, `SELECT currentUser()`, nil, &state.User); err != nil {
		return err
	}
	for _, grant := range grants {
		privileges, on, _ := strings.Cut(grant, " ON ")
		var denied []string
		for _, privilege := range strings.Split(privileges, ", ") {
			var granted uint8
			err := db.QueryRow(ctx, `CHECK GRANT `+privilege+` ON `+on, nil, &granted)
			if err != nil {
				return err
			}
			if granted == 0 {
				denied = append(denied, privilege)
			}
		}
		if len(denied) > 0 {
			state.Denied = append(state.Denied, strings.Join(denied, ", ")+" ON "+on)
		}
	}
	return nil
}

func (db *DB) inspectDisks(ctx context.Context, state *ServerState) error {
	// Object storage has no limit.
	const disks = `SELECT name, unreserved_space, total_space FROM system.disks
WHERE total_space < 1152921504606846976 ORDER BY name`
	return db.Query(ctx, disks, nil, func(read func(...any) error) error {
		var d DiskState
		err := read(&d.Name, &d.FreeBytes, &d.TotalBytes)
		state.Disks = append(state.Disks, d)
		return err
	})
}
