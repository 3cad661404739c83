package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/receipt"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
)

func newEventsReceipt(a *apiFlags) *cobra.Command {
	var q client.ReceiptQuery
	var out string
	c := &cobra.Command{
		Use:   "receipt EVENT_ID [--out FILE]",
		Short: "Get evidence of the attempts to deliver an event",
		Long: `Prints a receipt, or writes it to a new file: a signed proof that each attempt is in the
log of its endpoint, with what was sent, when, and what came back. Whoever has it checks
it with "lumenhook verify-receipt", without the service. Keep it as it is.

The deployment needs a signing key: "lumenhook secrets signing create".`,
		Example: `  # Evidence for a dispute, into a file that was not there
  lumenhook events receipt evt_… --out receipt.json

  # The first attempt alone, and that the log still begins with the leaf that it had then
  lumenhook events receipt evt_… --attempt 1 --earlier-size 1`,
		Args: cli.OneArgument,
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
	f.IntVar(&q.Attempt, "attempt", 0, "number of the one attempt to prove; 0: all, the last 100")
	f.Int64Var(&q.EarlierSize, "earlier-size", 0,
		"size of the log in a receipt that you have: prove as well that the log goes on from there")
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
		Long: `Checks what "lumenhook events receipt" or GET /v1/events/{id}/receipt gave: that each
attempt that it shows is a leaf of the log whose state it has, and that a published key of
the deployment signed that state. Nothing is asked of the service: --keys is its
/.well-known/jwks.json, best a copy that you kept. - reads the receipt from standard input.

With --body also that the attempts were sent with this body, byte for byte. With --earlier,
a receipt that you had before, also that the log goes on from where it was then: that
nothing of it was changed, left out or put in between since.

It ends with 3 when something is not as it should be, and says what.`,
		Example: `  # Was this payload sent, and is it signed?
  lumenhook verify-receipt receipt.json --keys https://hooks.example/.well-known/jwks.json

  # For a program
  lumenhook verify-receipt receipt.json --keys https://hooks.example/.well-known/jwks.json --json`,
		Args: cli.OneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			proved, err := v.run(cmd.Context(), cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			return v.Print(cmd.OutOrStdout(), proved, func(w io.Writer) { apicli.ShowProved(w, proved) })
		},
	}
	f := c.Flags()
	v.Register(f)
	f.StringVar(&v.keys, "keys", "",
		"file or URL with the deployment's published keys (a JSON Web Key Set)")
	f.StringVar(&v.body, "body", "", "file with the body that was sent")
	f.StringVar(&v.earlier, "earlier", "", "file with a receipt of the same endpoint from before")
	_ = c.MarkFlagRequired("keys")
	return c
}

func (v *receiptCheck) run(
	ctx context.Context, stdin io.Reader, file string,
) (proved receipt.Proved, err error) {
	keys, err := apicli.ReadReceiptKeys(ctx, v.keys)
	if err != nil {
		return proved, fmt.Errorf("--keys %q: %w", v.keys, err)
	}
	if proved, err = verifyFile(stdin, file, keys); err != nil {
		return proved, err
	}
	if v.body != "" {
		body, err := cli.ReadInput(stdin, v.body, maxBodyBytes)
		if err != nil {
			return proved, fmt.Errorf("--body %q: %w", v.body, err)
		}
		if err := apicli.SentBody(proved, body); err != nil {
			return proved, cli.Differs(fmt.Errorf("--body %q: %w", v.body, err))
		}
	}
	if v.earlier != "" {
		earlier, err := verifyFile(stdin, v.earlier, keys)
		if err != nil {
			return proved, fmt.Errorf("--earlier: %w", err)
		}
		if err := receipt.VerifyEarlier(proved, earlier); err != nil {
			return proved, cli.Differs(fmt.Errorf("--earlier %q: %w", v.earlier, err))
		}
	}
	return proved, nil
}

func verifyFile(stdin io.Reader, file string, keys receipt.Keys) (receipt.Proved, error) {
	text, err := cli.ReadInput(stdin, file, receipt.MaxBytes)
	if err != nil {
		return receipt.Proved{}, fmt.Errorf("%s: %w", file, err)
	}
	proved, err := receipt.Verify(text, keys)
	if err != nil {
		err = cli.Differs(fmt.Errorf("%s: %w", file, err))
	}
	return proved, err
}
