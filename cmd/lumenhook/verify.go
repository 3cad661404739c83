package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/domain"
)

func newVerify() *cobra.Command {
	var (
		secrets               []string
		timestamp, signature  string
		file                  string
		ignoreTimestampsClock bool
	)
	c := &cobra.Command{
		Use:   "verify --secret whsec_… --timestamp … --signature v1=… [--body FILE]",
		Short: "Check a webhook's signature the way its receiver must",
		Long: `Reads the body exactly as it was received, from a file or standard input, and
checks it against the headers Webhook-Timestamp and Webhook-Signature.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, err := readBody(cmd.InOrStdin(), file)
			if err != nil {
				return err
			}
			now := time.Now().Unix()
			if ignoreTimestampsClock {
				if _, err := fmt.Sscan(timestamp, &now); err != nil {
					return fmt.Errorf("--timestamp %q: must be digits", timestamp)
				}
			}
			if err := domain.Verify(signature, timestamp, body, secrets, now); err != nil {
				return err
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
	f.BoolVar(&ignoreTimestampsClock, "any-time", false, "accept an old timestamp")
	for _, name := range []string{"secret", "timestamp", "signature"} {
		_ = c.MarkFlagRequired(name)
	}
	return c
}

func readBody(stdin io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(io.LimitReader(stdin, 1<<20))
	}
	return os.ReadFile(file)
}
