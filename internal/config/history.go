package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// catchUpMax bounds the wait for a history that is behind; normally that is less than a
// second.
const catchUpMax = 2 * time.Second

// RegisterClickHouse adds the flags of commands that query or fill the history, which the
// files of `lumenhook serve` set too.
func (s *Service) RegisterClickHouse(f *pflag.FlagSet) {
	s.ClickHouse.Register(f, "clickhouse://user:password@host:9000/lumenhook, "+
		"in place of the data folder's")
	cli.ShareConfig(f)
}

// Database opens the history for writing. The caller closes it.
func (s *Service) Database() (*writer.DB, error) {
	dsn, err := s.dsn(func(c *runfile.ClickHouse) runfile.Login { return c.Login })
	if err != nil {
		return nil, err
	}
	return writer.Open(dsn)
}

// ReaderDSN returns the DSN for reading the history only.
func (s *Service) ReaderDSN() (string, error) {
	return s.dsn(func(c *runfile.ClickHouse) runfile.Login { return c.Reader })
}

// AwaitHistory waits, for a moment, for the history to hold what its topics hold now, and
// returns how many records are missing then. If flags name ClickHouse and no brokers, that
// is unknown, and it returns 0.
func (s *Service) AwaitHistory(ctx context.Context, dsn string) (missing int64, err error) {
	if s.ClickHouse.DSN != "" && len(s.Kafka.Brokers) == 0 {
		return 0, nil // the data folder's brokers belong to another history
	}
	cluster, err := s.addressedCluster(slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, err
	}
	return missingRecords(ctx, dsn, cluster)
}

func missingRecords(ctx context.Context, dsn string, of kafka.Cluster) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, catchUpMax)
	defer cancel()
	db, err := writer.Open(dsn)
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	lag, err := writer.NewLag(db, of)
	if err != nil {
		return 0, err
	}
	defer lag.Close()
	missing, err := lag.CatchUp(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("the brokers %s did not answer within %s",
			strings.Join(of.Brokers, ", "), catchUpMax)
	}
	return missing, err
}

func (s *Service) dsn(who func(*runfile.ClickHouse) runfile.Login) (string, error) {
	err := errors.Join(s.ClickHouse.Check()...)
	if err != nil || s.ClickHouse.DSN != "" {
		return s.ClickHouse.Address, cli.Usage(err)
	}
	run, err := s.Run("name ClickHouse with --clickhouse-dsn")
	if err != nil {
		return "", err
	}
	if run.ClickHouse == nil {
		return "", errors.New("the running service has no ClickHouse of its own, or not yet " +
			"(its terminal says which): name the one it uses with --clickhouse-dsn")
	}
	return run.ClickHouse.DSN(who(run.ClickHouse)), nil
}
