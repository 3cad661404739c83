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
	c := &cobra.Command{Use: "events", Short: "View and resend events"}
	a.register(c)
	c.AddCommand(
		newEventsList(&a),
		newEventsPull(&a),
		newEventsTail(&a),
		getting(&a, apicli.Events, "Show an event and its delivery attempts",
			`  # Find out why an event didn't arrive, with the receiver's response to each attempt
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
	c := changing(a, "resend [EVENT_ID]", "Resend events, whether or not they were delivered",
		func(ctx context.Context, c *client.Client, args []string) (any, error) {
			if len(args) == 1 {
				return c.ResendEvent(ctx, args[0])
			}
			return c.ResendEvents(ctx, f)
		}, apicli.ShowAnyResent)
	c.Args = func(c *cobra.Command, args []string) error {
		return anEventOrFilters(c, args, filtered())
	}
	c.Long = `Queue an event again, whether or not it was delivered. If you use filters instead of
an event id, the command queues up to 1,000 events that match all of them, newest
first. If you have deleted an event's endpoint, the event goes to its watch's current
endpoint. To see how many events match without queueing them, use --dry-run.`
	c.Example = `  # Resend an event that the shop lost
  lumenhook events resend evt_…

  # Count the events that an endpoint would receive again for the last day
  lumenhook events resend --endpoint ep_… --since 24h --dry-run

  # Resend all events for a transaction
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
		fmt.Fprintf(w, "no event matches\nlumenhook explain %s says why a payment has no event\n", tx)
	}
	c = listing(a, events, "List events, newest first")
	c.Example = `  # List events that are waiting for another attempt
  lumenhook events list --state WAITING

  # List payments of at least 10 XLM to a wallet in the last 24 hours
  lumenhook events list --wallet G… --since 24h --asset XLM --min-amount 10

  # Get the event id for an order in a script
  lumenhook events list --memo order-42 --limit 1 --field data.0.id`
	return c
}

func newEventsTail(a *apiFlags) *cobra.Command {
	var f client.EventFilter
	c := &cobra.Command{
		Use:   "tail",
		Short: "Stream events and delivery attempts until you press Ctrl-C",
		Long: `Print a line whenever an event is created and after each delivery attempt. For an
attempt, the line shows the receiver's response, the event's state and the time of
the next attempt. The command shows events from all of the account's endpoints that
match every filter. With --json, each line is a JSON object.

By default, the stream starts with pending events. To start earlier, use --since. If
the service or your machine was unavailable, the stream resumes with the events that
you missed. If more than 10,000 events arrive at once, the command skips the oldest
and prints a message. The command tracks up to 20,000 events until they settle, and
reports how many it no longer tracks. If more than 200 events change within a second,
their attempts appear a few seconds later. If you resend an event long after its
delivery, its attempts don't appear. To see them, use "lumenhook events get".`,
		Example: `  # Watch deliveries while you test a shop
  lumenhook events tail

  # Show events that have permanently failed at an endpoint
  lumenhook events tail --endpoint ep_… --state FAILED

  # Stream events as JSON, starting ten minutes ago
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
	c.Flags().Lookup("since").Usage = "start with events since this time: a timestamp, or how long " +
		"ago; empty: now"
	c.Flags().Lookup("state").Usage = "only show changes to this state: QUEUED, WAITING, " +
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
		Short: "Pull an endpoint's events in sequence order",
		Long: `Print an endpoint's events as one line of JSON each, whether or not they were
delivered. Each line includes the event's number and a new signature that you can
check with "lumenhook verify --webhook". Events are printed in sequence order
(Webhook-Sequence), exactly once and without gaps. If retention has removed events,
the command reports them.

To append the lines to a file, use --to. If you run the command again, it resumes
after the last line, so the file has each event exactly once, even after a kill. If you
don't use a file, set --after to the number of the last event you have.

With --follow, the command waits for new events until you interrupt it, and resumes
after a service outage.`,
		Example: `  # Save all events to a file; run it again to add new events
  lumenhook events pull --endpoint ep_… --to events.jsonl

  # Wait for events after number 1
  lumenhook events pull --endpoint ep_… --after 1 --follow

  # Pull one event and verify its signature the way a receiver would
  lumenhook events pull --endpoint ep_… --after 1 | head -n 1 > next.json
  lumenhook verify --secret-file hook.secret --webhook next.json`,
		RunE: p.run,
	}
	f := c.Flags()
	f.StringVar(&p.endpointID, "endpoint", "", "id of the endpoint")
	f.StringVar(&p.file, "to", "", "file to append events to, resuming after its last line")
	f.Int64Var(&p.after, "after", 0,
		"number of the last event you have; 0 starts with the first event")
	f.BoolVar(&p.follow, "follow", false, "wait for new events until interrupted")
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
		Short: "Get a signed receipt of an event's delivery attempts",
		Long: `Print a receipt or write it to a new file. A receipt is signed proof that each
attempt is recorded in the endpoint's log: what was sent, when it was sent, and how
the receiver responded. Anyone can check it with "lumenhook verify-receipt", even
without access to the service. Don't edit the receipt.

Receipts require a signing key. To create one for the deployment, run "lumenhook
secrets signing create" once.`,
		Example: `  # Save a receipt to a new file as evidence in a dispute
  lumenhook events receipt evt_… --out receipt.json

  # Prove only the first attempt, and that the log still starts with its first leaf
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
	f.StringVar(&out, "out", "", "write the receipt to this new file")
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
		Short: "Verify a receipt without access to the service",
		Long: `Verify a receipt from "lumenhook events receipt" or GET /v1/events/{id}/receipt. The
command checks that each attempt is a leaf of the log, and that the log's state was
signed with one of the deployment's published keys. It doesn't contact the service
for this. Set --keys to the service's /.well-known/jwks.json or, better, to a copy
that you saved. To read the receipt from standard input, use -. Once you run
"lumenhook secrets signing create", the deployment has keys and can issue receipts.

To also check that the attempts were sent with exactly the same body, byte for byte,
use --body. To check that nothing in the log has been changed, removed or inserted
since an older receipt, pass that receipt with --earlier.

If verification fails, the command prints the reason and exits with 3. If it can't
check the receipt, for example because a file is missing, it exits with 1. With
--json, the output contains the fields verified and reason.`,
		Example: `  # Check a receipt against the deployment's published keys
  lumenhook verify-receipt receipt.json --keys https://hooks.example/.well-known/jwks.json

  # Print the result as JSON
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
		"file or URL of the deployment's published keys (a JSON Web Key Set)")
	f.StringVar(&v.body, "body", "", "file that contains the body that was sent")
	f.StringVar(&v.earlier, "earlier", "",
		"file that contains an earlier receipt for the same endpoint")
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
