package connect

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/projections"
)

// RegisterClickHouse adds the flags of what asks or fills the history, which the files of
// `lumenhook serve` set too.
func (s *Service) RegisterClickHouse(f *pflag.FlagSet) {
	s.ClickHouse.Register(f, "clickhouse://user:password@host:9000/lumenhook, "+
		"in place of the data folder's")
	cli.ShareConfig(f)
}

// Database opens the history for who fills it. The caller closes it.
func (s *Service) Database() (*projections.DB, error) {
	dsn, err := s.dsn(func(c *runfile.ClickHouse) runfile.Login { return c.Login })
	if err != nil {
		return nil, err
	}
	return projections.Open(dsn)
}

// ReaderDSN says how the history is reached by who reads only.
func (s *Service) ReaderDSN() (string, error) {
	return s.dsn(func(c *runfile.ClickHouse) runfile.Login { return c.Reader })
}

func (s *Service) dsn(who func(*runfile.ClickHouse) runfile.Login) (string, error) {
	err := errors.Join(s.ClickHouse.Check()...)
	if err != nil || s.ClickHouse.DSN != "" {
		return s.ClickHouse.Address, cli.Usage(err)
	}
	run, err := runfile.Read(s.DataDir)
	if err != nil {
		return "", fmt.Errorf("%w; or name ClickHouse with --clickhouse-dsn", err)
	}
	if run.ClickHouse == nil {
		return "", errors.New("the running service has no ClickHouse of its own, or not yet " +
			"(its terminal says which): name the one it uses with --clickhouse-dsn")
	}
	login := who(run.ClickHouse)
	u := url.URL{
		Scheme: "clickhouse", User: url.UserPassword(login.User, login.Password),
		Host: run.ClickHouse.Native, Path: "/" + run.ClickHouse.Database,
	}
	return u.String(), nil
}
