package main

import (
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
	c := group("events", reading(&a, apicli.Events)...)
	c.AddCommand(newEventsPull(&a), newEventsTail(&a), newEventsResend(&a), newEventsReceipt(&a))
	a.register(c)
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
	c := changing(a, "events resend",
		func(ctx context.Context, c *client.Client, args []string) (any, error) {
			if len(args) == 1 {
				return c.ResendEvent(ctx, args[0])
			}
			return c.ResendEvents(ctx, f)
		}, apicli.ShowAnyResent)
	c.Args = func(c *cobra.Command, args []string) error {
		return anEventOrFilters(c, args, filtered())
	}
	c.Flags().AddFlagSet(given)
	return c
}

func newEventsTail(a *apiFlags) *cobra.Command {
	var f client.EventFilter
	c := newCommand("events tail", func(cmd *cobra.Command, _ []string) error {
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
	})
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
	c := newCommand("events pull", p.run)
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
	c := newCommand("events receipt", func(cmd *cobra.Command, args []string) error {
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
	})
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
	c := newCommand("verify-receipt", func(cmd *cobra.Command, args []string) error {
		result, err := v.run(cmd.Context(), cmd.InOrStdin(), args[0])
		switch {
		case err == nil:
			return v.Print(cmd.OutOrStdout(), result, func(w io.Writer) { apicli.ShowProved(w, result) })
		case !v.JSON:
			return err
		}
		result = apicli.ReceiptResult{Reason: cli.Explain(err, cmd.Flags())}
		return errors.Join(err, v.Print(cmd.OutOrStdout(), result, nil))
	})
	c.PreRunE = func(_ *cobra.Command, args []string) error {
		if v.keys != "" || args[0] == "-" {
			return nil
		}
		_, err := os.Stat(args[0]) // told with the keys that are missing, and not after them
		return err
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
		if result.CommonLogs, err = v.checkExtends(stdin, proved, keys); err != nil {
			return result, fmt.Errorf("--earlier %w", err)
		}
	}
	return result, nil
}

// checkExtends holds a receipt that is right against the earlier one.
func (v *receiptCheck) checkExtends(
	stdin io.Reader, proved receipt.Proved, keys receipt.Keys,
) ([]apicli.CommonLog, error) {
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
	return apicli.CommonLogs(proved, earlier), nil
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
