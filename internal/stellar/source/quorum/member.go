package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
)

// Reasons why a source is excluded, as OnLeft receives them.
const (
	reasonAway      = "away"              // it does not answer, or not with a ledger
	reasonLate      = "late"              // it takes longer to answer than Config.Late
	reasonRefused   = "refused"           // it returns ledgers that do not match their hashes
	reasonForked    = "forked"            // its ledger does not follow the one before it
	reasonDisagrees = "disagrees"         // it names another hash than Need others
	reasonBehind    = domain.SourceBehind // it no longer keeps the ledger
	reasonUnknown   = "unknown"           // its ledger is of an unknown form, or of another network
)

// Reasons returns all reasons.
func Reasons() []string {
	return []string{
		reasonAway, reasonLate, reasonRefused, reasonForked, reasonDisagrees, reasonBehind,
		reasonUnknown,
	}
}

// reasonOf says why a source is left that answered with an error.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, ledger.ErrNotProved):
		return reasonRefused
	case errors.Is(err, domain.ErrForked):
		return reasonForked
	case errors.Is(err, domain.ErrBehindRetention):
		return reasonBehind
	case source.IsPermanent(err):
		return reasonUnknown
	}
	return reasonAway
}

// member is one of the sources, as the loop knows it.
type member struct {
	Member
	at int // its place among the members

	turn   uint64 // of its looks: an answer to an earlier one is from before a Continue
	asking bool
	asked  time.Time

	votes []ledger.Raw // its ledgers, from the due one on

	until   time.Time         // it is not asked before
	alone   *retry.Backoff    // how long it is left alone
	again   *retry.Backoff    // until it is queried again for a ledger that no other reports
	reason  string            // why it is left; empty: it is not
	left    domain.SourceLeft // the reported reason
	counted uint32            // the newest ledger that it gave with the hash that counts
	idle    int               // polls in a row that found no new ledger
	final   error             // its last word about finalAt that waiting does not help against
	finalAt uint32
}

// vote returns its answer for a ledger.
func (m *member) vote(sequence uint32) (l ledger.Raw, found bool) {
	if len(m.votes) == 0 || sequence < m.votes[0].Sequence {
		return l, false
	}
	at := sequence - m.votes[0].Sequence
	if uint64(at) >= uint64(len(m.votes)) {
		return l, false
	}
	return m.votes[at], true
}

// forget drops its answers for ledgers before this one.
func (m *member) forget(due uint32) {
	for len(m.votes) > 0 && m.votes[0].Sequence < due {
		m.votes = m.votes[1:]
	}
	if len(m.votes) > 0 && m.votes[0].Sequence != due {
		m.votes = nil
	}
}

// leave leaves it alone for a while.
func (c *Core) leave(m *member, reason string, sequence uint32, why error) {
	wait := m.alone.Next()
	if reason == reasonAway || reason == reasonBehind {
		wait = min(wait, c.config.LeftLast/4)
	}
	m.votes, m.until, m.idle = nil, c.config.Now().Add(wait), 0
	c.report(m, reason, sequence, why, wait)
}

// isLie reports whether a source was left for a wrong answer, rather than for no answer.
func isLie(reason string) bool {
	return reason == reasonRefused || reason == reasonForked || reason == reasonDisagrees
}

// report records why a source is left, and logs each reason once. A source that was left for a lie
// stays left for it, even if something else then keeps it from answering.
func (c *Core) report(
	m *member, reason string, sequence uint32, why error, wait time.Duration,
) {
	if isLie(m.reason) && !isLie(reason) {
		m.left.AgainAt = m.until
		return
	}
	c.explain(m, reason, sequence, why)
	if m.reason == reason {
		return
	}
	m.reason = reason
	if reason == reasonBehind && c.config.Need == 1 { // expected of a lake or a server's retention
		return
	}
	if c.config.OnLeft != nil {
		c.config.OnLeft(m.Name, reason)
	}
	if reason == reasonLate {
		c.config.Log.Warn("a source of ledgers is late; querying the others", "source",
			m.Name, "ledger", sequence, "late", c.config.Late)
		return
	}
	level := slog.LevelWarn
	if isLie(reason) {
		level = slog.LevelError
	}
	c.config.Log.Log(context.Background(), level, "a source of ledgers is excluded for a while, "+
		"and then queried again", "source", m.Name, "reason", reason, "ledger", sequence, "err", why,
		"wait", wait)
}

// agrees records that a ledger of a page of this source counts. A source that was left counts again
// only when its whole page counts: a right ledger may be followed by a wrong one that the others
// have not reported yet.
func (c *Core) agrees(m *member, page []ledger.Raw, sequence uint32) {
	m.counted = max(m.counted, sequence)
	if m.reason == "" || sequence == page[len(page)-1].Sequence {
		c.restore(m, sequence)
	}
}

// restore makes a member count again.
func (c *Core) restore(m *member, sequence uint32) {
	m.until = time.Time{}
	m.alone.Reset()
	m.again.Reset()
	if m.reason != "" && (m.reason != reasonBehind || c.config.Need > 1) {
		c.config.Log.Info("a source of ledgers counts again", "source", m.Name, "ledger", sequence)
	}
	m.reason = ""
}

// lagsFrom is how many ledgers a source must lack to be said to lag: fewer is the time that an
// answer takes.
const lagsFrom = 5

// Standings returns the state of each source at the loop's last news of one. It is safe for use by
// any goroutine.
func (c *Core) Standings() domain.SourceStandings { return *c.shown.Load() }

// show updates the result of Standings.
func (c *Core) show() {
	now := domain.SourceStandings{Need: c.config.Need, Ledger: c.before.sequence}
	for _, m := range c.members {
		now.Sources = append(now.Sources, m.standing(c.before.sequence))
	}
	c.shown.Store(&now)
}

// standing returns the state of the source, where newest is the newest ledger that counts.
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

// explain records why a source is left. If it is left for another reason when it is queried again,
// the time of the first reason stays: a source that is forked now began to disagree then.
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
