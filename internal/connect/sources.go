package connect

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/lumenhook/lumenhook/internal/standing"
)

var (
	errNoFollower = errors.New("the process has no follower, and so no sources of ledgers: ask one " +
		"that runs with the role follower (--metrics-listen)")
	errStandsBy = errors.New("the follower of this process stands by, and asks no source: ask the " +
		"process whose lumenhook_ledger_sequence grows (--metrics-listen)")
)

// LedgerSources returns how the sources of ledgers stand, as the process that follows them sees
// it. One that does not follow is an error: it would tell of another time.
func (p *Process) LedgerSources(ctx context.Context) (sources standing.Process, err error) {
	said, err := p.ask(ctx, "/ledger-sources")
	if err != nil {
		return sources, err
	}
	switch {
	case said.status != http.StatusOK || json.Unmarshal(said.body, &sources) != nil:
		return sources, said.strange()
	case !sources.Follower:
		return sources, errNoFollower
	case !sources.Following:
		return sources, errStandsBy
	}
	return sources, nil
}
