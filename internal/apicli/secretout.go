package apicli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// SecretOut is the flag that keeps a new secret off the terminal.
type SecretOut struct{ file string }

// Register adds the flag.
func (s *SecretOut) Register(f *pflag.FlagSet) {
	f.StringVar(&s.file, "secret-out", "", "file that the secret is added to, as a line, "+
		"instead of being shown; made readable by its owner alone")
}

// Check refuses to print the member that is kept off the terminal: the answer lacks it.
func (s *SecretOut) Check(field string) error {
	if s.file != "" && field == "secret" {
		return errors.New("--field and --secret-out: the secret is in the file alone: leave one of " +
			"them out")
	}
	return nil
}

// Show prints an endpoint, and where its secret is.
func (s *SecretOut) Show(w io.Writer, e client.Endpoint) {
	ShowEndpoint(w, e)
	if s.file != "" {
		cli.Row(w, "secret", "added to "+s.file)
	}
}

// ShowRotated is Show of an endpoint whose former secret goes on signing for a while.
func (s *SecretOut) ShowRotated(w io.Writer, e client.Endpoint) {
	s.Show(w, e)
	_, _ = io.WriteString(w, "\nFor 24 hours the former secret signs beside it: "+
		"put this one into the receiver by then.\n")
}

// Keep requests an endpoint with a new secret. The file is opened before: a secret is
// returned only once, and must not be lost.
func (s *SecretOut) Keep(ask func() (client.Endpoint, error)) (client.Endpoint, error) {
	if s.file == "" {
		return ask()
	}
	f, err := os.OpenFile(s.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return client.Endpoint{}, fmt.Errorf("--secret-out: %w", err)
	}
	e, err := ask()
	if err != nil {
		return e, errors.Join(err, f.Close())
	}
	_, err = fmt.Fprintln(f, e.Secret)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return e, fmt.Errorf("--secret-out: the secret of %s could not be kept, rotate it: %w",
			e.ID, err)
	}
	e.Secret = ""
	return e, nil
}
