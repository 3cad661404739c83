package apicli

import (
	"fmt"
	"io"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// ShowCoverage prints which ledgers were read.
func ShowCoverage(w io.Writer, c client.Coverage) {
	cli.Row(w, "network", c.NetworkPassphrase)
	if c.Cursor == nil {
		cli.Row(w, "cursor", "no ledger was read yet")
		return
	}
	cli.Row(w, "cursor", c.Cursor.Ledger)
	cli.Row(w, "hash", c.Cursor.Hash)
	cli.Row(w, "closed", c.Cursor.ClosedAt)
	cli.Row(w, "read", c.Cursor.ReadAt)
	cli.Row(w, "no gap since", c.SinceLedger)
	cli.Row(w, "balance moves since", c.BalanceMovesSince)
	_, _ = io.WriteString(w, "\n")
	cli.Row(w, "FROM", "TO", "LEDGERS", "")
	next := uint32(0)
	for _, r := range c.Ranges {
		if next != 0 && r.From > next {
			cli.Row(w, next, r.From-1, r.From-next, "NOT READ")
		}
		cli.Row(w, r.From, r.To, r.To-r.From+1, verifiedText(r.Verified))
		next = r.To + 1
	}
}

func verifiedText(verified bool) string {
	if verified {
		return "verified"
	}
	return "not verified: their source gives nothing to verify"
}

// GapsFault is the error of a coverage with gaps; nil: it has none.
func GapsFault(c client.Coverage) error {
	if len(c.Gaps) == 0 {
		return nil
	}
	return fmt.Errorf("%d ranges of ledgers were not read, the first from %d to %d: "+
		"lumenhook backfill reads them for a watch", len(c.Gaps), c.Gaps[0].From, c.Gaps[0].To)
}
