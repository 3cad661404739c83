package store

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// TimerIndex finds due entries. The store contains the entries, ordered by group and time. Memory
// contains only a small record per group, however many entries wait.
//
//	0x01 | group | 0x00 | due, 8 bytes, big endian | id -> the entry's value
//	0x02 | group, if all entries of the group count as due
//
// Values are read together with their entries, in due order. Reading the owner's own keys instead
// would be random reads. A single write of the second kind makes a million entries due, and also
// entries that are added later, until the group is empty.
//
// Due entries are claimed round-robin among groups, and stay in the store until a batch clears
// them. Claims are only in memory: after a restart everything due is claimed again. Only the
// goroutine of its task may use an index.
type TimerIndex struct {
	store  *Store
	groups map[string]*timerGroup
	future groupHeap     // groups whose next entry is not due yet
	ready  []*timerGroup // groups that may have due entries, in round-robin order
}

// ParkedSuffix is the suffix of groups whose entries do not wait for their time or their owner's
// permission. Statistics omit them.
const ParkedSuffix = "/behind"

// Claimed is a claimed entry.
type Claimed struct {
	Group     string
	ID        string
	DueMillis int64
	Value     []byte // as set with the entry, or empty
}

type timerGroup struct {
	name       string
	nextMillis int64             // no unclaimed entry is due earlier
	from       []byte            // no unclaimed entry has a smaller key
	claimed    map[string][]byte // key by id
	allDue     bool              // whatever their due times
	parked     bool              // [ParkedSuffix]
	place      groupPlace
	heapIndex  int
}

type groupPlace int

const (
	placeNowhere groupPlace = iota // no unclaimed entry
	placeFuture
	placeReady
	placeBlocked // may not claim anything now
)

type timerChange struct {
	kind  timerChangeKind
	key   []byte
	group string
	id    string
	due   int64
}

type timerChangeKind int

const (
	timerSet timerChangeKind = iota
	timerCleared
	groupMadeDue
)

// SetTimer adds an entry.
func (b *Batch) SetTimer(group string, dueMillis int64, id string) error {
	return b.SetTimerCarrying(group, dueMillis, id)
}

// SetTimerCarrying adds an entry whose value is the concatenation of these parts.
func (b *Batch) SetTimerCarrying(
	group string, dueMillis int64, id string, value ...[]byte,
) error {
	key := TimerKey(group, dueMillis, id)
	b.timer = append(b.timer,
		timerChange{kind: timerSet, key: key, group: group, id: id, due: dueMillis})
	return b.Set(key, value...)
}

// ClearTimer removes an entry and its claim.
func (b *Batch) ClearTimer(group string, dueMillis int64, id string) error {
	key := TimerKey(group, dueMillis, id)
	b.timer = append(b.timer, timerChange{kind: timerCleared, key: key, group: group, id: id})
	return b.Delete(key)
}

// MakeDue makes all entries of a group due now, including those that are added later.
func (b *Batch) MakeDue(group string) error {
	b.timer = append(b.timer, timerChange{kind: groupMadeDue, group: group})
	return b.Set(dueKey(group), nil)
}

func dueKey(group string) []byte { return append([]byte{keySpaceDue}, group...) }

// TimerKey returns the key of an entry, under which its value is stored.
func TimerKey(group string, dueMillis int64, id string) []byte {
	key := make([]byte, 0, len(group)+len(id)+10)
	key = append(key, keySpaceTimers)
	key = append(key, group...)
	key = binary.BigEndian.AppendUint64(append(key, 0), uint64(max(dueMillis, 0)))
	return append(key, id...)
}

func parseTimerKey(key []byte) (group string, dueMillis int64, id string, err error) {
	sep := bytes.IndexByte(key, 0)
	if sep < 1 || len(key) < sep+9 {
		return "", 0, "", fmt.Errorf("streams: a key of the timer index is malformed: %x", key)
	}
	return string(key[1:sep]), int64(binary.BigEndian.Uint64(key[sep+1:])), string(key[sep+9:]), nil
}

// TimerOf returns the group and the entry id of a key of the timer index. The id is empty for the
// mark that makes a group due. Other keys have no group.
func TimerOf(key []byte) (group, id string, err error) {
	switch {
	case len(key) == 0:
	case key[0] == keySpaceTimers:
		group, _, id, err = parseTimerKey(key)
	case key[0] == keySpaceDue:
		group = string(key[1:])
	}
	return group, id, err
}

// ScanTimers calls take for every committed entry, due or not, in group order.
func (s *Store) ScanTimers(take func(Claimed) error) error {
	return s.Scan([]byte{keySpaceTimers}, []byte{keySpaceTimers + 1},
		func(key, value []byte) (bool, error) {
			group, due, id, err := parseTimerKey(key)
			if err != nil {
				return false, err
			}
			return true, take(Claimed{Group: group, ID: id, DueMillis: due, Value: value})
		})
}

// NewTimerIndex returns the index of a store. It seeks from group to group.
func NewTimerIndex(store *Store) (*TimerIndex, error) {
	x := &TimerIndex{store: store, groups: make(map[string]*timerGroup)}
	if err := x.readGroups(); err != nil {
		return nil, err
	}
	return x, x.readMadeDue()
}

func (x *TimerIndex) readMadeDue() error {
	batch := x.store.Begin()
	err := x.store.Scan([]byte{keySpaceDue}, []byte{keySpaceDue + 1},
		func(key, _ []byte) (bool, error) {
			if g := x.groups[string(key[1:])]; g != nil {
				x.makeDue(g)
				return true, nil
			}
			return true, batch.Delete(key)
		})
	if err != nil {
		batch.Discard()
		return err
	}
	return batch.Commit()
}

func (x *TimerIndex) readGroups() error {
	store := x.store
	it, err := store.db.NewIter(&pebble.IterOptions{
		LowerBound: []byte{keySpaceTimers},
		UpperBound: []byte{keySpaceTimers + 1},
	})
	if err != nil {
		return fmt.Errorf("streams: reading the timer index: %w", err)
	}
	for ok := it.First(); ok; {
		name, due, _, err := parseTimerKey(it.Key())
		if err != nil {
			_ = it.Close()
			return err
		}
		x.schedule(x.group(name), due, bytes.Clone(it.Key()))
		ok = it.SeekGE(upperOf(name))
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("streams: reading the timer index: %w", err)
	}
	return nil
}

func (x *TimerIndex) group(name string) *timerGroup {
	g := x.groups[name]
	if g == nil {
		g = &timerGroup{
			name:       name,
			nextMillis: math.MaxInt64,
			claimed:    make(map[string][]byte),
			parked:     strings.HasSuffix(name, ParkedSuffix),
		}
		x.groups[name] = g
	}
	return g
}

// Apply applies the changes of a committed batch.
func (x *TimerIndex) Apply(b *Batch) {
	for _, c := range b.timer {
		g := x.groups[c.group]
		switch {
		case c.kind == timerSet:
			x.schedule(x.group(c.group), c.due, c.key)
		case g == nil:
		case c.kind == groupMadeDue:
			x.makeDue(g)
		default:
			delete(g.claimed, c.id)
			x.unblock(g)
		}
	}
	for _, c := range b.timer {
		x.dropIfEmpty(x.groups[c.group])
	}
}

// dropIfEmpty drops a group without entries, and its mark. A mark that survives a crash is
// harmless.
func (x *TimerIndex) dropIfEmpty(g *timerGroup) {
	if g == nil || len(g.claimed) > 0 {
		return
	}
	if g.allDue && !x.hasMore(g) {
		g.allDue = false
		x.store.forget(dueKey(g.name))
	}
	if g.place == placeNowhere {
		delete(x.groups, g.name)
	}
}

func (x *TimerIndex) hasMore(g *timerGroup) bool {
	more := g.place == placeFuture
	if g.from == nil || more {
		return more
	}
	err := x.store.Scan(g.from, upperOf(g.name), func(_, _ []byte) (bool, error) {
		more = true
		return false, nil
	})
	return more || err != nil // the next claim returns the error
}

func upperOf(group string) []byte { return append(append([]byte{keySpaceTimers}, group...), 1) }

func (x *TimerIndex) makeDue(g *timerGroup) {
	g.allDue = true
	switch g.place {
	case placeFuture:
		heap.Remove(&x.future, g.heapIndex)
		x.pushReady(g)
	case placeBlocked:
		x.pushReady(g)
	case placeNowhere, placeReady:
	}
}

func (x *TimerIndex) schedule(g *timerGroup, due int64, key []byte) {
	if g.from == nil || bytes.Compare(key, g.from) < 0 {
		g.from = key
	}
	if g.allDue {
		due = 0
	}
	if due < g.nextMillis {
		g.nextMillis = due
		if g.place == placeFuture {
			heap.Fix(&x.future, g.heapIndex)
		}
	}
	if g.place == placeNowhere {
		x.pushFuture(g)
	}
}

func (x *TimerIndex) pushFuture(g *timerGroup) {
	g.place = placeFuture
	heap.Push(&x.future, g)
}

func (x *TimerIndex) pushReady(g *timerGroup) {
	g.place = placeReady
	x.ready = append(x.ready, g)
}

// Release gives up a claim. The entry is still due.
func (x *TimerIndex) Release(c Claimed) {
	g := x.groups[c.Group]
	if g == nil {
		return
	}
	if key, ok := g.claimed[c.ID]; ok {
		delete(g.claimed, c.ID)
		x.schedule(g, c.DueMillis, key)
	}
	x.unblock(g)
}

// Unblock lets a blocked group claim again.
func (x *TimerIndex) Unblock(group string) {
	if g := x.groups[group]; g != nil {
		x.unblock(g)
	}
}

func (x *TimerIndex) unblock(g *timerGroup) {
	if g.place == placeBlocked {
		x.pushReady(g)
	}
}

// NextMillis returns when to claim again, because no claimable entry is due earlier.
func (x *TimerIndex) NextMillis() int64 {
	if len(x.ready) > 0 {
		return 0
	}
	if len(x.future) > 0 {
		return x.future[0].nextMillis
	}
	return math.MaxInt64
}

// TimerStats counts groups of timers.
type TimerStats struct {
	Due            int   // groups that may have due entries
	Later          int   // groups whose next entry is not due yet
	HeldBack       int   // groups that may not claim anything now
	DueSinceMillis int64 // earliest due time in the due groups; 0 if unknown
}

// Stats counts the groups by what they wait for.
func (x *TimerIndex) Stats() TimerStats {
	var t TimerStats
	for _, g := range x.groups {
		switch {
		case g.parked && !g.allDue:
		case g.place == placeBlocked:
			t.HeldBack++
		case g.place == placeReady:
			t.Due++
		case g.place == placeFuture:
			t.Later++
		}
	}
	for _, g := range x.ready {
		if !g.allDue && !g.parked && (t.DueSinceMillis == 0 || g.nextMillis < t.DueSinceMillis) {
			t.DueSinceMillis = g.nextMillis
		}
	}
	return t
}

// ClaimOne claims one entry, due or not. It returns false if it does not exist or is claimed.
func (x *TimerIndex) ClaimOne(group string, dueMillis int64, id string) (Claimed, bool, error) {
	g := x.groups[group]
	if g == nil {
		return Claimed{}, false, nil
	}
	key := TimerKey(group, dueMillis, id)
	if _, taken := g.claimed[id]; taken {
		return Claimed{}, false, nil
	}
	value, err := x.store.Get(key)
	if value == nil || err != nil {
		return Claimed{}, false, err
	}
	g.claimed[id] = key
	return Claimed{Group: group, ID: id, DueMillis: dueMillis, Value: value}, true, nil
}

// claimQuantum is how many entries a group may claim in its turn.
const claimQuantum = 16

// Claim claims at most total due entries, round-robin among groups, and calls take for each. allow
// returns how many more entries of a group may be claimed. If it returns 0, the group is skipped
// until one of its claims ends or Unblock is called. A negative number stops claiming.
func (x *TimerIndex) Claim(
	nowMillis int64, total int, allow func(group string) int, take func(Claimed) error,
) error {
	for len(x.future) > 0 && x.future[0].nextMillis <= nowMillis {
		x.pushReady(heap.Pop(&x.future).(*timerGroup))
	}
	for len(x.ready) > 0 && total > 0 {
		g := x.ready[0]
		n := min(allow(g.name), total, claimQuantum)
		if n < 0 {
			return nil
		}
		x.ready[0] = nil
		x.ready = x.ready[1:]
		if n == 0 {
			g.place = placeBlocked
			continue
		}
		claimed, err := x.claimOf(g, nowMillis, n)
		if err != nil {
			return err
		}
		for _, c := range claimed {
			if err := take(c); err != nil {
				return err
			}
		}
		total -= len(claimed)
	}
	return nil
}

func (x *TimerIndex) claimOf(g *timerGroup, nowMillis int64, n int) (claimed []Claimed, err error) {
	g.nextMillis = math.MaxInt64
	err = x.store.Scan(g.from, upperOf(g.name), func(key, value []byte) (bool, error) {
		_, entryDue, id, err := parseTimerKey(key)
		if err != nil {
			return false, err
		}
		due := entryDue
		if _, taken := g.claimed[id]; taken {
			return true, nil
		}
		if g.allDue {
			due = 0
		}
		if due > nowMillis || n == 0 {
			g.nextMillis, g.from = due, bytes.Clone(key)
			return false, nil
		}
		n--
		g.claimed[id] = bytes.Clone(key)
		g.from = append(bytes.Clone(key), 0)
		claimed = append(claimed, Claimed{
			Group:     g.name,
			ID:        id,
			DueMillis: entryDue,
			Value:     bytes.Clone(value),
		})
		return true, nil
	})
	switch {
	case err != nil || g.nextMillis <= nowMillis:
		x.pushReady(g)
	case g.nextMillis < math.MaxInt64:
		x.pushFuture(g)
	default:
		g.place = placeNowhere
		x.dropIfEmpty(g)
	}
	return claimed, err
}

type groupHeap []*timerGroup

func (h groupHeap) Len() int           { return len(h) }
func (h groupHeap) Less(i, j int) bool { return h[i].nextMillis < h[j].nextMillis }
func (h groupHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}
func (h *groupHeap) Push(g any) {
	group := g.(*timerGroup)
	group.heapIndex = len(*h)
	*h = append(*h, group)
}
func (h *groupHeap) Pop() any {
	old := *h
	g := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return g
}
