package api

import (
	"context"
	"fmt"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

// withinQuota refuses a write that would exceed one of the account's quotas. It counts the objects
// that this node has read, so concurrent requests together may exceed a quota
// (docs/decisions/quotas.md).
func (a *API) withinQuota(r *request, repeated bool, added, taken domain.Counts) error {
	if repeated {
		return nil // it adds nothing
	}
	used, quotas, err := a.Directory.Counts(r.caller.accountID)
	if err != nil {
		return fmt.Errorf("counting what an account has: %w", err)
	}
	then := used.Plus(added, taken)
	for _, q := range domain.QuotaList() {
		most, has := *q.Of(&quotas), *q.Of(&used)
		if wants := *q.Of(&then); wants > has && wants > most {
			return problem.New(domain.CodeQuotaExceeded, q.Exceeded(r.caller.accountID, has, most))
		}
	}
	return nil
}

// watchCounts returns a watch's counts toward the quotas, including its size.
func watchCounts(w domain.Watch) domain.Counts {
	c := w.CountsOf()
	if w.Exists() {
		c.StoredBytes = uint64(len(schemas.MarshalWatch(w)))
	}
	return c
}

// endpointCounts returns an endpoint's counts toward the quotas, including its size.
func endpointCounts(e domain.Endpoint) domain.Counts {
	c := e.CountsOf()
	if e.Exists() {
		c.StoredBytes = uint64(len(schemas.EncodeEndpoint(e).Value))
	}
	return c
}

func (a *API) getAccount(_ context.Context, r *request) (reply, error) {
	account, _, err := a.Directory.Account(r.caller.accountID)
	if err != nil {
		return reply{}, fmt.Errorf("looking up an account: %w", err)
	}
	used, quotas, err := a.Directory.Counts(account.ID)
	if err != nil {
		return reply{}, fmt.Errorf("counting what an account has: %w", err)
	}
	used.Keys = account.CountsOf(a.Now().UnixMilli()).Keys
	used.Reads = uint64(a.turns.Users(r.caller.holder())) // #nosec G115 -- never negative
	view := client.Account{ID: account.ID, CreatedAt: at(account.CreatedAtMillis)}
	for _, q := range domain.QuotaList() {
		view.Quotas = append(view.Quotas,
			client.Quota{Name: q.Name, Used: *q.Of(&used), Limit: *q.Of(&quotas)})
	}
	return reply{view: view}, nil
}
