package quorum

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
)

// chain is a ledger's number and hash.
type chain struct {
	sequence uint32
	hash     string
}

// Core decides which ledgers count, which sources to ask, and when waiting does not help. It has no
// goroutine, timer or I/O: its owner carries out what Step returns, and passes the answers to Take.
// It is used by one goroutine, except for Standings.
type Core struct {
	config     Config
	members    []*member
	before     chain                // the ledger that was given last
	remembered [rememberedMax]chain // returned ledgers, by number
	told       uint32               // the ledger that was last logged as awaited
	giver      string               // with Need 1, as last logged
	shown      atomic.Pointer[domain.SourceStandings]
}

// Step is the next step of the owner.
type Step struct {
	Page []ledger.Raw  // the ledgers that count, from the due one on
	Err  error         // waiting does not help: see domain.LedgerError
	Ask  []Look        // without a page or an error: looks to begin
	Wait time.Duration // until the next step, unless an answer comes first
}

// Look is a question to a source: for a ledger and those after it.
type Look struct {
	Member   int // of Config.Members
	Sequence uint32
	turn     uint64
}

// NewCore decides for some sources. It reads their names only.
func NewCore(config Config) (*Core, error) {
	config.Interval = cmp.Or(config.Interval, intervalDefault)
	config.Late = cmp.Or(config.Late, lateDefault)
	config.LeftFirst = cmp.Or(config.LeftFirst, leftFirst)
	config.LeftLast = cmp.Or(config.LeftLast, leftLast)
	config.Log = cmp.Or(config.Log, slog.New(slog.DiscardHandler))
	if config.Now == nil {
		config.Now = time.Now
	}
	c := &Core{config: config}
	backoff := func(first, last time.Duration) *retry.Backoff {
		return retry.Policy{First: first, Last: last, Jitter: config.Jitter}.Backoff()
	}
	names := map[string]bool{}
	for i, m := range config.Members {
		if names[m.Name] && config.Need > 1 {
			return nil, fmt.Errorf("%s is named twice: each of several sources must be another server",
				m.Name)
		}
		names[m.Name] = true
		c.members = append(c.members, &member{
			Member: m,
			at:     i,
			alone:  backoff(config.LeftFirst, config.LeftLast),
			again:  backoff(config.Interval, config.LeftLast/4),
		})
	}
	switch {
	case len(c.members) > membersMax:
		return nil, fmt.Errorf("%d sources are more than %d", len(c.members), membersMax)
	case config.Need < 1 || config.Need > len(c.members):
		return nil, fmt.Errorf("%d of %d sources cannot agree: name more servers, or ask for fewer",
			config.Need, len(c.members))
	}
	c.show()
	return c, nil
}

// Continue sets which ledger was read last: the next must follow it.
func (c *Core) Continue(sequence uint32, hash string) {
	if c.before == (chain{sequence, hash}) {
		return
	}
	c.before, c.told = chain{sequence, hash}, 0
	clear(c.remembered[:])
	for _, m := range c.members {
		m.turn++
		m.votes, m.final, m.idle = nil, nil, 0
		if m.reason == "" || m.reason == reasonBehind {
			m.until = time.Time{}
		}
	}
}

// Step returns what to do for the ledger that is due. A returned page counts as read.
func (c *Core) Step(due uint32) (next Step) {
	for _, m := range c.members {
		m.forget(due)
	}
	next.Page = c.agreed(due)
	c.show()
	if len(next.Page) > 0 {
		return next
	}
	if next.Err = c.hopeless(due); next.Err != nil {
		return next
	}
	next.Ask = c.start(due)
	c.logShortage(due)
	next.Wait = c.wait()
	return next
}

// start returns which sources to ask: with Need 1 the first that may be asked, and another when
// that one is late or has nothing new for long; else all.
func (c *Core) start(due uint32) (ask []Look) {
	now := c.config.Now()
	for _, m := range c.members {
		if _, voted := m.vote(due); voted && m.until.IsZero() {
			m.until = now.Add(m.again.Next()) // it disagrees with the others
		}
		late := m.asking && now.Sub(m.asked) >= c.config.Late
		if late && m.reason == "" {
			c.report(m, reasonLate, due, nil, 0)
		}
		if !m.asking && !now.Before(m.until) {
			m.asking, m.asked = true, now
			ask = append(ask, Look{m.at, due, m.turn})
		}
		if c.config.Need == 1 && (m.asking && !late || m.idle > 0 && m.idle < idleLooksMax) {
			break
		}
	}
	return ask
}

// wait returns the time until a source may be queried, or is late.
func (c *Core) wait() time.Duration {
	now, wait := c.config.Now(), c.config.Late
	for _, m := range c.members {
		switch {
		case m.asking && m.reason == "":
			wait = min(wait, m.asked.Add(c.config.Late).Sub(now))
		case !m.asking && m.until.After(now):
			wait = min(wait, m.until.Sub(now))
		}
	}
	return max(wait, time.Millisecond)
}

// Take records the answer of a source while a ledger is due. No page and no error mean that it does
// not have the ledger yet.
func (c *Core) Take(due uint32, of Look, page []ledger.Raw, err error) {
	m := c.members[of.Member]
	m.asking = false
	if of.turn != m.turn {
		return
	}
	switch {
	case err != nil:
		if source.IsPermanent(err) {
			m.final, m.finalAt = err, of.Sequence
		}
		c.leave(m, reasonOf(err), of.Sequence, err)
	case len(page) == 0:
		c.waits(m, due)
	default:
		m.votes, m.idle, m.final = page, 0, nil
		if m.until = (time.Time{}); m.reason == reasonLate {
			m.reason = ""
		}
		for _, l := range page {
			was := c.remembered[l.Sequence%rememberedMax]
			if was.sequence != l.Sequence {
				continue
			}
			if was.hash != l.Hash {
				c.disagrees(m, l, was.hash)
				return
			}
			c.agrees(m, page, l.Sequence)
		}
		m.forget(due)
	}
}

// waits records that a source does not have the ledger yet. A source that had no older ones may
// have the ones that it lacks by now.
func (c *Core) waits(m *member, due uint32) {
	m.idle++
	m.final = nil
	m.until = c.config.Now().Add(c.config.Interval)
	if m.reason == reasonAway || m.reason == reasonLate || m.reason == reasonBehind {
		c.restore(m, due)
		m.until = c.config.Now().Add(c.config.Interval)
	}
	for _, other := range c.members {
		if other.reason == reasonBehind && other.finalAt < due {
			other.until = time.Time{}
		}
	}
}

func (c *Core) disagrees(m *member, l ledger.Raw, hash string) {
	c.leave(m, reasonDisagrees, l.Sequence, fmt.Errorf("%s gave ledger %d with hash %s, and %d other "+
		"sources gave it with %s", m.Name, l.Sequence, l.Hash, c.config.Need, hash))
}
