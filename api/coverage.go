package api

import (
	"context"

	"github.com/lumenhook/lumenhook/api/problem"
)

// ledgersRetrySeconds is when a read of the follower's cursor may be repeated.
const ledgersRetrySeconds = 2

type coverageView struct {
	NetworkPassphrase *string       `json:"networkPassphrase"`
	Cursor            *cursorView   `json:"cursor"`
	SinceLedger       *uint32       `json:"sinceLedger"`
	Verified          bool          `json:"verified"`
	Ranges            []ledgersRead `json:"ranges"`
	Gaps              []ledgerGap   `json:"gaps"`
	BalanceMovesSince *uint32       `json:"balanceMovesSince"`
}

// cursorView is the newest ledger that was read.
type cursorView struct {
	Ledger   uint32  `json:"ledger"`
	Hash     string  `json:"hash"`
	ClosedAt *string `json:"closedAt"`
	ReadAt   *string `json:"readAt"`
}

type ledgerGap struct {
	From uint32 `json:"from"`
	To   uint32 `json:"to"`
}

type ledgersRead struct {
	From     uint32 `json:"from"`
	To       uint32 `json:"to"`
	Verified bool   `json:"verified"`
}

func (a *API) getCoverage(ctx context.Context, _ *request) (reply, error) {
	f, err := a.followed(ctx)
	if err != nil {
		return reply{}, err
	}
	return reply{view: viewCoverage(f)}, nil
}

// followed reads how far ledgers were followed.
func (a *API) followed(ctx context.Context) (Followed, error) {
	f, err := a.Ledgers.Followed(ctx)
	if err != nil {
		return f, problem.New(problem.CodeLedgersUnavailable, "The ledgers that were read are not "+
			"known now; payments are still observed and delivered. Repeat the request after the time in "+
			"Retry-After. If this continues, the log of this node names the cause.").
			RetryAfter(ledgersRetrySeconds).Because(err)
	}
	return f, nil
}

func viewCoverage(f Followed) coverageView {
	v := coverageView{
		NetworkPassphrase: unlessZero(f.NetworkPassphrase),
		SinceLedger:       unlessZero(f.Coverage.Since()),
		Verified:          len(f.Coverage) > 0,
		Ranges:            make([]ledgersRead, 0, len(f.Coverage)),
		Gaps:              []ledgerGap{},
		BalanceMovesSince: unlessZero(f.MovesSince),
	}
	if f.Ledger != 0 {
		v.Cursor = &cursorView{
			Ledger:   f.Ledger,
			Hash:     f.Hash,
			ClosedAt: instant(f.ClosedAtMillis),
			ReadAt:   instant(f.ReadAtMillis),
		}
	}
	for _, r := range f.Coverage {
		v.Ranges = append(v.Ranges, ledgersRead{r.From, r.To, r.Verified})
		v.Verified = v.Verified && r.Verified
	}
	for _, g := range f.Coverage.Gaps() {
		v.Gaps = append(v.Gaps, ledgerGap(g))
	}
	return v
}
