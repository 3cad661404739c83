package quorum

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

// agreed gives the ledgers from the due one on for which enough sources name the same hash, and
// leaves those alone that name another.
func (s *Source) agreed(due uint32) (page []ledger.Raw) {
	for next := due; len(page) < pageSizeMax; next++ {
		l, found := s.choose(next)
		if !found {
			break
		}
		s.before = chain{l.Sequence, l.Hash}
		s.remembered[l.Sequence%rememberedMax] = s.before
		page = append(page, l)
		for _, m := range s.members {
			if vote, voted := m.vote(next); voted && vote.Hash != l.Hash {
				s.disagrees(m, vote, l.Hash)
			} else if voted {
				s.agrees(m, m.votes, next)
			}
		}
	}
	return page
}

// choose gives the ledger whose hash Need sources name, from one that gives the whole of it. When
// two hashes are named by as many, nobody can tell.
func (s *Source) choose(sequence uint32) (l ledger.Raw, found bool) {
	votes, whole := map[string]int{}, map[string]ledger.Raw{}
	for _, m := range s.members {
		vote, voted := m.vote(sequence)
		if !voted {
			continue
		}
		votes[vote.Hash]++
		if _, has := whole[vote.Hash]; !has {
			whole[vote.Hash] = vote
			if s.config.Need == 1 {
				s.gives(m, sequence)
				return vote, true
			}
		}
	}
	enough := 0
	for hash, n := range votes {
		if n < s.config.Need {
			continue
		}
		enough++
		l, found = whole[hash]
	}
	return l, found && enough == 1
}

// gives logs where ledgers come from, when it changes.
func (s *Source) gives(m *member, sequence uint32) {
	if s.giver != m.Name {
		s.giver = m.Name
		s.config.Log.Info("ledgers are being read", "source", m.Name, "ledger", sequence)
	}
}

// hopeless returns an error when no later answer of the other sources can decide: so many say
// that they cannot give the ledger that fewer than Need are left. A fork is proven when Need
// sources say that the chain before the ledger is not theirs, and fewer than Need are left. A
// source that waits, is silent or is away counts as left.
func (s *Source) hopeless(due uint32) error {
	var fork, lack error
	forks, lacks := 0, 0
	for _, m := range s.members {
		switch {
		case m.final == nil || m.finalAt != due:
		case errors.Is(m.final, domain.ErrForked):
			fork, forks = m.final, forks+1
		default:
			lack, lacks = m.final, lacks+1
		}
	}
	left := len(s.members) - s.config.Need
	if forks > left && forks >= s.config.Need {
		lack = fork
	} else if lacks == 0 || forks+lacks <= left || lacks <= left && s.pending() {
		return nil
	}
	if len(s.members) == 1 {
		return lack
	}
	return fmt.Errorf("%w; %d of %d sources of ledgers are needed (%s)", lack, s.config.Need,
		len(s.members), s.standing(due))
}

// tell says, once for each ledger, that fewer sources can be counted on than are needed.
func (s *Source) tell(due uint32) {
	able := 0
	hashes := map[string]bool{}
	for _, m := range s.members {
		vote, voted := m.vote(due)
		if voted {
			hashes[vote.Hash] = true
		}
		if voted || m.idle > 0 || m.asking && m.reason == "" {
			able++
		}
	}
	if s.told == due || able >= s.config.Need && len(hashes) < 2 {
		return
	}
	if able >= s.config.Need && s.pending() {
		return
	}
	s.told = due
	s.config.Log.Error("fewer sources of ledgers agree on the next ledger than are needed: it is "+
		"waited for, and nothing is skipped", "ledger", due, "needed", s.config.Need, "sources",
		s.standing(due))
}

// pending reports whether an answer is under way that may decide.
func (s *Source) pending() bool {
	for _, m := range s.members {
		if m.asking && m.reason == "" {
			return true
		}
	}
	return false
}

// standing says of each source what it is at.
func (s *Source) standing(due uint32) string {
	var all []string
	for _, m := range s.members {
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
