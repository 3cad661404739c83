package projections

import (
	"bytes"
	"strconv"
	"time"
)

// paid is what an envelope says of its payment; zero for a test.ping.
type paid struct {
	paymentID       string
	closedAtSeconds int64
	assetCode       string
	assetIssuer     string
	amountStroops   int64
}

// readPaid takes the fields out of an envelope that package domain wrote, in the
// order in which it writes them. What people wrote (memo, label) cannot be taken
// for a field: its quotes are escaped.
func readPaid(body []byte) (p paid) {
	id, rest := textAfter(body, `"payment":{"id":"`)
	if id == "" {
		return p
	}
	p.paymentID = id
	closed, rest := textAfter(rest, `"ledgerClosedAt":"`)
	if at, err := time.Parse(time.RFC3339, closed); err == nil {
		p.closedAtSeconds = at.Unix()
	}
	p.assetCode, rest = textAfter(rest, `"asset":{"code":"`)
	// it follows at once, or is null
	p.assetIssuer, _ = textAfter(rest[:min(len(rest), 96)], `,"issuer":"`)
	stroops, _ := textAfter(rest, `"amountStroops":"`)
	p.amountStroops, _ = strconv.ParseInt(stroops, 10, 64)
	return p
}

// textAfter returns the text that begins after a mark and ends at a quote, and what
// follows it; nothing, and all, when the mark is not there.
func textAfter(body []byte, mark string) (text string, rest []byte) {
	_, after, found := bytes.Cut(body, []byte(mark))
	end := bytes.IndexByte(after, '"')
	if !found || end < 0 {
		return "", body
	}
	return string(after[:end]), after[end:]
}
