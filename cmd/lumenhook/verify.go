package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
)

func newVerify() *cobra.Command {
	var (
		given                secretFlags
		timestamp, signature string
		file                 string
		anyTime              bool
	)
	c := &cobra.Command{
		Use:   "verify --secret-file FILE --timestamp … --signature v1=… [--body FILE]",
		Short: "Check a webhook's signature the way its receiver must",
		Long: `Reads the body exactly as it was received, from a file or standard input, and
checks it against the headers Webhook-Timestamp and Webhook-Signature.

The endpoint's secret stands in a file, one on each line where several are valid, or
in the variable LUMENHOOK_SECRET; --secret-file - reads it from standard input, with
the body in a file then. --secret works too, and is seen by everybody who can list
the processes of this machine.`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if given.file == "-" && file == "-" {
				return cli.Usage(errors.New("--secret-file - and --body - both want standard input: put one of them into a file"))
			}
			keys, err := given.read(cmd.InOrStdin())
			if err != nil {
				return err
			}
			body, err := readInput(cmd.InOrStdin(), file, maxBodyBytes)
			if err != nil {
				return fmt.Errorf("--body %q: %w", file, err)
			}
			if !strings.Contains(signature, "v1=") {
				return fmt.Errorf("--signature %q: holds no v1=…: give the whole value of the header", signature)
			}
			now := time.Now().Unix()
			if anyTime {
				// What is no number is no timestamp either, and refused as such.
				if now, err = strconv.ParseInt(timestamp, 10, 64); err != nil {
					return fmt.Errorf("--timestamp %q: %w", timestamp, domain.ErrTimestampSyntax)
				}
			}
			switch err := domain.Verify(signature, timestamp, body, keys, now); {
			case errors.Is(err, domain.ErrTimestampTooFar):
				return fmt.Errorf("--timestamp %q: %w (--any-time accepts an old one)", timestamp, err)
			case errors.Is(err, domain.ErrTimestampSyntax):
				return fmt.Errorf("--timestamp %q: %w", timestamp, err)
			case err != nil:
				return fmt.Errorf("--signature %q: %w: the secret, the timestamp or the body is another than what was signed", signature, err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "the signature is right")
			return err
		},
	}
	f := c.Flags()
	given.register(f)
	f.StringVar(&timestamp, "timestamp", "", "value of the header Webhook-Timestamp")
	f.StringVar(&signature, "signature", "", "value of the header Webhook-Signature")
	f.StringVar(&file, "body", "-", "file with the raw body; - for standard input")
	f.BoolVar(&anyTime, "any-time", false, "accept an old timestamp")
	cli.RequireOneOf(c, "secret-file", "secret")
	for _, name := range []string{"timestamp", "signature"} {
		_ = c.MarkFlagRequired(name)
	}
	return c
}

// secretFlags say where the secrets of an endpoint are.
type secretFlags struct {
	given []string
	file  string
}

func (s *secretFlags) register(f *pflag.FlagSet) {
	f.StringSliceVar(&s.given, "secret", nil, "signing secret of the endpoint (better given as LUMENHOOK_SECRET or in a file); may be repeated")
	f.StringVar(&s.file, "secret-file", "", "file of the endpoint's signing secrets, one a line; - for standard input")
}

// read names the flag and never its value: it is a secret, or somebody's mistake
// for one.
func (s *secretFlags) read(stdin io.Reader) ([]domain.Secret, error) {
	if s.file != "" {
		secrets, err := readSecretFile(s.file, stdin)
		if err != nil {
			return nil, fmt.Errorf("--secret-file %q: %w", s.file, err)
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

// readSecretFile reads the secrets in a file, one a line.
func readSecretFile(file string, stdin io.Reader) ([]domain.Secret, error) {
	text, err := readInput(stdin, file, maxSecretBytes)
	if err != nil {
		return nil, err
	}
	return parseSecrets(strings.Fields(string(text)))
}

func parseSecrets(given []string) (secrets []domain.Secret, err error) {
	for _, s := range given {
		if !strings.HasPrefix(s, domain.SecretPrefix) || s == domain.SecretPrefix {
			return nil, fmt.Errorf("must be the endpoint's whole secret, which starts with %s", domain.SecretPrefix)
		}
		secrets = append(secrets, domain.Secret(s))
	}
	if len(secrets) == 0 {
		return nil, errors.New("holds no secret")
	}
	return secrets, nil
}

// maxBodyBytes is far above what is ever delivered.
const maxBodyBytes = 16 << 20

// readInput reads a file, or standard input for -, up to a bound.
func readInput(stdin io.Reader, file string, most int64) ([]byte, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		stdin = f
	}
	data, err := io.ReadAll(io.LimitReader(stdin, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("holds more than %d bytes", most)
	}
	return data, err
}
