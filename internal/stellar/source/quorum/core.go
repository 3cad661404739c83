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

type chain struct {
	sequence uint32
	hash     string
}

// Core decides which ledgers are accepted, which sources to query, and when waiting does not help.
// It has no goroutines, timers or I/O. Its owner performs what Step returns and passes the results
// to Take. Only Standings is safe for concurrent use.
type Core struct {
	config     Config
	members    []*member
	before     chain                // the last accepted ledger
	remembered [rememberedMax]chain // accepted ledgers by sequence
	told       uint32               // ledger for which a shortage was last logged
	giver      string               // last logged source if Need is 1
	shown      atomic.Pointer[domain.SourceStatuses]
}

// Step tells the owner what to do next.
type Step struct {
	Page []ledger.Raw  // accepted ledgers from the due one on
	Err  error         // waiting does not help; see domain.LedgerError
	Ask  []Look        // requests to start, if there is neither a page nor an error
	Wait time.Duration // time until the next step, unless a result arrives earlier
}

// Look is a request to a source for a ledger and the ledgers after it.
type Look struct {
	Member   int // index in Config.Members
	Sequence uint32
	turn     uint64
}

// NewCore returns a Core. It only uses the names of the sources.
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
			return nil, fmt.Errorf("%s is named twice: each source must be a different server", m.Name)
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
		return nil, fmt.Errorf("%d ledger sources exceed the maximum of %d", len(c.members), membersMax)
	case config.Need < 1 || config.Need > len(c.members):
		return nil, fmt.Errorf("%d of %d sources can never agree: add servers, or require fewer",
			config.Need, len(c.members))
	}
	c.show()
	return c, nil
}

// Continue sets the last ledger read, which the next one must follow.
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

// Step returns what to do to get the due ledger. A returned page counts as read.
func (c *Core) Step(due uint32) (next Step) {
	for _, m := range c.members {
		m.forget(due)
	}
	next.Page = c.agreed(due)
	c.show()
	if len(next.Page) > 0 {
		return next
	}
	if next.Err = c.checkReachable(due); next.Err != nil {
		return next
	}
	next.Ask = c.start(due)
	c.logShortage(due)
	next.Wait = c.wait()
	return next
}

// start returns the requests to start. With a Need of 1, it queries the first available source, and
// the next one if that is late or idle. Otherwise, it queries all available sources.
func (c *Core) start(due uint32) (ask []Look) {
	now := c.config.Now()
	for _, m := range c.members {
		if _, voted := m.vote(due); voted && m.until.IsZero() {
			m.until = now.Add(m.again.Next()) // it disagrees with others
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

// wait returns the time until a source can be queried or becomes late.
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

// Take processes a response. Without ledgers and error, the source doesn't have the ledger yet.
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

// waits records that a source doesn't have the ledger yet. Sources that lacked older ledgers are
// queried again, because they may have later ones.
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
