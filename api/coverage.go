package api

import (
	"context"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/problem"
)

const ledgersRetrySeconds = 2

func (a *API) getCoverage(ctx context.Context, _ *request) (reply, error) {
	f, err := a.followed(ctx)
	return reply{view: viewCoverage(f)}, err
}

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

func viewCoverage(f Followed) client.Coverage {
	v := client.Coverage{
		NetworkPassphrase: unlessZero(f.NetworkPassphrase),
		SinceLedger:       unlessZero(f.Coverage.Since()),
		Verified:          len(f.Coverage) > 0,
		Ranges:            make([]client.LedgersRead, 0, len(f.Coverage)),
		Gaps:              []client.LedgerGap{},
		BalanceMovesSince: unlessZero(f.MovesSince),
	}
	if f.Ledger != 0 {
		v.Cursor = &client.LedgerCursor{
			Ledger:   f.Ledger,
			Hash:     f.Hash,
			ClosedAt: instant(f.ClosedAtMillis),
			ReadAt:   instant(f.ReadAtMillis),
		}
	}
	for _, r := range f.Coverage {
		v.Ranges = append(v.Ranges, client.LedgersRead{From: r.From, To: r.To, Verified: r.Verified})
		v.Verified = v.Verified && r.Verified
	}
	for _, g := range f.Coverage.Gaps() {
		v.Gaps = append(v.Gaps, client.LedgerGap(g))
	}
	return v
}
