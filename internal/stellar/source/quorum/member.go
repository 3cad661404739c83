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

// Reasons for excluding a source, as passed to OnLeft.
const (
	reasonAway      = "away"              // it doesn't respond, or not with a ledger
	reasonLate      = "late"              // its response takes longer than Config.Late
	reasonRefused   = "refused"           // its ledgers don't match their hashes
	reasonForked    = "forked"            // its ledger doesn't follow the previous one
	reasonDisagrees = "disagrees"         // it reports a different hash than Need others
	reasonBehind    = domain.SourceBehind // it no longer has the ledger
	reasonUnknown   = "unknown"           // its ledger has an unknown form or is from another network
)

// Reasons returns all reasons.
func Reasons() []string {
	return []string{
		reasonAway, reasonLate, reasonRefused, reasonForked, reasonDisagrees, reasonBehind,
		reasonUnknown,
	}
}

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

type member struct {
	Member
	at int // index in Core.members

	turn   uint64 // number of the current run of looks; results of earlier runs are ignored
	asking bool
	asked  time.Time

	votes []ledger.Raw // its ledgers from the due one on

	until   time.Time         // earliest time of the next request
	alone   *retry.Backoff    // how long it is excluded
	again   *retry.Backoff    // wait after a ledger that no other source reports
	reason  string            // why it is excluded; empty if it is not
	left    domain.SourceLeft // the exclusion, as reported
	counted uint32            // its newest ledger with the accepted hash
	idle    int               // requests in a row without a new ledger
	final   error             // permanent error about finalAt
	finalAt uint32
}

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

func (m *member) forget(due uint32) {
	for len(m.votes) > 0 && m.votes[0].Sequence < due {
		m.votes = m.votes[1:]
	}
	if len(m.votes) > 0 && m.votes[0].Sequence != due {
		m.votes = nil
	}
}

func (c *Core) leave(m *member, reason string, sequence uint32, why error) {
	wait := m.alone.Next()
	if reason == reasonAway || reason == reasonBehind {
		wait = min(wait, c.config.LeftLast/4)
	}
	m.votes, m.until, m.idle = nil, c.config.Now().Add(wait), 0
	c.report(m, reason, sequence, why, wait)
}

// isLie reports whether a source was excluded because of a wrong response, rather than none.
func isLie(reason string) bool {
	return reason == reasonRefused || reason == reasonForked || reason == reasonDisagrees
}

// report records and logs why a source is excluded, once per reason. If it was excluded for a lie,
// that remains the reason even if something else prevents it from responding later.
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
	if reason == reasonBehind && c.config.Need == 1 { // normal for a lake or a server
		return
	}
	if c.config.OnLeft != nil {
		c.config.OnLeft(m.Name, reason)
	}
	if reason == reasonLate {
		c.config.Log.Warn("a ledger source is late; querying the others", "source",
			m.Name, "ledger", sequence, "late", c.config.Late)
		return
	}
	level := slog.LevelWarn
	if isLie(reason) {
		level = slog.LevelError
	}
	c.config.Log.Log(context.Background(), level, "a ledger source is excluded for a while, "+
		"and then queried again", "source", m.Name, "reason", reason, "ledger", sequence, "err", why,
		"wait", wait)
}

// agrees records that a ledger of the source was accepted. An excluded source is only restored with
// its whole page, because a wrong ledger may follow that the others have not reported yet.
func (c *Core) agrees(m *member, page []ledger.Raw, sequence uint32) {
	m.counted = max(m.counted, sequence)
	if m.reason == "" || sequence == page[len(page)-1].Sequence {
		c.restore(m, sequence)
	}
}

func (c *Core) restore(m *member, sequence uint32) {
	m.until = time.Time{}
	m.alone.Reset()
	m.again.Reset()
	if m.reason != "" && (m.reason != reasonBehind || c.config.Need > 1) {
		c.config.Log.Info("a ledger source is used again", "source", m.Name, "ledger", sequence)
	}
	m.reason = ""
}

// lagsFrom is how many ledgers a lagging source lacks. Fewer may be missing during a request.
const lagsFrom = 5

// Standings returns the states of the sources as of the last change. It is safe for concurrent use.
func (c *Core) Standings() domain.SourceStatuses { return *c.shown.Load() }

func (c *Core) show() {
	now := domain.SourceStatuses{Need: c.config.Need, Ledger: c.before.sequence}
	for _, m := range c.members {
		now.Sources = append(now.Sources, m.status(c.before.sequence))
	}
	c.shown.Store(&now)
}

// status returns the state of the source. newest is the newest accepted ledger.
func (m *member) status(newest uint32) domain.SourceStatus {
	one := domain.SourceStatus{
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

// explain records why a source is excluded. If the reason changes, the time stays that of the first
// reason: a source that is forked now started to disagree then.
func (c *Core) explain(m *member, reason string, sequence uint32, why error) {
	if m.reason == "" || m.reason == reasonLate {
		m.left = domain.SourceLeft{Ledger: sequence, Since: c.config.Now()}
	}
	m.left.Reason = reason
	if reason == reasonLate { // its request is still in flight
		m.left.Detail = fmt.Sprintf("it has not answered for %s", c.config.Late)
		return
	}
	m.left.AgainAt, m.left.Detail = m.until, why.Error()
}
