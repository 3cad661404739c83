package api

import (
	"fmt"

	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// makesRoom says how an account gets below a quota. A watch that takes nothing more counts too: it
// still takes space.
var makesRoom = map[string]string{
	"endpoints": "Delete some",
	"watches":   "Delete some: fulfilled and expired ones count until you delete them",
	"senders":   "Delete some, or watches: fulfilled and expired ones count until you delete them",
	"backfills": "Let one end, or delete its watch",
}

// withinQuota refuses a write that would exceed a quota of the account. It counts the objects that
// this node has read, so concurrent requests together may exceed a quota
// (docs/decisions/quotas.md).
func (a *API) withinQuota(r *request, added, taken domain.Counts) error {
	account, _, err := a.Directory.Account(r.caller.accountID)
	if err != nil {
		return fmt.Errorf("looking up the quotas of an account: %w", err)
	}
	used, err := a.Directory.Counts(account.ID)
	if err != nil {
		return fmt.Errorf("counting what an account has: %w", err)
	}
	then, quotas := used.Plus(added, taken), account.Quotas.Or(domain.DefaultQuotas())
	for _, q := range domain.QuotaList() {
		most, has := *q.Of(&quotas), *q.Of(&used)
		if wants := *q.Of(&then); wants > has && wants > most {
			return problem.New(domain.CodeQuotaExceeded, fmt.Sprintf("Your account has %d %s and may "+
				"have %d. %s, or ask the operator to raise the quota: "+
				"`lumenhook accounts update --account %s --quota %s=%d`.",
				has, q.Name, most, makesRoom[q.Name], account.ID, q.Name, 2*most))
		}
	}
	return nil
}
