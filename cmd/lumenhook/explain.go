package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
)

func newExplain() *cobra.Command {
	var a apiFlags
	c := asking(&a, "explain",
		func(ctx context.Context, c *client.Client, args []string) (client.Explanation, error) {
			hash := strings.ToLower(args[0])
			if raw, err := hex.DecodeString(hash); err != nil || len(raw) != sha256.Size {
				return client.Explanation{}, cli.Usage(fmt.Errorf("a transaction's hash is 64 hex digits: %s",
					args[0]))
			}
			return c.ExplainTransaction(ctx, hash)
		}, showExplanation)
	a.register(c)
	return c
}

func showExplanation(w io.Writer, v client.Explanation) {
	cli.Row(w, "transaction", v.TxHash)
	cli.Row(w, "outcome", v.Outcome)
	cli.Row(w, "detail", v.Detail)
	cli.Row(w, "ledger", v.Ledger)
	cli.Row(w, "closed", v.LedgerClosedAt)
	cli.Row(w, "read through", v.ReadThrough)
	for _, p := range v.Payments {
		_, _ = io.WriteString(w, "\n")
		cli.Row(w, "payment", p.ID)
		cli.Row(w, "amount", p.Amount+" "+p.Asset)
		cli.Row(w, "from", p.From)
		cli.Row(w, "to", p.To)
		if p.Memo != nil && p.MemoType != nil {
			cli.Row(w, "memo", *p.MemoType+":"+*p.Memo)
		}
		for _, watch := range p.Watches {
			showExplainedWatch(w, watch, v.Ledger)
		}
	}
}

func showExplainedWatch(w io.Writer, v client.ExplainedWatch, ledger *uint32) {
	endpoint := "deleted with the watch"
	if v.EndpointID != nil && v.EndpointStatus != nil {
		endpoint = *v.EndpointID + " (" + *v.EndpointStatus + ")"
	}
	cli.Row(w, "watch", v.WatchID)
	cli.Row(w, "  endpoint", endpoint)
	if v.EventID != nil {
		cli.Row(w, "  event", *v.EventID+" ("+*v.EventType+")")
	}
	for _, reason := range v.Reasons {
		label := "  no event"
		if v.EventID != nil {
			label = "  rejected"
		}
		cli.Row(w, label, reason.Code+": "+reason.Detail)
		if again := reason.Code; ledger != nil && (again == "WATCHED_LATER" || again == "RULES_CHANGED") {
			cli.Row(w, "  to deliver it",
				fmt.Sprintf("lumenhook backfill --watch %s --from %d --to %d", v.WatchID, *ledger, *ledger))
		}
	}
}
