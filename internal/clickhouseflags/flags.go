// Package clickhouseflags is the flags by which every command reaches a ClickHouse, in one
// place: address, login and TLS. Each has its variable LUMENHOOK_….
//
// It hides how they are held against each other and put into one DSN. No error repeats
// what may be a password.
package clickhouseflags

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/projections"
	"github.com/lumenhook/lumenhook/streams"
)

// Flags are what was given. Address is known once Check has returned.
type Flags struct {
	DSN     string // empty: the caller knows another one
	Address string // DSN with all that the others say

	user                   string
	password, passwordFile string
	tls                    bool
	files                  streams.TLS
}

// Register adds the flags, with what an address is to the command.
func (s *Flags) Register(f *pflag.FlagSet, dsnUsage string) {
	cli.Group(f, "ClickHouse", func(f *pflag.FlagSet) {
		f.StringVar(&s.DSN, "clickhouse-dsn", "", dsnUsage)
		s.registerRest(f)
	})
}

func (s *Flags) registerRest(f *pflag.FlagSet) {
	f.StringVar(&s.user, "clickhouse-user", "",
		"user at ClickHouse, instead of the one in --clickhouse-dsn")
	f.StringVar(&s.password, "clickhouse-password", "", "password at ClickHouse, instead of "+
		"the one in --clickhouse-dsn; better given as LUMENHOOK_CLICKHOUSE_PASSWORD or in a file")
	f.StringVar(&s.passwordFile, "clickhouse-password-file", "",
		"file of the password at ClickHouse; read at the start")
	f.BoolVar(&s.tls, "clickhouse-tls", false,
		"speak TLS with ClickHouse; --clickhouse-ca-file and --clickhouse-cert-file imply it")
	f.StringVar(&s.files.CAFile, "clickhouse-ca-file", "", "PEM file of the authorities that "+
		"sign ClickHouse's certificate (default the system's)")
	f.StringVar(&s.files.CertFile, "clickhouse-cert-file", "",
		"PEM file of the client's certificate, for mutual TLS with ClickHouse")
	f.StringVar(&s.files.KeyFile, "clickhouse-key-file", "",
		"PEM file of the key of --clickhouse-cert-file")
	cli.Secret(f, "clickhouse-dsn", "clickhouse-password")
}

// errBadDSN repeats nothing: the DSN may hold a password, and so may the error of
// whoever reads it.
var errBadDSN = errors.New("--clickhouse-dsn: must be like " +
	"clickhouse://user:password@host:9000/lumenhook, with a database of 1 to 63 letters, " +
	"digits or underscores, and say nothing that another flag says too")

// Check returns every fault, and puts the address together.
func (s *Flags) Check() (faults []error) {
	given := *s
	given.DSN, given.Address = "", ""
	if s.DSN == "" {
		if given != (Flags{}) {
			faults = append(faults, errors.New("--clickhouse-user, --clickhouse-password, "+
				" --clickhouse-tls and their files need --clickhouse-dsn"))
		}
		return faults
	}
	files := s.files
	files.Enabled = true
	if err := files.Check(); err != nil {
		return []error{fmt.Errorf("--clickhouse-ca-file, --clickhouse-cert-file, "+
			"--clickhouse-key-file: %w", err)}
	}
	password, err := s.readPassword()
	if err != nil {
		return []error{err}
	}
	address := s.with(password)
	if projections.CheckDSN(address) != nil {
		return []error{errBadDSN}
	}
	s.Address = address
	return nil
}

func (s *Flags) readPassword() (string, error) {
	if s.passwordFile == "" {
		return s.password, nil
	}
	if s.password != "" {
		return "", errors.New("--clickhouse-password and --clickhouse-password-file: " +
			"give one of them")
	}
	data, err := os.ReadFile(s.passwordFile)
	password := strings.TrimRight(string(data), "\r\n")
	if err == nil && password == "" {
		err = errors.New("holds no password")
	}
	if err != nil {
		return "", fmt.Errorf("--clickhouse-password-file %q: %w", s.passwordFile, err)
	}
	return password, nil
}

// with is the DSN and what the other flags add to it.
func (s *Flags) with(password string) string {
	added := url.Values{}
	for name, value := range map[string]string{
		"username": s.user, "password": password,
		projections.DSNCAFile:   s.files.CAFile,
		projections.DSNCertFile: s.files.CertFile,
		projections.DSNKeyFile:  s.files.KeyFile,
	} {
		if value != "" {
			added.Set(name, value)
		}
	}
	if s.tls || s.files != (streams.TLS{}) {
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
