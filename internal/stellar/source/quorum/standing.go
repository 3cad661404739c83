package quorum

import (
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
)

// lagsFrom is how many ledgers a source must lack to be said to lag: fewer is the time that an
// answer takes.
const lagsFrom = 5

// Standings say how each source stood when the loop last had news of one. They are for any
// goroutine.
func (c *Core) Standings() domain.SourceStandings { return *c.shown.Load() }

// show has Standings say how the sources stand now.
func (c *Core) show() {
	now := domain.SourceStandings{Need: c.config.Need, Ledger: c.before.sequence}
	for _, m := range c.members {
		now.Sources = append(now.Sources, m.standing(c.before.sequence))
	}
	c.shown.Store(&now)
}

// standing says how the source stands where newest is the newest ledger that counts.
func (m *member) standing(newest uint32) domain.SourceStanding {
	one := domain.SourceStanding{
		Name:   m.Name,
		State:  domain.SourceNone,
		Ledger: m.counted,
	}
	if m.counted > 0 {
		one.State = domain.SourceAgrees
		one.Behind = newest - min(newest, m.counted)
	}
	if one.Behind >= lagsFrom {
		one.State = domain.SourceLags
	}
	if m.reason != "" {
		left := m.left
		one.State, one.Left = domain.SourceLeftOut, &left
	}
	return one
}

// explain notes why a source is left. One that is left for another reason when it is asked again is
// left since the first one: what is forked now began to disagree then.
func (c *Core) explain(m *member, reason string, sequence uint32, why error) {
	if m.reason == "" || m.reason == reasonLate {
		m.left = domain.SourceLeft{Ledger: sequence, Since: c.config.Now()}
	}
	m.left.Reason = reason
	if reason == reasonLate { // and is waited for
		m.left.Detail = fmt.Sprintf("it has not answered for %s", c.config.Late)
		return
	}
	m.left.AgainAt, m.left.Detail = m.until, why.Error()
}
