package kafka

import (
	"cmp"
	"slices"
)

// BalanceConfig configures how partitions are divided among the members of a group.
type BalanceConfig struct {
	Partitions int32
	// Replicas is the number of standbys for each partition, if there are enough members.
	Replicas int
	// AcceptableLag is the number of journal offsets by which a warm copy may be behind the
	// furthest one. A member with a warm copy may own the partition at once.
	AcceptableLag int64
}

// maxWarming bounds how many partitions a member warms at once in order to own them.
const maxWarming = 2

// GroupMember is the description that a member sends when it joins.
type GroupMember struct {
	ID   string
	Rack string // empty: unknown
	// Owns are the partitions that it has not given up. Generation is the one in which it was last
	// assigned any.
	Owns       []int32
	Generation int32
	// Folded is the journal offset up to which each of the member's copies is folded, including the
	// partitions that it owns.
	Folded map[int32]int64
}

// Assignment lists the partitions assigned to one member, in ascending order.
type Assignment struct {
	Owns     []int32
	Standbys []int32
	// Warming are the standbys that the member must report when they are warm: it then asks for the
	// next assignment.
	Warming []int32
}

// Balance divides partitions among members, and returns the assignments by member id.
//
// A partition moves only if that balances the members to within one, and only to a member with a
// warm copy. Until one exists, the partition stays, and a member with too few partitions warms it.
// A partition without an owner goes to a warm member, or else to the member that is least behind,
// whatever the balance. In such a round no member gives up a partition for the balance. A partition
// that another member still has is assigned only after that member has given it up, which takes
// another assignment (KIP-429). Balancing by warming follows KIP-441.
//
// Standbys are placed in other racks than the owner and each other if possible, then evenly, and
// otherwise stay where they are. A standby that moves is kept until its successor is warm.
func Balance(members []GroupMember, cfg BalanceConfig) map[string]Assignment {
	b := newBalancing(members, cfg)
	b.assignUnowned()
	b.level()
	b.standBy()
	return b.assignments()
}

// nobody is the index of no member.
const nobody = -1

// balancing is an assignment in progress. Members are identified by their index.
type balancing struct {
	BalanceConfig
	members []GroupMember // in the order of their ids
	// By partition:
	furthest []int64 // offset up to which some member has folded it
	claimed  [][]int // the members that still have it
	holder   []int   // the one of them whose claim is the latest
	owner    []int   // who will own it now
	target   []int   // who warms it in order to own it later
	standbys [][]int
	awaited  [][]int // the standbys that must report when they are warm
	filling  bool    // a partition without an owner gets one
	// By member:
	load    []int // partitions that it owns or will own
	warming []int
	copies  []int // partitions that it stands by for, not counting those that move to it
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

// claim records that a member still has a partition. If two members claim it, the claim with the
// earlier generation is from a member that missed an assignment.
func (b *balancing) claim(m int, p int32) {
	if slices.Contains(b.claimed[p], m) {
		return
	}
	b.claimed[p] = append(b.claimed[p], m)
	if h := b.holder[p]; h == nobody || b.members[m].Generation > b.members[h].Generation {
		b.holder[p] = m
	}
}

// lag returns how far a member's copy is behind the furthest one; 0 for a warm copy.
func (b *balancing) lag(m int, p int32) int64 {
	lag := b.furthest[p] - b.members[m].Folded[p]
	if lag <= b.AcceptableLag {
		return 0
	}
	return lag
}

func (b *balancing) warm(m int, p int32) bool { return b.lag(m, p) == 0 }

// hasNoCopy is 1 for a member without a copy of a partition, as a sort key.
func (b *balancing) hasNoCopy(m int, p int32) int {
	if _, has := b.members[m].Folded[p]; has {
		return 0
	}
	return 1
}

// assignUnowned gives each partition without an owner to the member that can start soonest.
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

// move moves one partition from a member that has too many to one that has too few.
type move struct {
	p  int32
	to int
}

// level moves partitions until the members have the same number of them within one: now if the
// target is warm, later if it is not. While a partition without an owner is assigned, no member is
// interrupted for the balance alone: the member that should get such a partition asks for it a
// little later.
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

// later marks a partition that will be warmed after other ones.
const later = -2

// bestMove returns the next move: from a member with most partitions to one with fewest, preferring
// the move that can be made soonest and disturbs least.
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

// standBy chooses the standbys of each partition.
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

// bestStandby returns the member to add to the standbys of a partition. No member should stand by
// for more than most partitions.
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

// neighbours returns how many of a partition's owner and standbys are in a member's rack.
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

// keepWarm adds to the standbys of a partition: the member that warms it in order to own it, the
// member that will own it once the former owner has given it up, and former standbys as long as
// their replacements are not warm.
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

// mayOwn reports whether a member may work on a partition at once, because no other member still
// does.
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
