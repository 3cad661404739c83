package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/connect"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/projections"
	"github.com/lumenhook/lumenhook/streams"
)

// target is where the subcommands that read topics and history find them: in the
// data folder of a running service, unless flags name them.
type target struct {
	connect.Service
	clickhouse clickhouseSettings
}

func (t *target) registerClickHouse(f *pflag.FlagSet) {
	t.clickhouse.register(f, "clickhouse://user:password@host:9000/lumenhook, in place of the data folder's")
}

// cluster says how Kafka is reached, for commands that say what goes wrong meanwhile.
func (t *target) cluster() (streams.Cluster, error) {
	return t.Cluster(slog.New(slog.NewTextHandler(os.Stderr, nil)))
}

// dsn says how ClickHouse is reached by who fills the history.
func (t *target) dsn() (string, error) {
	return t.dsnOf(func(c *runfile.ClickHouse) runfile.Login { return c.Login })
}

// readerDSN says how it is reached by who reads only.
func (t *target) readerDSN() (string, error) {
	return t.dsnOf(func(c *runfile.ClickHouse) runfile.Login { return c.Reader })
}

func (t *target) dsnOf(who func(*runfile.ClickHouse) runfile.Login) (string, error) {
	if err := errors.Join(t.clickhouse.check()...); err != nil || t.clickhouse.dsn != "" {
		return t.clickhouse.address, cli.Usage(err)
	}
	run, err := runfile.Read(t.DataDir)
	if err != nil {
		return "", fmt.Errorf("%w; or name ClickHouse with --clickhouse-dsn", err)
	}
	if run.ClickHouse == nil {
		return "", errors.New("the running service has no ClickHouse of its own, or not yet (its terminal says which): name the one it uses with --clickhouse-dsn")
	}
	login := who(run.ClickHouse)
	u := url.URL{Scheme: "clickhouse", User: url.UserPassword(login.User, login.Password), Host: run.ClickHouse.Native, Path: "/" + run.ClickHouse.Database}
	return u.String(), nil
}

func (t *target) database() (*projections.DB, error) {
	dsn, err := t.dsn()
	if err != nil {
		return nil, err
	}
	return projections.Open(dsn)
}
