package config

import (
	"errors"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/projections/writer"
)

// ClickHouse are the flags with which every command connects to ClickHouse: address and login. TLS
// is set in the address. No error repeats what may be a password.
type ClickHouse struct {
	DSN     string // empty: the caller knows another one
	Address string // DSN with the other flags; known once Check has returned

	flags          Flags
	user, password string
}

// Register adds the flags, with the command's own help for the address.
func (s *ClickHouse) Register(f *pflag.FlagSet, dsnUsage string) {
	s.flags.Group(f, "ClickHouse", "",
		Value("clickhouse-dsn", &s.DSN, "", dsnUsage).Hidden(),
		Value("clickhouse-user", &s.user, "",
			"user at ClickHouse, instead of the one in --clickhouse-dsn"),
		Value("clickhouse-password", &s.password, "", "password at ClickHouse, instead of the one in "+
			"--clickhouse-dsn; better given as LUMENHOOK_CLICKHOUSE_PASSWORD").Hidden())
}

// errBadDSN repeats nothing: the DSN may hold a password, and so may the error of the driver that
// parses it.
var errBadDSN = errors.New("--clickhouse-dsn: must be like " +
	"clickhouse://user:password@host:9000/lumenhook, with a database of 1 to 63 letters, " +
	"digits or underscores, files of certificates that can be read, and nothing that another flag " +
	"says too")

// Check returns every fault, and puts the address together.
func (s *ClickHouse) Check() []error {
	if s.DSN == "" {
		if s.user+s.password == "" {
			return nil
		}
		return []error{errors.New("--clickhouse-user and --clickhouse-password need --clickhouse-dsn")}
	}
	address := s.with()
	if writer.CheckDSN(address) != nil {
		return []error{errBadDSN}
	}
	s.Address = address
	return nil
}

// with is the DSN and what the other flags add to it.
func (s *ClickHouse) with() string {
	added := url.Values{}
	for name, value := range map[string]string{"username": s.user, "password": s.password} {
		if value != "" {
			added.Set(name, value)
		}
	}
	switch {
	case len(added) == 0:
		return s.DSN
	case strings.Contains(s.DSN, "?"):
		return s.DSN + "&" + added.Encode()
	}
	return s.DSN + "?" + added.Encode()
}
