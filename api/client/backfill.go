package client

import (
	"context"
	"time"
)

// Backfill is how far the latest backfill of a watch has come. To is nil until
// it is known, Problem unless it ended before that ledger.
type Backfill struct {
	From        uint32    `json:"from"`
	To          *uint32   `json:"to"`
	Next        uint32    `json:"next"`
	Done        bool      `json:"done"`
	Problem     *string   `json:"problem"`
	RequestedAt time.Time `json:"requestedAt"`
}

// BackfillCreate says which ledgers to look for payments in; To nil is as far as
// the live ledger was read.
type BackfillCreate struct {
	From uint32  `json:"from"`
	To   *uint32 `json:"to,omitempty"`
}

// BackfillWatch asks for the payments to a watch in ledgers of the past. It
// answers when the request is taken; GetWatch tells how far it has come.
func (c *Client) BackfillWatch(
	ctx context.Context, watchID string, b BackfillCreate, o ...Option,
) (Watch, error) {
	return c.watch(ctx, call{method: post, path: id(watches, watchID, "backfill"), body: b}, o)
}
