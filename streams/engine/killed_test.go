package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// left returns the disk as it would be after a power loss now.
func (c *core) left(random *rand.Rand) *vfs.MemFS {
	return c.disk.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: random.IntN(101),
		RNG:                 random,
	})
}

// kill ends the process at once and restarts it on the disk that is left.
func (c *core) kill(random *rand.Rand) {
	c.t.Helper()
	left := c.left(random)
	if err := c.Close(); err != nil { // this no longer changes the remaining disk
		c.t.Fatal(err)
	}
	c.disk, c.done = left, nil
	c.open()
}

// folds counts the journal records that a restart after a power loss would fold again.
func (c *core) folds(random *rand.Rand) int {
	c.t.Helper()
	cfg := c.store()
	cfg.FS = c.left(random)
	s, err := store.Open(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	defer s.Close()
	next, err := s.Checkpoint(schemas.TopicJournal, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	return len(c.journal) - int(next)
}

// shop simulates weeks of a partition: payments, receivers that sometimes fail, and commands that
// are repeated.
type shop struct {
	*core
	random  *rand.Rand
	paid    int
	handled map[string]int64 // when each command led to facts, by ID
}

func (s *shop) step() {
	s.t.Helper()
	s.now += s.random.Int64N(3 * hour / 2)
	for range 1 + s.random.IntN(4) {
		s.pay(endpointID, s.event(s.paid))
		s.paid++
	}
	s.pay(endpointID, s.event(s.random.IntN(s.paid))) // a repeated match
	status := []int{200, 200, 200, 500}[s.random.IntN(4)]
	s.answerAll(domain.AttemptResult{StatusCode: status})
	s.command(fmt.Sprint("cmd_", s.random.IntN(10)))
}

func (*shop) event(n int) string { return fmt.Sprint("evt_", n) }

// command sends a command and checks G1: it takes effect only once within 24 hours.
func (s *shop) command(id string) {
	s.t.Helper()
	facts := s.turn(domain.Command{
		ID:        id,
		AccountID: accountID,
		BodyHash:  []byte("h"),
		Body:      domain.EnableEndpoint{EndpointID: endpointID},
	})
	handled := slices.ContainsFunc(facts, func(f domain.Fact) bool {
		h, is := f.Body.(domain.CommandHandled)
		return is && h.CommandID == id
	})
	at, before := s.handled[id]
	if handled && before && s.now-at < 24*hour {
		s.t.Errorf("%s took effect twice within %d hours", id, (s.now-at)/hour)
	}
	if handled {
		s.handled[id] = s.now
	}
}

// whole returns the state that a process without a state folds from the journal at the same time.
func (s *shop) whole() map[string]string {
	s.t.Helper()
	other := newCore(s.t)
	other.on(func() {
		other.journal, other.now, other.inFlight = slices.Clone(s.journal), s.now, s.inFlight
	})
	return other.alive()
}

// alive returns the state after all expired answers have been deleted. If a command was handled
// twice, each of two turns deletes one answer. If it was handled more often, the answers in between
// stay for later starts.
func (c *core) alive() map[string]string {
	c.t.Helper()
	all := c.everything()
	for before := -1; before != len(all); all = c.everything() {
		before = len(all)
		for range 2 {
			c.turn()
		}
	}
	err := c.Store().ScanTimers(func(t store.Claimed) error {
		if t.Group == "commands" && t.DueMillis <= c.now {
			delete(all, string(store.TimerKey(t.Group, t.DueMillis, t.ID)))
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return all
}

// The store has no log of its own, so a kill leaves only part of the state. However often the
// process is killed, folding the rest must give the same state as folding the complete journal.
// Each event is created once, and no command takes effect twice (G1 to G4).
func TestAKilledProcessLosesNothingOfItsJournal(t *testing.T) {
	t.Parallel()
	c := newCore(t)
	c.on(func() { c.buffer, c.inFlight = 64<<10, 1024 }) // no delivery waits for a place
	c.turn(creation(endpointID))
	s := &shop{core: c, random: rand.New(rand.NewPCG(15, 1)), handled: make(map[string]int64)}
	var lost, kept int
	for range 25 {
		for range 1 + s.random.IntN(20) {
			s.step()
		}
		folds := c.folds(s.random)
		lost, kept = lost+folds, kept+len(c.journal)-folds
		c.kill(s.random)
		differ(t, c.alive(), s.whole())
	}
	if lost == 0 || kept == 0 {
		t.Errorf("kills lost %d records of the state and kept %d: nothing was found out", lost, kept)
	}
	created := make(map[string]int)
	for _, r := range c.journal {
		if isNote(r) {
			continue
		}
		f, err := schemas.DecodeFact(schemas.Read(r.Value, r))
		if err != nil {
			t.Fatal(err)
		}
		if d, is := f.Body.(domain.DeliveryCreated); is {
			created[d.Event.ID]++
		}
	}
	for n := range s.paid {
		if times := created[s.event(n)]; times != 1 {
			t.Errorf("%s was created %d times", s.event(n), times)
		}
	}
}

// The journal is deleted up to the previous snapshot, so it could not complete a state on disk that
// ends before that. A complete snapshot therefore has to flush the state.
func TestAWholeSnapshotBringsTheStateToDisk(t *testing.T) {
	c := newCore(t)
	c.on(func() { c.snapshot, c.snapshotted = []kafka.Record{}, 100 })
	random := rand.New(rand.NewPCG(15, 2))
	c.turn(creation(endpointID))
	whole := func() bool {
		return slices.ContainsFunc(c.snapshot, func(r kafka.Record) bool {
			return r.Header(task.HeaderManifest) != ""
		})
	}
	for n := 0; !whole(); n++ {
		c.pay(endpointID, fmt.Sprint("evt_", n))
	}
	testkit.Eventually(t, "the state is on disk", func() bool { return c.folds(random) == 0 })
}

// A process that is killed soon after each start must still make progress.
func TestALongFoldIsDoneOnce(t *testing.T) {
	const long = 5000 // more than a restore folds in one batch
	c := newCore(t)
	for range long {
		c.write([]kafka.Record{task.StartRecord(schemas.TopicJournal, 0)})
	}
	c.reopen(true)
	random := rand.New(rand.NewPCG(15, 3))
	testkit.Eventually(t, "it is on disk", func() bool { return c.folds(random) < long })
}
