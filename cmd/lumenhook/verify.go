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

	"github.com/lumenhook/lumenhook/domain"
)

func newVerify() *cobra.Command {
	var (
		secrets              []string
		timestamp, signature string
		file                 string
		anyTime              bool
	)
	c := &cobra.Command{
		Use:   "verify --secret whsec_… --timestamp … --signature v1=… [--body FILE]",
		Short: "Check a webhook's signature the way its receiver must",
		Long: `Reads the body exactly as it was received, from a file or standard input, and
checks it against the headers Webhook-Timestamp and Webhook-Signature.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			keys, err := readSecrets(secrets)
			if err != nil {
				return err
			}
			body, err := readBody(cmd.InOrStdin(), file)
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
	f.StringSliceVar(&secrets, "secret", nil, "signing secret of the endpoint; may be repeated")
	f.StringVar(&timestamp, "timestamp", "", "value of the header Webhook-Timestamp")
	f.StringVar(&signature, "signature", "", "value of the header Webhook-Signature")
	f.StringVar(&file, "body", "-", "file with the raw body; - for standard input")
	f.BoolVar(&anyTime, "any-time", false, "accept an old timestamp")
	for _, name := range []string{"secret", "timestamp", "signature"} {
		_ = c.MarkFlagRequired(name)
	}
	return c
}

// readSecrets names the flag and never its value: it is a secret, or somebody's
// mistake for one.
func readSecrets(given []string) (secrets []domain.Secret, err error) {
	if len(given) == 0 {
		return nil, errors.New("--secret: must be given: the endpoint's whole secret")
	}
	for _, s := range given {
		if !strings.HasPrefix(s, domain.SecretPrefix) || s == domain.SecretPrefix {
			return nil, fmt.Errorf("--secret: must be the endpoint's whole secret, which starts with %s", domain.SecretPrefix)
		}
		secrets = append(secrets, domain.Secret(s))
	}
	return secrets, nil
}

// maxBodyBytes is far above what is ever delivered.
const maxBodyBytes = 16 << 20

func readBody(stdin io.Reader, file string) ([]byte, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		stdin = f
	}
	body, err := io.ReadAll(io.LimitReader(stdin, maxBodyBytes+1))
	if err == nil && len(body) > maxBodyBytes {
		err = fmt.Errorf("holds more than %d bytes, which no webhook has", maxBodyBytes)
	}
	return body, err
}
