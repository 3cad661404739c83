package store

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

func openTestStore(t interface{ Fatal(...any) }, fs vfs.FS) *Store {
	s, err := Open(Config{
		Dir:           "state",
		Identity:      "test",
		FS:            fs,
		CacheBytes:    1 << 20,
		MemTableBytes: 1 << 20,
		Logger:        slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type entry struct {
	group string
	id    string
}

// timerModel is the reference model of the index. It has every entry with its due time, the groups
// that were made due, the claimed entries, and the groups that must not claim.
type timerModel struct {
	due     map[entry]int64
	madeDue map[string]bool
	claimed map[entry]bool
	closed  map[string]bool
}

func (m *timerModel) has(group string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(m.due)),
		func(e entry) bool { return e.group == group })
}

func (m *timerModel) claimable(nowMillis int64) []entry {
	var can []entry
	for e, due := range m.due {
		if !m.claimed[e] && !m.closed[e.group] && (m.madeDue[e.group] || due <= nowMillis) {
			can = append(can, e)
		}
	}
	return can
}

// nextMillis returns the earliest due time among the unclaimed entries of open groups.
func (m *timerModel) nextMillis() int64 {
	next := int64(math.MaxInt64)
	for e, due := range m.due {
		if m.claimed[e] || m.closed[e.group] {
			continue
		}
		if m.madeDue[e.group] {
			due = 0
		}
		next = min(next, due)
	}
	return next
}

// TestTimerIndexAgainstAModel applies random changes, claims and restarts to the index and compares
// every claim with the model. The index must not skip a due entry, claim any other entry, or claim
// an entry twice (G3).
func TestTimerIndexAgainstAModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		fs := vfs.NewMem()
		store := openTestStore(t, fs)
		defer func() { _ = store.Close() }()
		index, err := NewTimerIndex(store)
		if err != nil {
			t.Fatal(err)
		}
		m := &timerModel{
			due:     make(map[entry]int64),
			madeDue: make(map[string]bool),
			claimed: make(map[entry]bool),
			closed:  make(map[string]bool),
		}
		now := int64(1000)
		groups := rapid.SampledFrom([]string{"a", "b", "ab", "c"})
		ids := rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6"})
		commit := func(change func(*Batch) error) {
			batch := store.Begin()
			if err := change(batch); err != nil {
				t.Fatal(err)
			}
			if err := batch.Commit(); err != nil {
				t.Fatal(err)
			}
			index.Apply(batch)
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				e := entry{groups.Draw(t, "group"), ids.Draw(t, "id")}
				due := now + rapid.Int64Range(-50, 200).Draw(t, "due")
				before, exists := m.due[e]
				commit(func(batch *Batch) error {
					if exists {
						if err := batch.ClearTimer(e.group, before, e.id); err != nil {
							return err
						}
					}
					return batch.SetTimer(e.group, due, e.id)
				})
				m.due[e] = due
				delete(m.claimed, e)
			},
			"clear": func(t *rapid.T) {
				e := entry{groups.Draw(t, "group"), ids.Draw(t, "id")}
				due, exists := m.due[e]
				if !exists {
					return
				}
				commit(func(batch *Batch) error { return batch.ClearTimer(e.group, due, e.id) })
				delete(m.due, e)
				delete(m.claimed, e)
				if !m.has(e.group) {
					delete(m.madeDue, e.group)
				}
			},
			"make due": func(t *rapid.T) {
				g := groups.Draw(t, "group")
				if !m.has(g) {
					return // no group to make due
				}
				commit(func(batch *Batch) error { return batch.MakeDue(g) })
				m.madeDue[g] = true
			},
			"time passes": func(t *rapid.T) { now += rapid.Int64Range(-100, 100).Draw(t, "by") },
			"close":       func(t *rapid.T) { m.closed[groups.Draw(t, "group")] = true },
			"open": func(t *rapid.T) {
				g := groups.Draw(t, "group")
				delete(m.closed, g)
				index.Unblock(g)
			},
			"release": func(t *rapid.T) {
				for e := range m.claimed {
					delete(m.claimed, e)
					index.Release(Claimed{Group: e.group, ID: e.id, DueMillis: m.due[e]})
					break
				}
			},
			"take": func(t *rapid.T) {
				e := entry{groups.Draw(t, "group"), ids.Draw(t, "id")}
				due, exists := m.due[e]
				_, taken, err := index.ClaimOne(e.group, due, e.id)
				if err != nil || taken != (exists && !m.claimed[e]) {
					t.Fatalf("claiming %v: %v, %v", e, taken, err)
				}
				if taken {
					m.claimed[e] = true
				}
			},
			"claim": func(t *rapid.T) {
				total := rapid.IntRange(1, 20).Draw(t, "total")
				most := rapid.IntRange(1, 20).Draw(t, "most") // over all groups
				can := m.claimable(now)
				var got []Claimed
				allowed := make(map[string]int)
				err := index.Claim(now, total, func(group string) int {
					if len(got) >= most {
						return -1
					}
					if m.closed[group] {
						return 0
					}
					allowed[group] = min(3, most-len(got))
					return allowed[group]
				}, func(c Claimed) error {
					if allowed[c.Group]--; allowed[c.Group] < 0 {
						t.Fatalf("group %s got more than it was allowed", c.Group)
					}
					got = append(got, c)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if len(got) != min(total, most, len(can)) {
					t.Fatalf("at %d claimed %v of %v, %d were asked for", now, got, can, total)
				}
				for _, c := range got {
					e := entry{c.Group, c.ID}
					if !slices.Contains(can, e) || c.DueMillis != m.due[e] {
						t.Fatalf("%+v is not to be claimed at %d: %v", c, now, can)
					}
					m.claimed[e] = true
				}
			},
			"reopen": func(t *rapid.T) {
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
				store = openTestStore(t, fs)
				if index, err = NewTimerIndex(store); err != nil {
					t.Fatal(err)
				}
				clear(m.claimed)
			},
			"": func(t *rapid.T) {
				// A due entry must wake the task. Waking too early is allowed.
				if next := m.nextMillis(); index.NextMillis() > max(next, 0) {
					t.Fatalf("woken at %d, but something is due at %d: %v", index.NextMillis(), next, m.due)
				}
			},
		})
	})
}

// TestAMillionWaitingCostNothing checks that claiming and reopening keep waiting entries out of
// memory.
func TestAMillionWaitingCostNothing(t *testing.T) {
	t.Parallel()
	const waiting = 200_000
	fs := vfs.NewMem()
	store := openTestStore(t, fs)
	defer func() { _ = store.Close() }()
	for from := 0; from < waiting; from += 10_000 {
		batch := store.Begin()
		for n := from; n < from+10_000; n++ {
			if err := batch.SetTimer(fmt.Sprintf("group-%d", n%10), int64(1_000_000+n), fmt.Sprintf("id-%d",
				n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := batch.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	index, err := NewTimerIndex(store)
	if err != nil {
		t.Fatal(err)
	}
	if len(index.groups) != 10 || index.NextMillis() != 1_000_000 {
		t.Fatalf("%d groups in memory, the next at %d", len(index.groups), index.NextMillis())
	}
	var got []Claimed
	err = index.Claim(1_000_004, 100, func(string) int { return 100 },
		func(c Claimed) error { got = append(got, c); return nil })
	if err != nil || len(got) != 5 {
		t.Fatalf("claimed %v, %v", got, err)
	}
	if index.NextMillis() != 1_000_005 {
		t.Errorf("the next is due at %d", index.NextMillis())
	}
}
