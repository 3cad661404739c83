package source_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/quorum"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// behaviour is a possible reaction of a source to a request for a ledger.
type behaviour byte

const (
	honest     behaviour = 'A' // returns the ledger
	lying      behaviour = 'B' // returns another ledger that continues the chain
	waiting    behaviour = 'W' // does not have it yet
	silentOne  behaviour = 'S' // does not answer
	failing    behaviour = 'E' // answers that it is not available
	pruned     behaviour = 'P' // no longer has it
	unreadable behaviour = 'U' // returns a ledger of an unknown form
	forked     behaviour = 'F' // returns a ledger of another chain
)

const behaviours = "ABWSEPUF"

// combinations returns all multisets of behaviours of the given size. If need is 1, the order of
// the sources matters, so it returns all orders.
func combinations(size, need int) (all []string) {
	var extend func(begun string)
	extend = func(begun string) {
		if len(begun) == size {
			all = append(all, begun)
			return
		}
		for at, one := range behaviours {
			if need == 1 || begun == "" || at >= strings.IndexByte(behaviours, begun[len(begun)-1]) {
				extend(begun + string(one))
			}
		}
	}
	extend("")
	return all
}

type counting struct {
	source.Looker
	looks atomic.Int32
}

func (c *counting) Look(ctx context.Context, due uint32) ([]ledger.Raw, error) {
	c.looks.Add(1)
	return c.Looker.Look(ctx, due)
}

// verdicts requests one ledger from all combinations of sources.
type verdicts struct {
	*history
	due  uint32
	lies map[uint32]ledger.Raw // lies that continue the chain
}

// behave returns a server that reacts this way to a request for the due ledger.
func (v *verdicts) behave(t *testing.T, b behaviour) *server {
	t.Helper()
	s := v.serve(t, v.due-1)
	switch b {
	case honest:
		s.give(between(v.honest, v.due, v.due))
	case lying:
		s.give(v.lies)
	case waiting:
	case silentOne:
		s.silent()
	case failing:
		s.set(func() { s.away = true })
	case pruned:
		s.set(func() { s.oldest, s.latest = v.due+10, v.due+20 })
	case unreadable:
		l := v.honest[v.due]
		l.XDR = append([]byte{0, 0, 0, 9}, l.XDR[4:]...)
		s.give(map[uint32]ledger.Raw{v.due: l})
	case forked:
		s.give(v.history.lies)
	}
	return s
}

// For every combination of sources, a ledger that enough sources agree on must be returned, a
// fork must be reported if enough sources prove it, and a missing ledger if enough sources lack
// it. Otherwise the sources wait. When those that waited, were silent or failed finally answer,
// the ledger is returned.
func TestVerdictsOnAllCombinations(t *testing.T) {
	h := newHistory(t)
	v := &verdicts{history: h, due: forgedAt + 1}
	v.lies = forge(t, h.honest, h.passphrase, v.due, v.due)
	for _, shape := range []struct{ size, need int }{
		{1, 1}, {2, 1}, {2, 2}, {3, 1}, {3, 2}, {3, 3}, {4, 2},
	} {
		t.Run(fmt.Sprint(shape.need, " of ", shape.size), func(t *testing.T) {
			t.Parallel()
			for _, all := range combinations(shape.size, shape.need) {
				v.try(t, all, shape.need)
			}
		})
	}
}

func (v *verdicts) try(t *testing.T, all string, need int) {
	t.Helper()
	var members []quorum.Member
	var counted []*counting
	var shaped []*server
	for i, one := range []byte(all) {
		s := v.behave(t, behaviour(one))
		c := &counting{Looker: s.source(t, nil)}
		shaped, counted = append(shaped, s), append(counted, c)
		members = append(members, quorum.Member{Name: fmt.Sprint(i), Source: c})
	}
	p := newPanel(t, need, 4*poll, members...)
	p.Continue(v.due-1, v.honest[v.due-1].Hash)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(t))
	defer cancel()
	got := p.begin(ctx, v.due)
	testkit.Eventually(t, all+": a verdict on all answers", func() bool {
		return len(got) > 0 || !slices.ContainsFunc(counted, func(c *counting) bool {
			i := slices.Index(counted, c)
			return all[i] != byte(silentOne) && c.looks.Load() < 2
		})
	})
	count := func(some string) (n int) {
		for _, one := range all {
			n += strings.Count(some, string(one))
		}
		return n
	}
	left := len(all) - need
	fail := func(what string, g given) {
		t.Helper()
		t.Errorf("%d of %s: %s, got %d ledgers, %v", need, all, what, len(g.page), g.err)
	}
	switch a, b := count("A"), count("B"); {
	case a >= need && b >= need: // enough sources agree on the lie as well
		cancel()
		<-got
	case need == 1 && a+b > 0 || (a >= need) != (b >= need):
		g := <-got
		if g.err != nil || need > 1 && (g.page[0].Hash == v.honest[v.due].Hash) != (a >= need) {
			fail("want the ledger that enough name", g)
		}
	case count("F") > left && count("F") >= need:
		g := <-got
		// A source that was late may not have been counted.
		if !errors.Is(g.err, domain.ErrForked) && (count("PU") == 0 || !source.IsPermanent(g.err)) {
			fail("want a fork", g)
		}
	case count("PU") > 0 && count("PUF") > left:
		if g := <-got; !source.IsPermanent(g.err) || errors.Is(g.err, domain.ErrForked) {
			fail("want that the ledger cannot be had", g)
		}
	default:
		if len(got) > 0 {
			fail("want to wait", <-got)
			return
		}
		later := a + count("WSE")
		if later < need || b >= need {
			cancel()
			<-got
			return
		}
		for i, s := range shaped {
			if strings.IndexByte("WSE", all[i]) >= 0 {
				s.give(between(v.honest, v.due, v.due))
				s.set(func() { s.away = false; s.answerAgain() })
			}
		}
		if g := <-got; g.err != nil || g.page[0].Hash != v.honest[v.due].Hash {
			fail("want the ledger, once enough give it", g)
		}
	}
	for _, s := range shaped {
		s.set(s.answerAgain)
		s.Close()
	}
}

// If one of three sources reports another network, it is ignored. Two of three prove that the
// network is another. If one source is enough, it cannot be outvoted.
func TestAWrongNetworkIsOutvoted(t *testing.T) {
	h := newHistory(t)
	serves := func(passphrase string) *server {
		s := h.serve(t, quorumLast)
		s.set(func() { s.passphrase = passphrase })
		return s
	}
	right := func() *server { return serves(h.passphrase) }
	wrong := func() *server { return serves("other") }
	gone := right()
	gone.Close()
	for name, c := range map[string]struct {
		need           int
		servers        []*server
		wrong, answers bool
	}{
		"one liar":              {2, []*server{wrong(), right(), right()}, false, true},
		"two of three":          {2, []*server{wrong(), right(), wrong()}, true, false},
		"one, and one is away":  {2, []*server{wrong(), gone, right()}, false, false},
		"all are needed":        {2, []*server{right(), wrong()}, true, false},
		"one of two is enough":  {1, []*server{right(), wrong()}, true, false},
		"four, of which two do": {2, []*server{wrong(), wrong(), right(), right()}, false, true},
	} {
		var members []quorum.Member
		for i, s := range c.servers {
			members = append(members,
				quorum.Member{Name: fmt.Sprint(i), Source: s.read(t, h.passphrase, nil)})
		}
		err := newPanel(t, c.need, never, members...).Check(within(t))
		if errors.Is(err, domain.ErrWrongNetwork) != c.wrong || (err == nil) != c.answers {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// An unusable source is logged once, and again only when another source becomes unusable.
func TestAnUnusableSourceIsSaidOnce(t *testing.T) {
	h := newHistory(t)
	away, b := h.serve(t, quorumLast), h.serve(t, quorumLast)
	p := newPanel(t, 2, never, servers(t, "away", away, "a", h.serve(t, quorumLast), "b", b)...)
	ask := func(warnings, infos int) {
		t.Helper()
		for range 5 {
			if latest, err := p.Latest(within(t)); err != nil || latest != quorumLast {
				t.Errorf("got %d, %v", latest, err)
			}
		}
		log := p.log.String()
		if strings.Count(log, "level=WARN") != warnings || strings.Count(log, "level=INFO") != infos {
			t.Errorf("want %d warnings and %d that all is well:\n%s", warnings, infos, log)
		}
	}
	ask(0, 0)
	away.set(func() { away.away = true })
	ask(1, 0)
	away.set(func() { away.away = false })
	ask(1, 1)
	b.set(func() { b.away = true })
	ask(2, 1)
}
