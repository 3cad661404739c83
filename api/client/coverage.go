package client

import (
	"context"
	"time"
)

// Coverage says which ledgers were read, and verified.
type Coverage struct {
	NetworkPassphrase *string       `json:"networkPassphrase"` // nil: none was read yet
	Cursor            *LedgerCursor `json:"cursor"`            // nil: none was read yet
	SinceLedger       *uint32       `json:"sinceLedger"`       // from it to the cursor there is no gap
	Verified          bool          `json:"verified"`          // all ranges are
	Ranges            []LedgersRead `json:"ranges"`
	Gaps              []LedgerGap   `json:"gaps"`
	BalanceMovesSince *uint32       `json:"balanceMovesSince"` // nil: they are not recorded
}

// LedgerCursor is the newest ledger that was read.
type LedgerCursor struct {
	Ledger   uint32     `json:"ledger"`
	Hash     string     `json:"hash"`
	ClosedAt *time.Time `json:"closedAt"`
	ReadAt   *time.Time `json:"readAt"`
}

// LedgersRead are ledgers that were read one after the other, the first and the last included.
type LedgersRead struct {
	From     uint32 `json:"from"`
	To       uint32 `json:"to"`
	Verified bool   `json:"verified"` // held against their hashes
}

// LedgerGap are ledgers that were not read, the first and the last included.
type LedgerGap struct {
	From uint32 `json:"from"`
	To   uint32 `json:"to"`
}

// GetCoverage reads which ledgers were read, and verified.
func (c *Client) GetCoverage(ctx context.Context) (Coverage, error) {
	return ask[Coverage](ctx, c, get, "/v1/coverage", nil, nil)
}
