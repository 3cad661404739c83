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

func newFixtures() *cobra.Command {
	c := &cobra.Command{
		Use:   "fixtures",
		Short: "Record real deliveries and replay them in your receiver's tests",
	}
	c.AddCommand(newFixturesRecord(), newFixturesReplay(), newFixturesSchema())
	c.Example = examplesOf(c, "record", "replay")
	return c
}

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
	c := &cobra.Command{
		Use:   "record --endpoint ENDPOINT_ID --to FOLDER",
		Short: "Save an endpoint's latest events as test fixtures",
		Long: `Write a JSON file for each of an endpoint's latest events that match the filters.
Each file contains the raw body, the headers and the secret to verify them with. The
secret only works for fixtures and is never the endpoint's own. The signature is
based on the time when the event was created. You can commit the files to a
repository, because they verify as long as your test sets its clock to the fixture's
"now". The same event always produces the same file.

Use --redact to replace wallets, memos, hashes, labels and ids with values in the
same format. The same value always gets the same replacement. Receivers treat a
redacted fixture as a different event.`,
		Example: `  # Record the last 20 events for a receiver's tests
  lumenhook fixtures record --endpoint ep_… --to testdata/webhooks --redact

  # Record the last five events of the past day
  lumenhook fixtures record --endpoint ep_… --since 24h --last 5 --to testdata/webhooks`,
		RunE: r.run,
	}
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
	c := &cobra.Command{
		Use:   "replay --from FOLDER --to URL",
		Short: "Post recorded deliveries to a receiver with new signatures",
		Long: `Post the fixtures in a folder to a receiver, sorted by file name. Each one is signed
with the current time, using the fixture secret or your own. You don't need a running
service. The exit code is 0 if the receiver accepts every fixture, and 1 otherwise.`,
		Example: `  # Replay fixtures to a receiver you're developing
  lumenhook fixtures replay --from testdata/webhooks --to http://127.0.0.1:3000/webhooks \
    --secret-file hook.secret`,
		RunE: r.run,
	}
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
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema for fixture files",
		Example: `  # Save the schema to validate fixtures in an editor or a test
  lumenhook fixtures schema > fixture.schema.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(forward.Schema)
			return err
		},
	}
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
	c := &cobra.Command{
		Use: "verify --secret-file FILE {--webhook FILE | --timestamp … --signature v1=… " +
			"[--body FILE]}",
		Short: "Verify a webhook's signature the way a receiver should",
		Long: `Read a webhook's raw body from a file or standard input, and verify it against the
Webhook-Timestamp and Webhook-Signature headers. The body must be exactly as it was
received.

Provide the endpoint's secret in a file or in the LUMENHOOK_SECRET environment
variable. If there are several valid secrets, put each one on its own line. With
--secret-file -, the command reads the secret from standard input, so the body must
be in a file. Avoid --secret, because anyone who can list the processes on this
machine can see its value.

Instead of --timestamp, --signature and --body, you can use --webhook. It accepts a
line of JSON from "devnet receiver --json" or "events pull", or a file from "fixtures
record". Fixtures are signed with the secret in the file and a time in the past, so
to verify one, provide that secret and --any-time.`,
		Example: `  # Verify the last webhook saved from "devnet receiver --json"
  tail -n 1 hooks.jsonl | lumenhook verify --secret-file hook.secret --webhook -

  # Verify a webhook from a log, using its two headers and raw body
  lumenhook verify --secret-file hook.secret --timestamp 1793620801 \
    --signature v1=c80045e0917a30… --body body.json --any-time`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := v.run(cmd.InOrStdin()); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "the signature is right")
			return err
		},
	}
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
