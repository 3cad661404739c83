package source_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/quorum"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// forgedAt is the first ledger with false variants, and quorumLast the last ledger of the chain.
const (
	forgedAt   = 12
	quorumLast = 23 // the last ledger in a file of the lake
)

// history contains the ledgers of honest servers and those of a lying one.
type history struct {
	*chain
	passphrase   string
	honest, lies map[uint32]ledger.Raw
	ledgers      []domain.Ledger // honest ledgers, beginning at firstLedger
}

func newHistory(t *testing.T) *history {
	t.Helper()
	c := open(t, nil)
	c.grow(t, quorumLast)
	h := &history{chain: c, passphrase: c.network.Passphrase()}
	h.honest = raws(t, c.rpc(t), firstLedger, quorumLast)
	h.lies = forge(t, h.honest, h.passphrase, forgedAt, quorumLast)
	h.ledgers = read(t, c.rpc(t), h.passphrase, firstLedger, quorumLast)
	return h
}

func between(all map[uint32]ledger.Raw, first, last uint32) map[uint32]ledger.Raw {
	some := maps.Clone(all)
	maps.DeleteFunc(some, func(sequence uint32, _ ledger.Raw) bool {
		return sequence < first || sequence > last
	})
	return some
}

// serve returns a server with the honest history up to last.
func (h *history) serve(t *testing.T, last uint32) *server {
	t.Helper()
	s := newServer(t, h.passphrase)
	s.give(between(h.honest, firstLedger, last))
	return s
}

// panel reads several servers as one source, and records its reports.
type panel struct {
	*quorum.Source
	log testkit.Buffer

	mu   sync.Mutex
	left []string // "name reason", in order
}

func newPanel(t *testing.T, need int, late time.Duration, members ...quorum.Member) *panel {
	t.Helper()
	p := &panel{}
	s, err := quorum.New(quorum.Config{
		Members:   members,
		Need:      need,
		Interval:  poll,
		Late:      late,
		LeftFirst: 2 * poll,
		LeftLast:  20 * poll,
		Log:       slog.New(slog.NewTextHandler(&p.log, nil)),
		OnLeft: func(name, reason string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.left = append(p.left, name+" "+reason)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Source = s
	return p
}

func (p *panel) leftOnes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.left)
}

func (p *panel) hasLeft(who string) bool { return slices.Contains(p.leftOnes(), who) }

// servers returns the members of a panel, by name.
func servers(t *testing.T, named ...any) (members []quorum.Member) {
	t.Helper()
	for i := 0; i < len(named); i += 2 {
		members = append(members, quorum.Member{
			Name:   named[i].(string),
			Source: named[i+1].(*server).source(t, nil),
		})
	}
	return members
}

const never = time.Hour // late

// begin requests a ledger without waiting for it.
func (p *panel) begin(ctx context.Context, sequence uint32) chan given {
	got := make(chan given, 1)
	go func() {
		page, err := p.Next(ctx, sequence)
		got <- given{page, err}
	}()
	return got
}

type given struct {
	page []ledger.Raw
	err  error
}

// A server may add a false payment in ledgers whose own hashes are right. It must be detected at
// the first such ledger, whichever server it is, and none of its ledgers may count.
func TestALiarIsSeenThroughWithinOneLedger(t *testing.T) {
	h := newHistory(t)
	for liar := range 3 {
		t.Run(fmt.Sprint(liar), func(t *testing.T) {
			var all []*server
			var named []any
			for i := range 3 {
				all = append(all, h.serve(t, forgedAt-1))
				named = append(named, fmt.Sprint("server ", i), all[i])
			}
			lying := fmt.Sprint("server ", liar)
			p := newPanel(t, 2, 50*time.Millisecond, servers(t, named...)...)
			compare(t, "until then", read(t, p, h.passphrase, firstLedger, forgedAt-1),
				h.ledgers[:forgedAt-firstLedger])

			// The liar and one honest server have answered, and nobody can tell them apart.
			last := all[(liar+1)%3]
			last.silent()
			for i, s := range all {
				s.give(map[uint32]ledger.Raw{forgedAt: h.honest[forgedAt]})
				if i == liar {
					s.give(map[uint32]ledger.Raw{forgedAt: h.lies[forgedAt]})
				}
			}
			got := p.begin(within(t), forgedAt)
			testkit.Eventually(t, "that nobody can tell is said", func() bool {
				return strings.Contains(p.log.String(), "fewer sources of ledgers agree") &&
					strings.Contains(p.log.String(), h.lies[forgedAt].Hash)
			})
			if len(got) > 0 || p.hasLeft(lying+" disagrees") {
				t.Errorf("one against one was judged: %v", p.leftOnes())
			}
			last.set(last.answerAgain)
			g := <-got
			if g.err != nil || len(g.page) != 1 || g.page[0].Hash != h.honest[forgedAt].Hash {
				t.Fatalf("got %+v", g)
			}
			if !p.hasLeft(lying + " disagrees") {
				t.Errorf("the liar was not named with the ledger of its lie: %v", p.leftOnes())
			}
			for i, s := range all {
				s.give(between(h.honest, forgedAt, quorumLast))
				if i == liar {
					s.give(h.lies)
				}
			}
			compare(t, "then", read(t, p, h.passphrase, forgedAt+1, quorumLast),
				h.ledgers[forgedAt+1-firstLedger:])
			for _, left := range p.leftOnes() {
				if strings.HasPrefix(left, "server") && !strings.HasPrefix(left, lying) &&
					!strings.HasSuffix(left, " late") {
					t.Errorf("an honest server was left: %v", left)
				}
			}
		})
	}
}

// A source that answers after the others have agreed is compared with their answer.
func TestALateLiarIsFoundOut(t *testing.T) {
	h := newHistory(t)
	liar, a, b := h.serve(t, forgedAt-1), h.serve(t, forgedAt-1), h.serve(t, forgedAt-1)
	members := servers(t, "liar", liar, "a", a, "b", b)
	looks := watchLooks(members)
	p := newPanel(t, 2, never, members...)
	read(t, p, h.passphrase, firstLedger, forgedAt-1)
	first := p.begin(within(t), forgedAt)
	looks.hang(t, liar, forgedAt)
	liar.give(h.lies)
	a.give(h.honest)
	b.give(between(h.honest, forgedAt, quorumLast-1))
	if g := <-first; g.err != nil || g.page[0].Hash != h.honest[forgedAt].Hash {
		t.Fatalf("got %+v", g)
	}
	read(t, unchecked{p}, h.passphrase, forgedAt+4, quorumLast-1)
	if len(p.leftOnes()) > 0 {
		t.Fatalf("the liar did not wait: %v", p.leftOnes())
	}
	got := p.begin(within(t), quorumLast) // b does not have it yet
	liar.set(liar.answerAgain)
	testkit.Eventually(t, "the liar is named", func() bool { return p.hasLeft("liar disagrees") })
	b.give(h.honest)
	if g := <-got; g.err != nil || g.page[0].Hash != h.honest[quorumLast].Hash {
		t.Errorf("got %+v", g)
	}
}

// From its lie on, the state of a source must show since which ledger and when it is left out,
// why, and how far it is behind. A source that is slower than all others must also count again
// once it agrees with them.
func TestStandingsTellOfALiar(t *testing.T) {
	h := newHistory(t)
	liar, a, b := h.serve(t, forgedAt-1), h.serve(t, quorumLast), h.serve(t, quorumLast-1)
	liar.give(h.lies)
	liar.silent()
	began := time.Now()
	p := newPanel(t, 2, never,
		servers(t, "liar", liar, "a", a, "b", b, "old", h.serve(t, forgedAt))...)
	if s := p.Standings(); s.Need != 2 || s.Ledger != 0 || stands(s) != "none,none,none,none" {
		t.Errorf("before anything was asked: %+v", s)
	}
	p.Continue(forgedAt-1, h.honest[forgedAt-1].Hash)
	read(t, unchecked{p}, h.passphrase, forgedAt, quorumLast-1)
	got := p.begin(within(t), quorumLast) // b does not have it yet
	liar.set(liar.answerAgain)
	testkit.Eventually(t, "the liar is left, and the others agree", func() bool {
		return stands(p.Standings()) == "left,agrees,agrees,lags"
	})
	s := p.Standings()
	left, old := s.Sources[0].Left, s.Sources[3]
	// When it is queried again, it has another chain, and is still left out since its first lie.
	if left == nil || !p.hasLeft("liar disagrees") || left.Ledger != forgedAt ||
		!slices.Contains([]string{"disagrees", "forked"}, left.Reason) ||
		!strings.Contains(left.Detail, "hash") || left.Since.Before(began) ||
		left.Since.After(time.Now()) || left.AgainAt.Before(left.Since) {
		t.Errorf("it was left: %+v", left)
	}
	if s.Ledger != quorumLast-1 || old.Ledger != forgedAt || old.Behind != s.Ledger-forgedAt {
		t.Errorf("got %+v", s)
	}
	if err := s.Fault(); err == nil || !strings.Contains(err.Error(),
		fmt.Sprintf("1 of 4 sources of ledgers are left out: liar since ledger %d (", forgedAt)) {
		t.Errorf("got %v", err)
	}

	// From now on it is right, but always answers after the others.
	asked := liar.silent()
	testkit.Eventually(t, "the liar is asked", func() bool { return liar.requests() > asked })
	liar.give(h.honest)
	b.give(h.honest)
	if g := <-got; g.err != nil || g.page[0].Hash != h.honest[quorumLast].Hash {
		t.Fatalf("got %+v", g)
	}
	ctx, cancel := context.WithCancel(within(t))
	got = p.begin(ctx, quorumLast+1) // no source has it yet
	liar.set(liar.answerAgain)
	testkit.Eventually(t, "all agree", func() bool {
		return stands(p.Standings()) == "agrees,agrees,agrees,lags"
	})
	if s := p.Standings(); s.Fault() != nil || s.Sources[0].Ledger != quorumLast ||
		s.Sources[0].Behind != 0 || s.Sources[0].Left != nil {
		t.Errorf("got %+v", s)
	}
	cancel()
	<-got
}

// A source that was left out may return a right ledger and a wrong one in a single answer. It
// must not count as right in between: it is left out since its first lie, and not reported again.
// This holds whether it answers after the others, before them, or after they have returned the
// first of the two.
func TestARightLedgerBeforeALieClearsNobody(t *testing.T) {
	h := newHistory(t)
	const due, last = forgedAt + 1, forgedAt + 4
	lie := forge(t, h.honest, h.passphrase, due+1, last)
	// before, after: the last ledgers that they return
	for name, others := range map[string]struct{ before, after []uint32 }{
		"after the others":                    {before: []uint32{last}},
		"after one ledger, before the others": {before: []uint32{due}, after: []uint32{last}},
		"before all ledgers":                  {after: []uint32{last}},
		"before each ledger":                  {after: []uint32{due, last}},
	} {
		t.Run(name, func(t *testing.T) {
			liar, a, b := h.serve(t, forgedAt-1), h.serve(t, forgedAt-1), h.serve(t, forgedAt-1)
			members := servers(t, "liar", liar, "a", a, "b", b)
			looks := watchLooks(members)
			p := newPanel(t, 2, never, members...)
			got := p.leaveForALie(t, h, looks, liar, a, b)
			first := *p.Standings().Sources[0].Left

			ctx, cancel := context.WithCancel(within(t))
			next := uint32(due)
			tell := func(until uint32) {
				t.Helper()
				a.give(between(h.honest, due, until))
				b.give(between(h.honest, due, until))
				for next <= until {
					g := <-got
					if g.err != nil {
						t.Fatal(g.err)
					}
					next += uint32(len(g.page))
					got = p.begin(ctx, next)
				}
			}
			looks.hang(t, liar, due)
			for _, until := range others.before {
				tell(until)
			}
			liar.give(between(h.honest, due, due))
			liar.give(lie)
			begun := looks.begun.Load()
			liar.set(liar.answerAgain)
			testkit.Eventually(t, "the answer is taken", func() bool { return looks.begun.Load() > begun })
			for _, until := range others.after {
				tell(until)
			}
			var then domain.SourceLeft
			testkit.Eventually(t, "the liar is left for its second lie", func() bool {
				if left := p.Standings().Sources[0].Left; left != nil {
					then = *left
				}
				return then.Reason == "forked" || // queried again for the ledger after the lie
					strings.Contains(then.Detail, fmt.Sprintf("gave ledger %d ", due+1))
			})
			if then.Ledger != first.Ledger || !then.Since.Equal(first.Since) {
				t.Errorf("it was left: %+v, and then %+v", first, then)
			}
			if log := p.log.String(); strings.Contains(log, "is used again") {
				t.Errorf("the log: %s", log)
			}

			// Once everything that it returns is right, it counts again, although it answers
			// first.
			liar.give(between(h.honest, due, last+3))
			begun = looks.begun.Load()
			testkit.Eventually(t, "the truth is told", func() bool { return looks.begun.Load() > begun+1 })
			tell(last + 3)
			testkit.Eventually(t, "all agree", func() bool {
				return stands(p.Standings()) == "agrees,agrees,agrees"
			})
			cancel()
			<-got
		})
	}
}

// A liar that is unavailable for a moment and then has nothing new has not corrected its lie.
func TestSilenceClearsNoLiar(t *testing.T) {
	h := newHistory(t)
	liar, a, b := h.serve(t, forgedAt-1), h.serve(t, forgedAt-1), h.serve(t, forgedAt-1)
	members := servers(t, "liar", liar, "a", a, "b", b)
	looks := watchLooks(members)
	p := newPanel(t, 2, never, members...)
	p.leaveForALie(t, h, looks, liar, a, b)
	first := *p.Standings().Sources[0].Left
	for _, away := range []bool{true, false} {
		liar.set(func() { liar.away = away })
		begun := looks.begun.Load()
		testkit.Eventually(t, "its answer is taken", func() bool { return looks.begun.Load() > begun+1 })
	}
	then := *p.Standings().Sources[0].Left
	if then.Reason != first.Reason || then.Ledger != first.Ledger || then.Detail != first.Detail {
		t.Errorf("it was left for %+v, and by silence for %+v", first, then)
	}
	if strings.Contains(p.log.String(), "is used again") {
		t.Errorf("it returned nothing, and counts again:\n%s", p.log.String())
	}
}

// leaveForALie makes the panel leave out the liar because of ledger forgedAt. Then it begins to
// wait for the next ledger, which no source has.
func (p *panel) leaveForALie(
	t *testing.T, h *history, looks *watchedLooks, liar, a, b *server,
) chan given {
	t.Helper()
	read(t, p, h.passphrase, firstLedger, forgedAt-1)
	got := p.begin(within(t), forgedAt)
	looks.hang(t, liar, forgedAt)
	liar.give(between(h.lies, forgedAt, forgedAt))
	a.give(between(h.honest, forgedAt, forgedAt))
	b.give(between(h.honest, forgedAt, forgedAt))
	if g := <-got; g.err != nil {
		t.Fatal(g.err)
	}
	got = p.begin(within(t), forgedAt+1)
	liar.set(liar.answerAgain)
	testkit.Eventually(t, "the liar is left", func() bool {
		return stands(p.Standings()) == "left,agrees,agrees"
	})
	return got
}

// watchedLooks records the looks at a source. Each begins when the previous answer was processed.
type watchedLooks struct {
	source.Looker
	begun atomic.Int32
	due   atomic.Uint32 // of the last look
}

func watchLooks(members []quorum.Member) *watchedLooks {
	w := &watchedLooks{Looker: members[0].Source}
	members[0].Source = w
	return w
}

func (w *watchedLooks) Look(ctx context.Context, due uint32) ([]ledger.Raw, error) {
	w.due.Store(due)
	w.begun.Add(1)
	return w.Looker.Look(ctx, due)
}

// hang waits until a look for the due ledger reaches the server, and leaves it unanswered.
func (w *watchedLooks) hang(t *testing.T, s *server, due uint32) {
	t.Helper()
	testkit.Eventually(t, "it is looked for", func() bool { return w.due.Load() == due })
	asked := s.silent()
	testkit.Eventually(t, "the server is asked", func() bool { return s.requests() > asked })
}

func stands(s domain.SourceStatuses) string {
	var all []string
	for _, one := range s.Sources {
		all = append(all, string(one.State))
	}
	return strings.Join(all, ",")
}

// A source that does not answer must not delay the others. It is reported, and counts again when
// it answers.
func TestASlowServerHoldsNobodyUp(t *testing.T) {
	h := newHistory(t)
	slow, a, b := h.serve(t, quorumLast), h.serve(t, quorumLast), h.serve(t, forgedAt)
	slow.silent()
	p := newPanel(t, 2, 5*time.Millisecond, servers(t, "slow", slow, "a", a, "b", b)...)
	compare(t, "without the slow one", read(t, unchecked{p}, h.passphrase, firstLedger, forgedAt),
		h.ledgers[:forgedAt+1-firstLedger])
	got := p.begin(within(t), forgedAt+1)
	testkit.Eventually(t, "the slow one is named", func() bool { return p.hasLeft("slow late") })
	slow.set(slow.answerAgain)
	if g := <-got; g.err != nil || g.page[0].Hash != h.honest[forgedAt+1].Hash {
		t.Fatalf("with the slow one and one other: %+v", g)
	}
	compare(t, "with it", read(t, p, h.passphrase, forgedAt+2, quorumLast),
		h.ledgers[forgedAt+2-firstLedger:])
}

// When all sources are queried for their network and newest ledger, a silent source is waited for
// only until enough others have answered. It counts again when it answers, and late answers are
// ignored.
func TestASilentServerKeepsNobodyWaiting(t *testing.T) {
	h := newHistory(t)
	a, b := h.serve(t, quorumLast), h.serve(t, quorumLast)
	members := servers(t, "mute", h.serve(t, quorumLast), "a", a, "b", b)
	mute := &muteSource{
		Looker: members[0].Source,
		ended:  make(chan error, 2),
		hold:   make(chan struct{}),
	}
	members[0].Source = mute
	p := newPanel(t, 2, never, members...)
	if err := p.Check(within(t)); err != nil {
		t.Error(err)
	}
	latest, err := p.Latest(within(t))
	if err != nil || latest != quorumLast {
		t.Errorf("the newest ledger is %d: %v", latest, err)
	}
	if err := <-mute.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it was asked until %v", err)
	}
	if len(mute.ended) > 0 {
		t.Error("it was asked for the newest ledger before it had answered for its network")
	}
	if !strings.Contains(p.log.String(), "mute has not answered yet") {
		t.Errorf("the log: %s", p.log.String())
	}
	compare(t, "without it", read(t, unchecked{p}, h.passphrase, firstLedger, forgedAt),
		h.ledgers[:forgedAt+1-firstLedger])
	close(mute.hold)
	p.Continue(forgedAt, h.honest[forgedAt].Hash)
	b.silent()
	if g := <-p.begin(within(t), forgedAt+1); g.err != nil ||
		g.page[0].Hash != h.honest[forgedAt+1].Hash {
		t.Errorf("with it and one other: %+v", g)
	}
}

// muteSource reports its network and newest ledger only after it is released, even if it was
// canceled.
type muteSource struct {
	source.Looker
	ended chan error // why each request ended
	hold  chan struct{}
}

func (m *muteSource) Check(ctx context.Context) error {
	<-ctx.Done()
	m.ended <- ctx.Err()
	<-m.hold
	return domain.ErrWrongNetwork
}

func (m *muteSource) Latest(ctx context.Context) (uint32, error) { return 0, m.Check(ctx) }

type unchecked struct{ source.Source }

func (unchecked) Check(context.Context) error { return nil }

// If all servers are needed and one is wrong, no ledger may be skipped: the panel waits until
// that server is right again.
func TestAServerComesBackHonest(t *testing.T) {
	h := newHistory(t)
	a, b := h.serve(t, quorumLast), h.serve(t, quorumLast)
	b.give(h.lies)
	p := newPanel(t, 2, never, servers(t, "a", a, "b", b)...)
	read(t, p, h.passphrase, firstLedger, forgedAt-1)
	got := p.begin(within(t), forgedAt)
	testkit.Eventually(t, "that they differ is said", func() bool {
		return strings.Contains(p.log.String(), "fewer sources of ledgers agree")
	})
	asked := a.requests()
	testkit.Eventually(t, "both are asked again", func() bool { return a.requests() > asked+4 })
	if len(got) > 0 {
		t.Fatalf("one of two was believed: %+v", <-got)
	}
	b.give(h.honest)
	if g := <-got; g.err != nil || g.page[0].Hash != h.honest[forgedAt].Hash {
		t.Fatalf("got %+v", g)
	}
	compare(t, "all", read(t, p, h.passphrase, forgedAt+1, quorumLast),
		h.ledgers[forgedAt+1-firstLedger:])
}

// If one of three sources has another history, it is left out and the others continue. Two of
// three stop the reading, as after a reset of the network. If one of two is wrong and both are
// needed, it is waited for.
func TestForks(t *testing.T) {
	h := newHistory(t)
	const due = forgedAt + 4
	fork := func() *server {
		s := h.serve(t, quorumLast)
		s.give(h.lies)
		return s
	}
	for _, forked := range []int{1, 2} {
		named := []any{"honest", h.serve(t, quorumLast)}
		for i := range 2 {
			s := h.serve(t, quorumLast)
			if i < forked {
				s = fork()
			}
			named = append(named, fmt.Sprint("server ", i), s)
		}
		p := newPanel(t, 2, never, servers(t, named...)...)
		p.Continue(due-1, h.honest[due-1].Hash)
		page, err := p.Next(within(t), due)
		switch {
		case forked == 1 && (err != nil || page[0].Hash != h.honest[due].Hash):
			t.Errorf("one is forked: %+v %v", page, err)
		case forked == 2 && !errors.Is(err, domain.ErrForked):
			t.Errorf("two are forked: %+v %v", page, err)
		}
		if forked == 1 {
			read(t, p, h.passphrase, due+uint32(len(page)), quorumLast)
			ctx, cancel := context.WithCancel(within(t))
			more := p.begin(ctx, quorumLast+1)
			testkit.Eventually(t, "it is named", func() bool { return p.hasLeft("server 0 forked") })
			cancel()
			<-more
		}
		if forked == 2 && (!p.hasLeft("server 0 forked") || !p.hasLeft("server 1 forked")) {
			t.Errorf("they were not named: %v", p.leftOnes())
		}
	}
	back := fork()
	p := newPanel(t, 2, never, servers(t, "honest", h.serve(t, quorumLast), "back", back)...)
	p.Continue(due-1, h.honest[due-1].Hash)
	got := p.begin(within(t), due)
	testkit.Eventually(t, "it is named", func() bool { return p.hasLeft("back forked") })
	back.give(h.honest)
	if g := <-got; g.err != nil || g.page[0].Hash != h.honest[due].Hash {
		t.Errorf("got %+v", g)
	}
}

// If fewer servers are available than needed, the error must be clear, and the panel waits.
func TestFewerThanAreNeededAreWaitedFor(t *testing.T) {
	h := newHistory(t)
	a, b := h.serve(t, quorumLast), h.serve(t, quorumLast)
	gone := h.serve(t, quorumLast)
	p := newPanel(t, 2, 5*time.Millisecond, servers(t, "a", a, "b", b, "gone", gone)...)
	gone.Close()
	read(t, p, h.passphrase, firstLedger, forgedAt)
	p.Continue(forgedAt, h.honest[forgedAt].Hash)
	b.silent()
	got := p.begin(within(t), forgedAt+1)
	testkit.Eventually(t, "it is said", func() bool {
		return strings.Contains(p.log.String(), "fewer sources of ledgers agree") &&
			p.hasLeft("b late") && p.hasLeft("gone away")
	})
	if len(got) > 0 {
		t.Fatalf("one was enough: %+v", <-got)
	}
	b.set(b.answerAgain)
	if g := <-got; g.err != nil || g.page[0].Sequence != forgedAt+1 {
		t.Errorf("got %+v", g)
	}
	none := newPanel(t, 2, 5*time.Millisecond, servers(t, "a", a, "gone", gone)...)
	if err := none.Check(within(t)); err == nil || !strings.Contains(err.Error(), "2 are needed") {
		t.Errorf("got %v", err)
	}
	if _, err := none.Latest(within(t)); err == nil {
		t.Error("one server alone said which ledger is the newest")
	}
}

func TestTheNewestLedgerIsThatOfEnough(t *testing.T) {
	h := newHistory(t)
	ahead := h.serve(t, quorumLast)
	ahead.set(func() { ahead.latest = 1 << 30 })
	p := newPanel(t, 2, never,
		servers(t, "ahead", ahead, "a", h.serve(t, 20), "b", h.serve(t, 15))...)
	if latest, err := p.Latest(within(t)); err != nil || latest != 20 {
		t.Errorf("got %d, %v", latest, err)
	}
}

// Sources of different kinds compare the same hashes.
func TestKindsOfSourcesAgree(t *testing.T) {
	h := newHistory(t)
	lake := quorum.Member{Name: "lake", Source: h.lake(t)}
	node := quorum.Member{Name: "rpc", Source: h.rpc(t)}
	compare(t, "both", read(t, newPanel(t, 2, never, node, lake), h.passphrase,
		firstLedger, quorumLast), h.ledgers)

	liar := h.serve(t, quorumLast)
	liar.give(h.lies)
	p := newPanel(t, 2, never, append(servers(t, "liar", liar), lake)...)
	read(t, p, h.passphrase, firstLedger, forgedAt-1)
	got := p.begin(within(t), forgedAt)
	testkit.Eventually(t, "that they differ is said", func() bool {
		return strings.Contains(p.log.String(), "fewer sources of ledgers agree")
	})
	if len(got) > 0 {
		t.Errorf("two that differ were enough: %+v", <-got)
	}
	liar.give(h.honest)
	g := <-got
	if g.err != nil || g.page[0].Hash != h.honest[forgedAt].Hash {
		t.Errorf("got %+v", g)
	}
}

// With a preferred source and a second one, the lake replaces a false server, and the server
// replaces a damaged lake.
func TestAFalseSourceIsLeftForTheNext(t *testing.T) {
	h := newHistory(t)
	damaged := map[uint32]ledger.Raw{}
	for sequence, l := range between(h.honest, forgedAt, forgedAt+3) {
		l.XDR = slices.Clone(l.XDR)
		l.XDR[len(l.XDR)/2] ^= 1
		damaged[sequence] = l
	}
	near := h.serve(t, quorumLast)
	near.give(damaged)
	var refused sync.WaitGroup
	refused.Add(1)
	var once sync.Once
	members := []quorum.Member{
		{Name: "rpc", Source: near.source(t, func() { once.Do(refused.Done) })},
		{Name: "lake", Source: h.lake(t)},
	}
	p := newPanel(t, 1, never, members...)
	compare(t, "a false server before a lake", read(t, p, h.passphrase, firstLedger, quorumLast),
		h.ledgers)
	refused.Wait()
	if !p.hasLeft("rpc refused") || !strings.Contains(p.log.String(), "reason=refused") {
		t.Errorf("the server was not named: %v", p.leftOnes())
	}

	files, err := filepath.Glob(filepath.Join(h.lakeDir, "*.zst"))
	if more, _ := filepath.Glob(filepath.Join(h.lakeDir, "*", "*.zst")); err == nil {
		files = append(files, more...)
	}
	if len(files) != 3 {
		t.Fatalf("the lake has the files %v (%v)", files, err)
	}
	for _, file := range files {
		if err := os.WriteFile(file, []byte("no ledgers"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p = newPanel(t, 1, never, quorum.Member{Name: "lake", Source: h.lake(t)},
		quorum.Member{Name: "rpc", Source: h.rpc(t)})
	compare(t, "a damaged lake before a server", read(t, p, h.passphrase, firstLedger, quorumLast),
		h.ledgers)
	if !p.hasLeft("lake refused") {
		t.Errorf("the lake was not named: %v", p.leftOnes())
	}
}

func TestWhatIsNoQuorum(t *testing.T) {
	c := open(t, nil)
	node := quorum.Member{Name: "rpc", Source: c.rpc(t)}
	other := quorum.Member{Name: "other", Source: c.rpc(t)}
	for name, config := range map[string]quorum.Config{
		"nobody":         {Need: 1},
		"none needed":    {Members: []quorum.Member{node}},
		"more than are":  {Members: []quorum.Member{node, other}, Need: 3},
		"twice the same": {Members: []quorum.Member{node, node}, Need: 2},
	} {
		if _, err := quorum.New(config); err == nil {
			t.Errorf("%s passed", name)
		}
	}
}
