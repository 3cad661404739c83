package kafka

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// groupModel is a group whose members follow their assignments. They give up the partitions that
// they are no longer assigned, and then join again.
type groupModel struct {
	t          *rapid.T
	cfg        BalanceConfig
	members    map[string]*GroupMember
	ends       []int64 // end offsets of the journals
	generation int32
	latest     map[string]Assignment
}

func drawGroup(t *rapid.T) *groupModel {
	g := &groupModel{
		t: t,
		cfg: BalanceConfig{
			Partitions:    rapid.Int32Range(1, 24).Draw(t, "partitions"),
			Replicas:      rapid.IntRange(0, 3).Draw(t, "replicas"),
			AcceptableLag: 10,
		},
		members: make(map[string]*GroupMember),
	}
	for p := range g.cfg.Partitions {
		end := int64(rapid.IntRange(0, 100).Draw(t, fmt.Sprint("end of ", p)))
		g.ends = append(g.ends, end)
	}
	return g
}

func (g *groupModel) join(id string) {
	if g.members[id] != nil {
		return
	}
	m := &GroupMember{
		ID:         id,
		Rack:       rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(g.t, "rack"),
		Generation: -1,
		Folded:     make(map[int32]int64),
	}
	g.members[id] = m
}

// grow has copies fold some of the records that they lack, or all of them.
func (g *groupModel) grow(all bool) {
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		m := g.members[id]
		for _, p := range slices.Sorted(maps.Keys(m.Folded)) {
			if all || slices.Contains(m.Owns, p) {
				m.Folded[p] = g.ends[p]
			} else {
				m.Folded[p] = rapid.Int64Range(m.Folded[p], g.ends[p]).Draw(g.t, "folded")
			}
		}
	}
}

func (g *groupModel) list() (list []GroupMember) {
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		m := *g.members[id]
		m.Owns, m.Folded = slices.Clone(m.Owns), maps.Clone(m.Folded)
		list = append(list, m)
	}
	return list
}

// rebalance assigns partitions, checks the assignment, and has the members follow it. It reports
// whether a member gave up a partition, so that another assignment follows.
func (g *groupModel) rebalance() (again bool) {
	before := g.list()
	g.latest = Balance(before, g.cfg)
	g.check(before)
	g.generation++
	for id, m := range g.members {
		a := g.latest[id]
		for _, p := range m.Owns {
			again = again || !slices.Contains(a.Owns, p)
		}
		m.Owns, m.Generation = slices.Clone(a.Owns), g.generation
		for p := range g.cfg.Partitions {
			_, has := m.Folded[p]
			switch keeps := slices.Contains(a.Owns, p) || slices.Contains(a.Standbys, p); {
			case keeps && !has:
				m.Folded[p] = 0
			case !keeps:
				delete(m.Folded, p)
			}
		}
	}
	g.grow(false)
	return again
}

func (g *groupModel) check(before []GroupMember) {
	for p := range g.cfg.Partitions {
		var owner string
		for id, a := range g.latest {
			if !slices.Contains(a.Owns, p) {
				continue
			}
			if owner != "" {
				g.t.Fatalf("partition %d is both %s's and %s's", p, owner, id)
			}
			owner = id
			if slices.Contains(a.Standbys, p) {
				g.t.Fatalf("%s owns partition %d and stands by for it", id, p)
			}
		}
		if owner != "" {
			g.checkMove(before, p, owner)
		}
	}
	g.checkUndisturbed(before)
	for id, a := range g.latest {
		warming := 0
		for _, p := range a.Warming {
			if !slices.Contains(a.Standbys, p) {
				g.t.Fatalf("%s warms partition %d and does not fold it", id, p)
			}
			if g.end(before, p)-g.members[id].Folded[p] > g.cfg.AcceptableLag {
				warming++
			}
		}
		if g.cfg.Replicas == 0 && warming > maxWarming {
			g.t.Fatalf("%s warms %d partitions at once", id, warming)
		}
	}
}

// checkUndisturbed checks that no member gives up a partition in a round that assigns a partition
// without an owner.
func (g *groupModel) checkUndisturbed(before []GroupMember) {
	holder, generation := make(map[int32]string), make(map[int32]int32)
	for _, m := range before { // in the order in which Balance sees them
		for _, p := range m.Owns {
			if holder[p] == "" || m.Generation > generation[p] {
				holder[p], generation[p] = m.ID, m.Generation
			}
		}
	}
	if len(holder) == int(g.cfg.Partitions) {
		return
	}
	for p, id := range holder {
		if !slices.Contains(g.latest[id].Owns, p) {
			g.t.Fatalf("%s gives partition %d up while another is nobody's", id, p)
		}
	}
}

func (g *groupModel) end(members []GroupMember, p int32) (end int64) {
	for _, m := range members {
		end = max(end, m.Folded[p])
	}
	return end
}

// checkMove checks that a partition which a member gets has no other owner. The member's copy must
// be warm.
func (g *groupModel) checkMove(before []GroupMember, p int32, owner string) {
	end, warmest := g.end(before, p), int64(-1)
	for _, m := range before {
		warmest = max(warmest, m.Folded[p])
		switch {
		case !slices.Contains(m.Owns, p):
		case m.ID == owner:
			return
		case m.Generation == g.generation:
			g.t.Fatalf("partition %d is given to %s, and %s has not given it up", p, owner, m.ID)
		}
	}
	if lag := end - g.members[owner].Folded[p]; lag > g.cfg.AcceptableLag {
		g.t.Fatalf("partition %d is given to %s, which is %d behind; another is %d behind",
			p, owner, lag, end-warmest)
	}
}

// settle rebalances until nothing changes. Copies are folded to the end between the rounds.
func (g *groupModel) settle() {
	g.latest = nil
	for range 4 + 2*int(g.cfg.Partitions) {
		before := g.latest
		g.grow(true)
		again := g.rebalance()
		if !again && reflect.DeepEqual(before, g.latest) {
			return
		}
	}
	g.t.Fatalf("the group does not come to rest: %v", g.latest)
}

func (g *groupModel) checkRest() {
	fewest, most := int(g.cfg.Partitions), 0
	for id, a := range g.latest {
		fewest, most = min(fewest, len(a.Owns)), max(most, len(a.Owns))
		if len(a.Warming) > 0 {
			g.t.Fatalf("%s still warms %v", id, a.Warming)
		}
	}
	if most-fewest > 1 {
		g.t.Fatalf("a member has %d partitions, another %d", most, fewest)
	}
	for p := range g.cfg.Partitions {
		g.checkCopies(p)
	}
}

func (g *groupModel) checkCopies(p int32) {
	owner, standbys, racks := "", 0, make(map[string]bool)
	for id, a := range g.latest {
		if slices.Contains(a.Owns, p) {
			owner = id
		}
		if slices.Contains(a.Standbys, p) {
			standbys++
			racks[g.members[id].Rack] = true
		}
	}
	if owner == "" {
		g.t.Fatalf("partition %d is nobody's", p)
	}
	if want := min(g.cfg.Replicas, len(g.members)-1); standbys != want {
		g.t.Fatalf("partition %d has %d standbys, want %d", p, standbys, want)
	}
	home := g.members[owner].Rack
	if standbys == 0 || home == "" || len(racks) > 1 || !racks[home] {
		return
	}
	for id, m := range g.members {
		if m.Rack != home {
			g.t.Fatalf("partition %d of %s has standbys in its rack only, and %s is in another",
				p, owner, id)
		}
	}
}

// Whatever happens, each partition has at most one owner at a time and moves only to a warm member.
// When nothing more happens, the group settles: it is balanced, with standbys in other racks.
func TestBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t)
		id := rapid.SampledFrom([]string{"u", "v", "w", "x", "y", "z"})
		g.join("u")
		t.Repeat(map[string]func(*rapid.T){
			"joins":      func(t *rapid.T) { g.join(id.Draw(t, "id")) },
			"rebalances": func(*rapid.T) { g.rebalance() },
			"leaves": func(t *rapid.T) {
				if who := id.Draw(t, "id"); len(g.members) > 1 {
					delete(g.members, who)
				}
			},
			"forgets": func(t *rapid.T) { // as a process does that restarts without its state
				if m := g.members[id.Draw(t, "id")]; m != nil {
					m.Owns, m.Generation, m.Folded = nil, -1, make(map[int32]int64)
				}
			},
			"journals grow": func(t *rapid.T) {
				for p := range g.ends {
					g.ends[p] += int64(rapid.IntRange(0, 50).Draw(t, "more"))
				}
				g.grow(false)
			},
		})
		g.settle()
		g.checkRest()
	})
}

func ids(by map[string]Assignment, of func(Assignment) []int32, p int32) (list []string) {
	for _, id := range slices.Sorted(maps.Keys(by)) {
		if slices.Contains(of(by[id]), p) {
			list = append(list, id)
		}
	}
	return list
}

func owns(a Assignment) []int32     { return a.Owns }
func standbys(a Assignment) []int32 { return a.Standbys }
func warming(a Assignment) []int32  { return a.Warming }

// When an owner dies, the partition goes to a member with a warm copy, even if that member has more
// partitions. Of two members with warm copies, the one with fewer partitions gets it.
func TestTheDeadOnesStandbyIsItsHeir(t *testing.T) {
	cfg := BalanceConfig{Partitions: 3, AcceptableLag: 10}
	busy := GroupMember{ID: "busy", Owns: []int32{0, 1}, Generation: 4}
	busy.Folded = map[int32]int64{0: 90, 1: 90, 2: 500}
	for _, idle := range []int64{0, 300, 480} {
		fresh := GroupMember{ID: "idle", Generation: 4, Folded: map[int32]int64{2: idle}}
		by := Balance([]GroupMember{busy, fresh}, cfg)
		if got := ids(by, owns, 2); !slices.Equal(got, []string{"busy"}) {
			t.Errorf("with %d folded elsewhere partition 2 is %v's", idle, got)
		}
	}
	fresh := GroupMember{ID: "idle", Generation: 4, Folded: map[int32]int64{2: 495}}
	if got := ids(Balance([]GroupMember{busy, fresh}, cfg), owns, 2); got[0] != "idle" {
		t.Errorf("of two that are warm %v gets it, which has more to do", got)
	}
}

// A member that missed an assignment claims a partition that another member has by now. The other
// member keeps it.
func TestAClaimOfAnEarlierGenerationGivesNothing(t *testing.T) {
	stale := GroupMember{ID: "a", Owns: []int32{0}, Generation: 3}
	owner := GroupMember{ID: "b", Owns: []int32{0}, Generation: 4}
	third := GroupMember{ID: "c", Owns: []int32{1}, Generation: 4}
	by := Balance([]GroupMember{stale, owner, third}, BalanceConfig{Partitions: 2})
	if got := ids(by, owns, 0); !slices.Equal(got, []string{"b"}) {
		t.Errorf("partition 0 is %v's", got)
	}
}

// The owner keeps the partition until the new member's copy is warm, and then gives it up.
func TestAMemberThatJoinsIsWarmedFirst(t *testing.T) {
	cfg := BalanceConfig{Partitions: 2, AcceptableLag: 10}
	owner := GroupMember{ID: "a", Owns: []int32{0, 1}, Generation: 1}
	owner.Folded = map[int32]int64{0: 100, 1: 100}
	joins := GroupMember{ID: "b", Generation: -1}
	by := Balance([]GroupMember{owner, joins}, cfg)
	if !slices.Equal(by["a"].Owns, []int32{0, 1}) || len(ids(by, warming, 0)) != 1 {
		t.Fatalf("while it is cold: %+v", by)
	}
	joins.Folded = map[int32]int64{0: 95}
	by = Balance([]GroupMember{owner, joins}, cfg)
	if !slices.Equal(by["a"].Owns, []int32{1}) || len(by["b"].Owns) > 0 ||
		!slices.Equal(ids(by, standbys, 0), []string{"b"}) {
		t.Fatalf("when it is warm: %+v", by)
	}
	owner.Owns = []int32{1}
	by = Balance([]GroupMember{owner, joins}, cfg)
	if !slices.Equal(by["b"].Owns, []int32{0}) {
		t.Fatalf("when it was given up: %+v", by)
	}
}

// The only warm member gets a dead member's partitions, although it already has more. The
// partitions that it works on are not moved in the same round. The member with fewer partitions
// asks for them afterwards.
func TestAnHeirIsNotRelievedAtOnce(t *testing.T) {
	cfg := BalanceConfig{Partitions: 4, AcceptableLag: 10}
	heir := GroupMember{ID: "heir", Owns: []int32{0, 1}, Generation: 4}
	heir.Folded = map[int32]int64{0: 90, 1: 90, 2: 500}
	other := GroupMember{ID: "other", Owns: []int32{3}, Generation: 4}
	other.Folded = map[int32]int64{1: 90, 3: 70}
	by := Balance([]GroupMember{heir, other}, cfg)
	if !slices.Equal(by["heir"].Owns, []int32{0, 1, 2}) ||
		!slices.Equal(ids(by, warming, 1), []string{"other"}) {
		t.Fatalf("at first: %+v", by)
	}
	heir.Owns = by["heir"].Owns
	if by = Balance([]GroupMember{heir, other}, cfg); !slices.Equal(by["heir"].Owns, []int32{0, 2}) {
		t.Fatalf("then: %+v", by)
	}
}
