package quorum

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

// agreed accepts the ledgers from the due one on for which enough sources report the same hash. It
// excludes sources that report a different hash.
func (c *Core) agreed(due uint32) (page []ledger.Raw) {
	for next := due; len(page) < pageSizeMax; next++ {
		l, found := c.choose(next)
		if !found {
			break
		}
		c.before = chain{l.Sequence, l.Hash}
		c.remembered[l.Sequence%rememberedMax] = c.before
		page = append(page, l)
		for _, m := range c.members {
			if vote, voted := m.vote(next); voted && vote.Hash != l.Hash {
				c.disagrees(m, vote, l.Hash)
			} else if voted {
				c.agrees(m, m.votes, next)
			}
		}
	}
	return page
}

// choose returns the ledger whose hash at least Need sources report, unless there are two.
func (c *Core) choose(sequence uint32) (l ledger.Raw, found bool) {
	votes, whole := map[string]int{}, map[string]ledger.Raw{}
	for _, m := range c.members {
		vote, voted := m.vote(sequence)
		if !voted {
			continue
		}
		votes[vote.Hash]++
		if _, has := whole[vote.Hash]; !has {
			whole[vote.Hash] = vote
			if c.config.Need == 1 {
				c.logSource(m, sequence)
				return vote, true
			}
		}
	}
	enough := 0
	for hash, n := range votes {
		if n < c.config.Need {
			continue
		}
		enough++
		l, found = whole[hash]
	}
	return l, found && enough == 1
}

func (c *Core) logSource(m *member, sequence uint32) {
	if c.giver != m.Name {
		c.giver = m.Name
		c.config.Log.Info("ledgers are being read", "source", m.Name, "ledger", sequence)
	}
}

// checkReachable returns an error if no later response can decide, because fewer than Need sources
// could still return the ledger. A fork is proved if Need sources report it and fewer than Need are
// left. A source that is waiting, silent or unavailable counts as left.
func (c *Core) checkReachable(due uint32) error {
	var fork, lack error
	forks, lacks := 0, 0
	for _, m := range c.members {
		switch {
		case m.final == nil || m.finalAt != due:
		case errors.Is(m.final, domain.ErrForked):
			fork, forks = m.final, forks+1
		default:
			lack, lacks = m.final, lacks+1
		}
	}
	left := len(c.members) - c.config.Need
	if forks > left && forks >= c.config.Need {
		lack = fork
	} else if lacks == 0 || forks+lacks <= left || lacks <= left && c.pending() {
		return nil
	}
	if len(c.members) == 1 {
		return lack
	}
	return fmt.Errorf("%w; %d of %d ledger sources are needed (%s)", lack, c.config.Need,
		len(c.members), c.status(due))
}

// logShortage logs, once per ledger, that there are fewer usable sources than needed.
func (c *Core) logShortage(due uint32) {
	able := 0
	hashes := map[string]bool{}
	for _, m := range c.members {
		vote, voted := m.vote(due)
		if voted {
			hashes[vote.Hash] = true
		}
		if voted || m.idle > 0 || m.asking && m.reason == "" {
			able++
		}
	}
	if c.told == due || able >= c.config.Need && len(hashes) < 2 {
		return
	}
	if able >= c.config.Need && c.pending() {
		return
	}
	c.told = due
	c.config.Log.Error("fewer sources of ledgers agree on the next ledger than are needed; waiting, "+
		"and skipping nothing", "ledger", due, "needed", c.config.Need, "sources",
		c.status(due))
}

// pending reports whether a request is in flight whose response may decide.
func (c *Core) pending() bool {
	for _, m := range c.members {
		if m.asking && m.reason == "" {
			return true
		}
	}
	return false
}

func (c *Core) status(due uint32) string {
	var all []string
	for _, m := range c.members {
		vote, voted := m.vote(due)
		state := "asked"
		switch {
		case voted:
			state = "hash " + vote.Hash
		case m.reason != "":
			state = m.reason
		case m.idle > 0:
			state = "does not have it yet"
		}
		all = append(all, m.Name+": "+state)
	}
	return strings.Join(all, "; ")
}
