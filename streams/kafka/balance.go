package kafka

import (
	"cmp"
	"slices"
)

// BalanceConfig configures how partitions are divided among the members of a group.
type BalanceConfig struct {
	Partitions int32
	// Replicas is the number of standbys per partition, if there are enough members.
	Replicas int
	// AcceptableLag is how many journal offsets a warm copy may be behind the furthest one. A member
	// with a warm copy can own the partition immediately.
	AcceptableLag int64
}

// maxWarming bounds how many partitions a member warms at once.
const maxWarming = 2

// GroupMember is the information that a member reports when it joins.
type GroupMember struct {
	ID   string
	Rack string // may be empty
	// Owns lists the partitions that the member has not given up. Generation is the group generation
	// in which it was last assigned any.
	Owns       []int32
	Generation int32
	// Folded is the journal offset that each of the member's copies has reached, owned partitions
	// included.
	Folded map[int32]int64
}

// Assignment lists the partitions assigned to one member, in ascending order.
type Assignment struct {
	Owns     []int32
	Standbys []int32
	// Warming lists the standbys for which the member asks for a rebalance when they are warm.
	Warming []int32
}

// Balance divides partitions among members, and returns the assignments by member id.
//
// A partition moves only to balance the members to within one, and only to a member with a warm
// copy. Until such a copy exists, the partition stays where it is, and a member with too few
// partitions warms one. A partition without an owner goes to a warm member or, failing that, to the
// member that is least behind, regardless of the balance. In such a round no member gives up a
// partition for the balance. A partition that another member still has is assigned only after that
// member has given it up, in a later assignment (KIP-429). Balancing by warming follows KIP-441.
//
// If possible, the standbys of a partition are in different racks from the owner and from each
// other. Among those choices they are spread evenly, and otherwise stay where they are. A standby
// that moves is kept until its successor is warm.
func Balance(members []GroupMember, cfg BalanceConfig) map[string]Assignment {
	b := newBalancing(members, cfg)
	b.assignUnowned()
	b.level()
	b.standBy()
	return b.assignments()
}

const nobody = -1

type balancing struct {
	BalanceConfig
	members []GroupMember // by id
	// By partition:
	furthest []int64 // the largest offset that a member has folded
	claimed  [][]int // members that still have it
	holder   []int   // the one with the latest claim
	owner    []int
	target   []int // the member that warms it
	standbys [][]int
	awaited  [][]int // standbys that must report when they are warm
	filling  bool    // whether some partition had no owner
	// By member:
	load    []int // partitions that it owns or will own
	warming []int
	copies  []int // standbys, without those for partitions that move to it
}

func newBalancing(members []GroupMember, cfg BalanceConfig) *balancing {
	b := &balancing{
		BalanceConfig: cfg,
		members:       slices.Clone(members),
		furthest:      make([]int64, cfg.Partitions),
		claimed:       make([][]int, cfg.Partitions),
		holder:        noneOf(cfg.Partitions),
		target:        noneOf(cfg.Partitions),
		standbys:      make([][]int, cfg.Partitions),
		awaited:       make([][]int, cfg.Partitions),
		load:          make([]int, len(members)),
		warming:       make([]int, len(members)),
		copies:        make([]int, len(members)),
	}
	slices.SortFunc(b.members, func(x, y GroupMember) int { return cmp.Compare(x.ID, y.ID) })
	for m, member := range b.members {
		for p, next := range member.Folded {
			if b.known(p) {
				b.furthest[p] = max(b.furthest[p], next)
			}
		}
		for _, p := range member.Owns {
			if b.known(p) {
				b.claim(m, p)
			}
		}
	}
	b.owner = slices.Clone(b.holder)
	for _, m := range b.owner {
		if m != nobody {
			b.load[m]++
		}
	}
	return b
}

func noneOf(partitions int32) []int {
	return slices.Repeat([]int{nobody}, int(partitions))
}

func (b *balancing) known(p int32) bool { return p >= 0 && p < b.Partitions }

// claim records that a member still has a partition. If two members claim it, the one with the
// earlier generation has missed an assignment.
func (b *balancing) claim(m int, p int32) {
	if slices.Contains(b.claimed[p], m) {
		return
	}
	b.claimed[p] = append(b.claimed[p], m)
	if h := b.holder[p]; h == nobody || b.members[m].Generation > b.members[h].Generation {
		b.holder[p] = m
	}
}

// lag returns how far a copy is behind the furthest one, or 0 if it is warm.
func (b *balancing) lag(m int, p int32) int64 {
	lag := b.furthest[p] - b.members[m].Folded[p]
	if lag <= b.AcceptableLag {
		return 0
	}
	return lag
}

func (b *balancing) warm(m int, p int32) bool { return b.lag(m, p) == 0 }

// hasNoCopy returns 1 if a member has no copy of a partition, as a sort key.
func (b *balancing) hasNoCopy(m int, p int32) int {
	if _, has := b.members[m].Folded[p]; has {
		return 0
	}
	return 1
}

func (b *balancing) assignUnowned() {
	for p := range b.Partitions {
		if b.owner[p] != nobody || len(b.members) == 0 {
			continue
		}
		best := 0
		for m := range b.members {
			if cmp.Or(
				cmp.Compare(b.lag(m, p), b.lag(best, p)),
				cmp.Compare(b.load[m], b.load[best]),
				cmp.Compare(b.hasNoCopy(m, p), b.hasNoCopy(best, p)),
			) < 0 {
				best = m
			}
		}
		b.owner[p] = best
		b.load[best]++
		b.filling = true
	}
}

type move struct {
	p  int32
	to int
}

// level moves partitions until the members are balanced to within one: now if the target is warm,
// later if it is not. In a round that fills partitions without an owner, no member gives one up
// just for the balance; the target asks for a rebalance later.
func (b *balancing) level() {
	for {
		best, found := b.bestMove()
		if !found {
			return
		}
		p, to := best.p, best.to
		b.load[b.owner[p]]--
		b.load[to]++
		switch {
		case b.warm(to, p) && (!b.filling || len(b.claimed[p]) == 0):
			b.owner[p] = to
		case b.warming[to] < maxWarming:
			b.warming[to]++
			b.target[p] = to
		default:
			b.target[p] = later
		}
	}
}

const later = -2

// bestMove returns the next move from a member with the most partitions to one with the fewest,
// preferring moves that can happen soon and disturb little.
func (b *balancing) bestMove() (best move, found bool) {
	if len(b.members) == 0 {
		return best, false
	}
	most, fewest := slices.Max(b.load), slices.Min(b.load)
	if most-fewest <= 1 {
		return best, false
	}
	for p := range b.Partitions {
		if b.target[p] != nobody || b.load[b.owner[p]] != most {
			continue
		}
		for to := range b.members {
			candidate := move{p, to}
			if b.load[to] == fewest && (!found || b.compareMoves(candidate, best) < 0) {
				best, found = candidate, true
			}
		}
	}
	return best, found
}

func (b *balancing) compareMoves(x, y move) int {
	cold := func(m move) int {
		if b.warm(m.to, m.p) {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(cold(x), cold(y)),
		cmp.Compare(min(len(b.claimed[x.p]), 1), min(len(b.claimed[y.p]), 1)),
		cmp.Compare(b.hasNoCopy(x.to, x.p), b.hasNoCopy(y.to, y.p)),
		cmp.Compare(b.lag(x.to, x.p), b.lag(y.to, y.p)),
	)
}

func (b *balancing) standBy() {
	replicas := min(b.Replicas, len(b.members)-1)
	if replicas > 0 {
		most := (int(b.Partitions)*replicas + len(b.members) - 1) / len(b.members)
		for p := range b.Partitions {
			for range replicas {
				m := b.bestStandby(p, most)
				b.standbys[p] = append(b.standbys[p], m)
				b.copies[m]++
			}
		}
	}
	for p := range b.Partitions {
		b.keepWarm(p)
	}
}

func (b *balancing) bestStandby(p int32, most int) int {
	best := nobody
	full := func(m int) int { return min(b.copies[m]/most, 1) }
	for m := range b.members {
		if m == b.owner[p] || slices.Contains(b.standbys[p], m) {
			continue
		}
		if best == nobody || cmp.Or(
			cmp.Compare(b.neighbours(m, p), b.neighbours(best, p)),
			cmp.Compare(full(m), full(best)),
			cmp.Compare(b.hasNoCopy(m, p), b.hasNoCopy(best, p)),
			cmp.Compare(b.lag(m, p), b.lag(best, p)),
			cmp.Compare(b.copies[m], b.copies[best]),
		) < 0 {
			best = m
		}
	}
	return best
}

func (b *balancing) neighbours(m int, p int32) (n int) {
	rack := b.members[m].Rack
	if rack == "" {
		return 0
	}
	for _, other := range append([]int{b.owner[p]}, b.standbys[p]...) {
		if b.members[other].Rack == rack {
			n++
		}
	}
	return n
}

// keepWarm adds standbys to a partition: the member that warms it to own it later, the next owner
// while the previous one still has it, and previous standbys whose replacements are not warm yet.
func (b *balancing) keepWarm(p int32) {
	chosen := slices.Clone(b.standbys[p])
	for _, m := range chosen {
		if b.warm(m, p) {
			continue
		}
		for former := range b.members {
			if former != b.owner[p] && !slices.Contains(b.standbys[p], former) &&
				b.hasNoCopy(former, p) == 0 && b.warm(former, p) {
				b.standbys[p] = append(b.standbys[p], former)
				b.awaited[p] = append(b.awaited[p], m)
				break
			}
		}
	}
	if m := b.target[p]; m >= 0 {
		b.awaited[p] = append(b.awaited[p], m)
		b.standbys[p] = append(b.standbys[p], m)
	}
	if m := b.owner[p]; m != nobody && !b.mayOwn(m, p) && b.hasNoCopy(m, p) == 0 {
		b.standbys[p] = append(b.standbys[p], m)
	}
}

// mayOwn reports whether no other member still has the partition.
func (b *balancing) mayOwn(m int, p int32) bool {
	return len(b.claimed[p]) == 0 || b.holder[p] == m
}

func (b *balancing) assignments() map[string]Assignment {
	by := make(map[string]Assignment, len(b.members))
	for m, member := range b.members {
		var a Assignment
		for p := range b.Partitions {
			if b.owner[p] == m && b.mayOwn(m, p) {
				a.Owns = append(a.Owns, p)
			}
			if slices.Contains(b.standbys[p], m) {
				a.Standbys = append(a.Standbys, p)
			}
			if slices.Contains(b.awaited[p], m) {
				a.Warming = append(a.Warming, p)
			}
		}
		by[member.ID] = a
	}
	return by
}
