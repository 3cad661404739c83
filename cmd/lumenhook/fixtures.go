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

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/forward"
)

// fixturesRecord is `lumenhook fixtures record`.
type fixturesRecord struct {
	apiFlags
	filter client.EventFilter
	dir    string
	last   int
	redact bool
}

func newFixturesRecord() *cobra.Command {
	var r fixturesRecord
	c := newCommand("fixtures record", r.run)
	r.register(c)
	r.Changes(c)
	f := c.Flags()
	cli.AddFields(f, &r.filter)
	f.StringVar(&r.dir, "to", "", "folder to write the files to; created if it doesn't exist")
	f.IntVar(&r.last, "last", 20, "number of events to record, 1 to 1000")
	f.BoolVar(&r.redact, "redact", false, "replace data that identifies users and their payments")
	cli.Require(c, "to")
	return c
}

func (r *fixturesRecord) run(cmd *cobra.Command, _ []string) error {
	switch {
	case r.last < 1 || r.last > 1000:
		return cli.Usage(fmt.Errorf("--last %d: must be from 1 to 1000", r.last))
	case r.dir == "":
		return cli.Usage(errors.New(`--to "": must name a folder`))
	}
	if info, err := os.Stat(r.dir); err == nil && !info.IsDir() {
		return cli.Usage(fmt.Errorf("--to %q: is a file: name a folder", r.dir))
	}
	c, err := r.API()
	if err != nil {
		return err
	}
	endpoint, err := theEndpoint(cmd.Context(), c, r.filter.EndpointID)
	if err != nil {
		return err
	}
	r.filter.EndpointID = endpoint.ID
	recorder := forward.Recorder{
		Client: c,
		Filter: r.filter,
		Last:   r.last,
		Dir:    r.dir,
		Redact: r.redact,
		Tell:   cmd.ErrOrStderr(),
	}
	paths, err := recorder.Run(cmd.Context())
	if err != nil {
		return err
	}
	return r.Print(cmd.OutOrStdout(), listOf("files", paths), func(w io.Writer) {
		for _, path := range paths {
			cli.Row(w, path)
		}
	})
}

// fixturesReplay is `lumenhook fixtures replay`.
type fixturesReplay struct {
	cli.Output
	secrets  config.Secrets
	dir, url string
}

func newFixturesReplay() *cobra.Command {
	var r fixturesReplay
	c := newCommand("fixtures replay", r.run)
	f := c.Flags()
	r.Output.Register(f)
	r.secrets.Register(f)
	f.StringVar(&r.dir, "from", "", "folder that contains the fixtures")
	f.StringVar(&r.url, "to", "", "URL of the receiver")
	cli.Require(c, "from", "to")
	return c
}

func (r *fixturesReplay) run(cmd *cobra.Command, _ []string) error {
	if err := forward.CheckURL(r.url); err != nil {
		return cli.Usage(fmt.Errorf("--to %w", err))
	}
	if r.Field != "" {
		return cli.Usage(errors.New("--field: posts are shown as whole lines: leave it out"))
	}
	var secrets []domain.Secret
	if r.secrets.Given() {
		var err error
		if secrets, err = r.secrets.Read(cmd.InOrStdin()); err != nil {
			return cli.Usage(err)
		}
	}
	all, err := forward.ReadAll(r.dir)
	if err != nil {
		return fmt.Errorf("--from %q: %w", r.dir, err)
	}
	report := &forward.Report{
		Out:  cmd.OutOrStdout(),
		Tell: cmd.ErrOrStderr(),
		JSON: r.JSON,
		Now:  time.Now,
	}
	forwarder := forward.New(r.url, report)
	forwarder.AtOnce = true
	for _, one := range all {
		event, err := one.Signed(secrets, time.Now())
		if err == nil {
			err = forwarder.Handle(cmd.Context(), event)
		}
		if err != nil {
			return err
		}
	}
	if fault := report.Fault(); fault != nil && secrets == nil {
		return fmt.Errorf("%w; they are signed with the secret of fixtures: if it expects another, name "+
			"yours with --secret-file", fault)
	}
	return report.Fault()
}

func newFixturesSchema() *cobra.Command {
	return newCommand("fixtures schema", func(cmd *cobra.Command, _ []string) error {
		_, err := cmd.OutOrStdout().Write(forward.Schema)
		return err
	})
}

// verification is `lumenhook verify`.
type verification struct {
	secrets              config.Secrets
	timestamp, signature string
	file                 string
	webhook              string // a file with all three
	anyTime              bool
	recorded             bool // the webhook is a fixture
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
		"\"events pull\", or a file from \"fixtures record\", instead of --timestamp, --signature "+
		"and --body; - for standard input")
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

// take takes everything from a line of the receiver for development, or from a fixture.
func (v *verification) take(text []byte) (body []byte, err error) {
	if v.recorded = forward.Is(text); v.recorded {
		f, err := forward.Decode(text)
		v.timestamp, v.signature = f.Headers["Webhook-Timestamp"], f.Headers["Webhook-Signature"]
		return f.Body, err
	}
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
	case err != nil && v.recorded:
		return fmt.Errorf("--signature %q: %w: a recorded file is signed with the secret that "+
			"stands in it: that is another, or the file was changed", v.signature, err)
	case err != nil:
		return fmt.Errorf("--signature %q: %w: the secret, the timestamp or the body "+
			"is another than what was signed", v.signature, err)
	}
	return nil
}

// maxBodyBytes is far above what is ever delivered.
const maxBodyBytes = 16 << 20
