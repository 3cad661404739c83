package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/receipt"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
)

func newEvents() *cobra.Command {
	var a apiFlags
	c := &cobra.Command{Use: "events", Short: "Look at events and send them again"}
	a.register(c)
	c.AddCommand(
		newEventsList(&a),
		newEventsPull(&a),
		newEventsTail(&a),
		getting(&a, apicli.Events, "Show an event and every attempt to deliver it",
			`  # Why did it not arrive? Each attempt, with what the receiver answered
  lumenhook events get evt_…`),
		newEventsHistory(&a),
		newEventsResend(&a),
		newEventsReceipt(&a),
	)
	c.Example = examplesOf(c, "list", "get")
	return c
}

// anEventOrFilters accepts an event or, where filters are given, none.
func anEventOrFilters(c *cobra.Command, args []string, filtered bool) error {
	switch {
	case filtered && len(args) == 0:
		return nil
	case filtered:
		return errors.New("events resend takes an EVENT_ID or filters, and got both")
	case len(args) == 0:
		return errors.New("events resend needs an EVENT_ID, or a filter such as --since 24h")
	}
	return cli.OneArgument(c, args)
}

func newEventsResend(a *apiFlags) *cobra.Command {
	var f client.ResendMany
	given := pflag.NewFlagSet("", pflag.ContinueOnError)
	cli.AddFields(given, &f)
	filtered := func() (any bool) {
		given.VisitAll(func(flag *pflag.Flag) { any = any || flag.Changed })
		return any
	}
	c := changing(a, "resend [EVENT_ID]", "Queue events again, delivered or not",
		func(ctx context.Context, c *client.Client, args []string) (any, error) {
			if len(args) == 1 {
				return c.ResendEvent(ctx, args[0])
			}
			return c.ResendEvents(ctx, f)
		}, apicli.ShowAnyResent)
	c.Args = func(c *cobra.Command, args []string) error {
		return anEventOrFilters(c, args, filtered())
	}
	c.Long = `Queues an event again, delivered or not. With filters it queues up to 1,000 events that
match all of them, newest first. If its endpoint was deleted, an event goes to the present
endpoint of its watch. --dry-run reports how many events match, and queues none.`
	c.Example = `  # One event, which the shop has lost
  lumenhook events resend evt_…

  # How many would a day of an endpoint be?
  lumenhook events resend --endpoint ep_… --since 24h --dry-run

  # The events of one transaction
  lumenhook events resend --tx 3f…`
	c.Flags().AddFlagSet(given)
	return c
}

func newEventsList(a *apiFlags) *cobra.Command {
	var c *cobra.Command
	events := apicli.Events
	events.ShowAll = func(w io.Writer, list client.List[client.Event]) {
		apicli.Events.ShowAll(w, list)
		if len(list.Data) > 0 {
			return
		}
		tx := cmp.Or(c.Flag("tx").Value.String(), "TX")
		fmt.Fprintf(w, "no event matches\nlumenhook explain %s says why a payment has none\n", tx)
	}
	c = listing(a, events, "List events, newest first")
	c.Example = `  # Events that wait for another attempt
  lumenhook events list --state WAITING

  # What a wallet was paid since yesterday, of 10 XLM or more
  lumenhook events list --wallet G… --since 24h --asset XLM --min-amount 10

  # The event of an order, for a script
  lumenhook events list --memo order-42 --limit 1 --field data.0.id`
	return c
}

func newEventsTail(a *apiFlags) *cobra.Command {
	var f client.EventFilter
	c := &cobra.Command{
		Use:   "tail",
		Short: "Show events and the attempts to deliver them as they happen, until Ctrl-C",
		Long: `Shows a line when an event is created, and one for each attempt to deliver it: the
receiver's answer, the event's state, and the time of the next attempt. It shows events of
all endpoints of the account that match every filter. With --json each line is JSON.

It starts now, with the pending events, or --since a time. After the service or your machine was
away, it shows what happened in the meantime. If more than 10,000 events arrive at once, it leaves
out the oldest, and says so. It follows 20,000 events until they are settled, and reports how many
it stops following. If more than 200 events change within a second, their attempts appear some
seconds later. It does not show attempts of an event that is sent again long after its delivery:
use "lumenhook events get".`,
		Example: `  # Watch what is delivered while a shop is tried
  lumenhook events tail

  # What has failed for good at one endpoint
  lumenhook events tail --endpoint ep_… --state FAILED

  # What has happened in ten minutes, for a program
  lumenhook events tail --since 10m --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Since.IsZero() {
				f.Since = time.Now()
			}
			if err := cli.CheckPast("since", f.Since); err != nil {
				return err
			}
			if a.Field != "" {
				return cli.Usage(errors.New("--field: events are shown as whole lines: leave it out"))
			}
			c, err := a.API()
			if err != nil {
				return err
			}
			tail := apicli.Tail{
				Client: c,
				Filter: f,
				Out:    cmd.OutOrStdout(),
				Tell:   cmd.ErrOrStderr(),
				JSON:   a.JSON,
				Bounds: apicli.DefaultTailBounds(),
			}
			return tail.Run(cmd.Context())
		},
	}
	cli.AddFields(c.Flags(), &f, "until")
	c.Flags().Lookup("since").Usage = "begin with what has happened since: a time, or how long ago; " +
		"empty: now"
	c.Flags().Lookup("state").Usage = "only lines after which an event is QUEUED, WAITING, " +
		"DELIVERED, FAILED or CANCELLED"
	return c
}

// eventsPull is `lumenhook events pull`.
type eventsPull struct {
	*apiFlags
	endpointID, file string
	after            int64
	follow           bool
}

func newEventsPull(a *apiFlags) *cobra.Command {
	p := eventsPull{apiFlags: a}
	c := &cobra.Command{
		Use:   "pull --endpoint ENDPOINT_ID [--to FILE | --after N] [--follow]",
		Short: "Pull an endpoint's events in the order of their numbers",
		Long: `Prints the events of an endpoint, delivered or not, one per line of JSON. Each line has
the event's number and a new signature, which "lumenhook verify --webhook" checks. Events
come in the order of their numbers (Webhook-Sequence), each once, and none is skipped. It
reports events that retention has removed.

With --to it appends the lines to a file. Called again, it continues after the file's last
line, so that each event is in it once, even after a kill. Without a file, --after is the
number of the last event that you have.

--follow waits for more until you interrupt it, and continues after an outage of the
service.`,
		Example: `  # Everything so far, into a file; called again, it adds what is new
  lumenhook events pull --endpoint ep_… --to events.jsonl

  # What comes after number 1, as it comes
  lumenhook events pull --endpoint ep_… --after 1 --follow

  # One event, whose signature is then checked as a receiver would
  lumenhook events pull --endpoint ep_… --after 1 | head -n 1 > next.json
  lumenhook verify --secret-file hook.secret --webhook next.json`,
		RunE: p.run,
	}
	f := c.Flags()
	f.StringVar(&p.endpointID, "endpoint", "", "id of the endpoint")
	f.StringVar(&p.file, "to", "", "file that lines are appended to, after the last one in it")
	f.Int64Var(&p.after, "after", 0, "number of the last event that you have; 0: begin with the first")
	f.BoolVar(&p.follow, "follow", false, "wait for more, until it is interrupted")
	cli.Require(c, "endpoint")
	return c
}

func (p *eventsPull) run(cmd *cobra.Command, _ []string) (err error) {
	switch {
	case p.after < 0:
		return cli.Usage(fmt.Errorf("--after %d: must be a number from 0 on", p.after))
	case p.Field != "":
		return cli.Usage(errors.New("--field: events are pulled as whole lines of JSON: leave it out"))
	}
	c, err := p.API()
	if err != nil {
		return err
	}
	puller := apicli.Puller{
		Client:     c,
		EndpointID: p.endpointID,
		After:      p.after,
		Follow:     p.follow,
		Out:        cmd.OutOrStdout(),
		Tell:       cmd.ErrOrStderr(),
	}
	if p.file == "" {
		return puller.Run(cmd.Context())
	}
	file, err := apicli.OpenPullFile(p.file, p.endpointID)
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if file.After > 0 && cmd.Flags().Changed("after") && p.after != file.After {
		return cli.Usage(fmt.Errorf("--after %d: %s continues after number %d: leave --after out, or "+
			"name another file", p.after, p.file, file.After))
	}
	puller.After, puller.Out = max(p.after, file.After), file
	return puller.Run(cmd.Context())
}

func newEventsReceipt(a *apiFlags) *cobra.Command {
	var q client.ReceiptQuery
	var out string
	c := &cobra.Command{
		Use:   "receipt EVENT_ID [--out FILE]",
		Short: "Get evidence of the attempts to deliver an event",
		Long: `Prints a receipt, or writes it to a new file. A receipt is a signed proof that each attempt
is in the log of its endpoint: what was sent, when, and what the receiver answered. Anyone
can check it with "lumenhook verify-receipt", without the service. Do not edit it.

The deployment needs a signing key: run "lumenhook secrets signing create" once.`,
		Example: `  # Evidence for a dispute, into a file that was not there
  lumenhook events receipt evt_… --out receipt.json

  # The first attempt alone, and that the log still begins with the leaf that it had then
  lumenhook events receipt evt_… --attempt 1 --earlier-size 1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if q.Attempt < 0 || q.EarlierSize < 0 {
				return cli.Usage(errors.New("--attempt and --earlier-size: must be numbers from 1 on"))
			}
			if out != "" && (a.JSON || a.Field != "") {
				return cli.Usage(errors.New("--out: writes the receipt as it is: leave --json and --field out"))
			}
			api, err := a.API()
			if err != nil {
				return err
			}
			r, err := api.GetReceipt(cmd.Context(), args[0], q)
			if err != nil {
				return err
			}
			if out == "" {
				return a.Print(cmd.OutOrStdout(), r, func(w io.Writer) { apicli.ShowReceipt(w, r) })
			}
			if err := apicli.SaveReceipt(out, r); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&out, "out", "", "new file to write the receipt to")
	cli.AddFields(f, &q)
	return c
}

// receiptCheck is `lumenhook verify-receipt`.
type receiptCheck struct {
	cli.Output
	keys, body, earlier string
}

func newVerifyReceipt() *cobra.Command {
	var v receiptCheck
	c := &cobra.Command{
		Use:   "verify-receipt FILE --keys FILE|URL [--body FILE] [--earlier FILE]",
		Short: "Check a receipt without the service that gave it",
		Long: `Checks a receipt of "lumenhook events receipt" or GET /v1/events/{id}/receipt: each attempt
is a leaf of the log, and a published key of the deployment signed the log's state. The
command does not ask the service: --keys is its /.well-known/jwks.json, or better a copy
that you kept. - reads the receipt from standard input. A deployment has keys and issues
receipts after "lumenhook secrets signing create".

With --body it also checks that the attempts were sent with this body, byte for byte. With
--earlier, an older receipt, it also checks that nothing in the log was changed, removed or
inserted since.

It ends with 3 if the receipt proves wrong, and says why. It ends with 1 if it cannot tell,
for example because a file is missing. With --json the answer has verified, and a reason.`,
		Example: `  # Was this payload sent, and is it signed?
  lumenhook verify-receipt receipt.json --keys https://hooks.example/.well-known/jwks.json

  # For a program
  lumenhook verify-receipt receipt.json --keys https://hooks.example/.well-known/jwks.json --json`,
		PreRunE: func(_ *cobra.Command, args []string) error {
			if v.keys != "" || args[0] == "-" {
				return nil
			}
			_, err := os.Stat(args[0]) // told with the keys that are missing, and not after them
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			result, err := v.run(cmd.Context(), cmd.InOrStdin(), args[0])
			switch {
			case err == nil:
				return v.Print(cmd.OutOrStdout(), result, func(w io.Writer) { apicli.ShowProved(w, result) })
			case !v.JSON:
				return err
			}
			result = apicli.ReceiptResult{Reason: cli.Explain(err, cmd.Flags())}
			return errors.Join(err, v.Print(cmd.OutOrStdout(), result, nil))
		},
	}
	f := c.Flags()
	v.Register(f)
	f.StringVar(&v.keys, "keys", "",
		"file or URL with the deployment's published keys (a JSON Web Key Set)")
	f.StringVar(&v.body, "body", "", "file with the body that was sent")
	f.StringVar(&v.earlier, "earlier", "", "file with a receipt of the same endpoint from before")
	cli.Require(c, "keys")
	return c
}

func (v *receiptCheck) run(
	ctx context.Context, stdin io.Reader, file string,
) (result apicli.ReceiptResult, err error) {
	text, err := readReceipt(stdin, file)
	keys, keysErr := apicli.ReadReceiptKeys(ctx, v.keys)
	if keysErr != nil {
		keysErr = fmt.Errorf("--keys %q: %w", v.keys, keysErr)
	}
	if err := errors.Join(err, keysErr); err != nil {
		return result, err
	}
	proved, err := verified(file, text, keys)
	if err != nil {
		return result, err
	}
	result = apicli.ReceiptResult{Verified: true, Proved: &proved}
	if v.body != "" {
		body, err := cli.ReadInput(stdin, v.body, maxBodyBytes)
		if err != nil {
			return result, fmt.Errorf("--body %q: %w", v.body, err)
		}
		if err := apicli.SentBody(proved, body); err != nil {
			return result, cli.Differs(fmt.Errorf("--body %q: %w", v.body, err))
		}
		result.SentBody = v.body
	}
	if v.earlier != "" {
		if result.GoesOn, err = v.goesOn(stdin, proved, keys); err != nil {
			return result, fmt.Errorf("--earlier %w", err)
		}
	}
	return result, nil
}

// goesOn holds a receipt that is right against the earlier one.
func (v *receiptCheck) goesOn(
	stdin io.Reader, proved receipt.Proved, keys receipt.Keys,
) ([]apicli.GoesOnLog, error) {
	text, err := readReceipt(stdin, v.earlier)
	if err != nil {
		return nil, err
	}
	earlier, err := verified(v.earlier, text, keys)
	if err != nil {
		return nil, err
	}
	if err := receipt.VerifyEarlier(proved, earlier); err != nil {
		return nil, cli.Differs(fmt.Errorf("%s: %w", v.earlier, err))
	}
	return apicli.GoesOn(proved, earlier), nil
}

func readReceipt(stdin io.Reader, file string) ([]byte, error) {
	text, err := cli.ReadInput(stdin, file, receipt.MaxBytes)
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return text, err
}

// verified verifies the text of a file. What is no receipt is not refuted.
func verified(file string, text []byte, keys receipt.Keys) (receipt.Proved, error) {
	proved, err := receipt.Verify(text, keys)
	if err == nil {
		return proved, nil
	}
	if err = fmt.Errorf("%s: %w", file, err); errors.Is(err, receipt.ErrNoReceipt) {
		return proved, err
	}
	return proved, cli.Differs(err)
}
