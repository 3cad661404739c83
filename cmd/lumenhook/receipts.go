package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

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
log of its endpoint, with what was sent, when, and what the receiver answered. Anyone can
check it with "lumenhook verify-receipt", without the service. Do not edit it.

The deployment needs a signing key: run "lumenhook secrets signing create" once.`,
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
		Long: `Checks what "lumenhook events receipt" or GET /v1/events/{id}/receipt gave: that each
attempt that it shows is a leaf of the log whose state it has, and that a published key of
the deployment signed that state. Nothing is asked of the service: --keys is its
/.well-known/jwks.json, best a copy that you kept. - reads the receipt from standard input.
A deployment has keys, and gives receipts, after "lumenhook secrets signing create".

With --body also that the attempts were sent with this body, byte for byte. With --earlier,
a receipt from before, also that the log continues from that state: that nothing in it was
changed, removed or inserted since.

It ends with 3 when something is not as it should be, and says what; and with 1 when that
could not be found out, as of a file that is missing or no receipt. With --json the answer
says so too: verified, and the reason why not.`,
		Example: `  # Was this payload sent, and is it signed?
  lumenhook verify-receipt receipt.json --keys https://hooks.example/.well-known/jwks.json

  # For a program
  lumenhook verify-receipt receipt.json --keys https://hooks.example/.well-known/jwks.json --json`,
		Args: cli.OneArgument,
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
	_ = c.MarkFlagRequired("keys")
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
