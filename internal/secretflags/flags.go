// Package secretflags is the flags by which a command is given an endpoint's signing
// secrets, for every command that checks signatures.
//
// It hides the form of a file of secrets. A value that was given is never repeated.
package secretflags

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// Flags are what was given.
type Flags struct {
	given []string
	File  string // empty: none; -: standard input
}

const fileUsage = "file of the endpoint's signing secrets, one a line; - for standard input"

// Register adds the flags.
func (s *Flags) Register(f *pflag.FlagSet) {
	f.StringSliceVar(&s.given, "secret", nil, "signing secret of the endpoint "+
		"(better given as LUMENHOOK_SECRET or in a file); may be repeated")
	f.StringVar(&s.File, "secret-file", "", fileUsage)
}

// Given reports whether a secret, or a file of some, was given.
func (s *Flags) Given() bool { return s.File != "" || len(s.given) > 0 }

// Read returns the secrets. Its errors name the flag and never its value: it is a secret,
// or somebody's mistake for one.
func (s *Flags) Read(stdin io.Reader) ([]domain.Secret, error) {
	if !s.Given() {
		return nil, fmt.Errorf("--secret-file must be given: the %s; or give the "+
			"secret as LUMENHOOK_SECRET", fileUsage)
	}
	if s.File != "" {
		secrets, err := ReadFile(s.File, stdin)
		if err != nil {
			return nil, fmt.Errorf("--secret-file %q: %w", s.File, err)
		}
		return secrets, nil
	}
	secrets, err := parseSecrets(s.given)
	if err != nil {
		return nil, fmt.Errorf("--secret: %w", err)
	}
	return secrets, nil
}

// maxSecretBytes bounds a file of secrets; an endpoint has 25 of 58 bytes at most.
const maxSecretBytes = 64 << 10

// ReadFile reads the secrets in a file, one a line.
func ReadFile(file string, stdin io.Reader) ([]domain.Secret, error) {
	text, err := cli.ReadInput(stdin, file, maxSecretBytes)
	if err != nil {
		return nil, err
	}
	return parseSecrets(strings.Fields(string(text)))
}

func parseSecrets(given []string) (secrets []domain.Secret, err error) {
	for _, s := range given {
		if !strings.HasPrefix(s, domain.SecretPrefix) || s == domain.SecretPrefix {
			return nil, fmt.Errorf("must be the endpoint's whole secret, which starts with %s",
				domain.SecretPrefix)
		}
		secrets = append(secrets, domain.Secret(s))
	}
	if len(secrets) == 0 {
		return nil, errors.New("holds no secret")
	}
	return secrets, nil
}
