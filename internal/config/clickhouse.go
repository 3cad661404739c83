package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/projections"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// ClickHouse are the flags with which every command connects to ClickHouse: address, login and
// TLS. No error repeats what may be a password.
type ClickHouse struct {
	DSN     string // empty: the caller knows another one
	Address string // DSN with the other flags; known once Check has returned

	flags                        Flags
	user, password, passwordFile string
	tls                          kafka.TLS
}

// Register adds the flags, with the command's own help for the address.
func (s *ClickHouse) Register(f *pflag.FlagSet, dsnUsage string) {
	s.flags.Group(f, "ClickHouse", "",
		Value("clickhouse-dsn", &s.DSN, "", dsnUsage).Hidden(),
		Value("clickhouse-user", &s.user, "",
			"user at ClickHouse, instead of the one in --clickhouse-dsn"),
		Value("clickhouse-password", &s.password, "", "password at ClickHouse, instead of the one in "+
			"--clickhouse-dsn; better given as LUMENHOOK_CLICKHOUSE_PASSWORD or in a file").Hidden(),
		Value("clickhouse-password-file", &s.passwordFile, "",
			"file of the password at ClickHouse; read at the start"),
		Value("clickhouse-tls", &s.tls.Enabled, false,
			"speak TLS with ClickHouse; --clickhouse-ca-file and --clickhouse-cert-file imply it"),
		Value("clickhouse-ca-file", &s.tls.CAFile, "", "PEM file of the authorities that "+
			"sign ClickHouse's certificate (default the system's)"),
		Value("clickhouse-cert-file", &s.tls.CertFile, "",
			"PEM file of the client's certificate, for mutual TLS with ClickHouse"),
		Value("clickhouse-key-file", &s.tls.KeyFile, "", "PEM file of the key of --clickhouse-cert-file"))
}

// errBadDSN repeats nothing: the DSN may hold a password, and so may the error of the driver that
// parses it.
var errBadDSN = errors.New("--clickhouse-dsn: must be like " +
	"clickhouse://user:password@host:9000/lumenhook, with a database of 1 to 63 letters, " +
	"digits or underscores, and say nothing that another flag says too")

// Check returns every fault, and puts the address together.
func (s *ClickHouse) Check() []error {
	if s.DSN == "" {
		if s.user+s.password+s.passwordFile == "" && s.tls == (kafka.TLS{}) {
			return nil
		}
		return []error{errors.New("--clickhouse-user, --clickhouse-password, " +
			"--clickhouse-tls and their files need --clickhouse-dsn")}
	}
	files := s.tls
	files.Enabled = true
	if err := files.Check(); err != nil {
		return []error{fmt.Errorf("--clickhouse-ca-file, --clickhouse-cert-file, "+
			"--clickhouse-key-file: %w", err)}
	}
	password := s.password
	if s.passwordFile != "" {
		if password != "" {
			return []error{errors.New("--clickhouse-password and --clickhouse-password-file: " +
				"give one of them")}
		}
		var err error
		if password, err = readPassword(s.passwordFile); err != nil {
			return []error{fmt.Errorf("--clickhouse-password-file %q: %w", s.passwordFile, err)}
		}
	}
	address := s.with(password)
	if projections.CheckDSN(address) != nil {
		return []error{errBadDSN}
	}
	s.Address = address
	return nil
}

// with is the DSN and what the other flags add to it.
func (s *ClickHouse) with(password string) string {
	added := url.Values{}
	for name, value := range map[string]string{
		"username": s.user, "password": password,
		projections.DSNCAFile:   s.tls.CAFile,
		projections.DSNCertFile: s.tls.CertFile,
		projections.DSNKeyFile:  s.tls.KeyFile,
	} {
		if value != "" {
			added.Set(name, value)
		}
	}
	if s.tls != (kafka.TLS{}) {
		added.Set("secure", "true")
	}
	switch {
	case len(added) == 0:
		return s.DSN
	case strings.Contains(s.DSN, "?"):
		return s.DSN + "&" + added.Encode()
	}
	return s.DSN + "?" + added.Encode()
}
