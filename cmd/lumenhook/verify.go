package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/forward"
)

// verification is `lumenhook verify`.
type verification struct {
	secrets              config.Secrets
	timestamp, signature string
	file                 string
	webhook              string // a file with all three
	anyTime              bool
}

func newVerify() *cobra.Command {
	var v verification
	c := newCommand("verify", func(cmd *cobra.Command, _ []string) error {
		if err := v.run(cmd.InOrStdin()); err != nil {
			return err
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "the signature is valid")
		return err
	})
	f := c.Flags()
	v.secrets.Register(f)
	f.StringVar(&v.timestamp, "timestamp", "", "value of the Webhook-Timestamp header")
	f.StringVar(&v.signature, "signature", "", "value of the Webhook-Signature header")
	f.StringVar(&v.file, "body", "-", "file that contains the raw body; - for standard input")
	f.StringVar(&v.webhook, "webhook", "", "file with a line from \"devnet receiver --json\" or "+
		"\"events pull\", instead of --timestamp, --signature and --body; - for standard input")
	f.BoolVar(&v.anyTime, "any-time", false, "accept an old timestamp")
	cli.RequireOneOf(c, "secret-file", "secret")
	for _, name := range []string{"timestamp", "signature"} {
		cli.RequireOneOf(c, name, "webhook")
	}
	return c
}

func (v *verification) run(stdin io.Reader) error {
	from, file := "--body", v.file
	if v.webhook != "" {
		from, file = "--webhook", v.webhook
		if v.timestamp+v.signature != "" || v.file != "-" {
			return cli.Usage(errors.New("--webhook holds the timestamp, the signature and the " +
				"body: leave --timestamp, --signature and --body out"))
		}
	}
	if v.secrets.File == "-" && file == "-" {
		return cli.Usage(fmt.Errorf("--secret-file - and %s - both want standard input: "+
			"put one of them into a file", from))
	}
	keys, err := v.secrets.Read(stdin)
	if err != nil {
		return err
	}
	body, err := cli.ReadInput(stdin, file, maxBodyBytes)
	if err == nil && v.webhook != "" {
		body, err = v.take(body)
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", from, file, err)
	}
	return v.check(body, keys)
}

// take takes everything from a line of the receiver for development.
func (v *verification) take(text []byte) (body []byte, err error) {
	r, err := forward.ReadReceived(text)
	v.timestamp, v.signature = r.Timestamp, r.Signature
	return r.RawBody(), err
}

// check holds a body against the headers. Its errors name the flags.
func (v *verification) check(body []byte, keys []domain.Secret) (err error) {
	if !strings.Contains(v.signature, "v1=") {
		return fmt.Errorf("--signature %q: holds no v1=…: "+
			"give the whole value of the header", v.signature)
	}
	now := time.Now().Unix()
	if v.anyTime {
		// What is no number is no timestamp either, and refused as such.
		if now, err = strconv.ParseInt(v.timestamp, 10, 64); err != nil {
			return fmt.Errorf("--timestamp %q: %w", v.timestamp, domain.ErrTimestampSyntax)
		}
	}
	switch err := domain.Verify(v.signature, v.timestamp, body, keys, now); {
	case errors.Is(err, domain.ErrTimestampTooFar):
		return fmt.Errorf("--timestamp %q: %w (--any-time accepts an old one)", v.timestamp, err)
	case errors.Is(err, domain.ErrTimestampSyntax):
		return fmt.Errorf("--timestamp %q: %w", v.timestamp, err)
	case err != nil:
		return fmt.Errorf("--signature %q: %w: the secret, the timestamp or the body "+
			"is another than what was signed", v.signature, err)
	}
	return nil
}

// maxBodyBytes is far above what is ever delivered.
const maxBodyBytes = 16 << 20
