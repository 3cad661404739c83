package follower_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/follower"
)

// aChain is an in-memory chain in which every ledger pays the same wallet.
type aChain struct {
	name   string
	wallet string
	began  int64 // when its first ledger closed, in ms
	latest uint32
}

func (c *aChain) Check(context.Context) error            { return nil }
func (c *aChain) Latest(context.Context) (uint32, error) { return c.latest, nil }
func (c *aChain) Continue(uint32, string)                {}

func (c *aChain) hash(sequence uint32) string {
	return fmt.Sprintf("%064x", c.name+fmt.Sprint(sequence))[:64]
}

func (c *aChain) Next(ctx context.Context, sequence uint32) ([]domain.Ledger, error) {
	if sequence > c.latest {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	closed := c.began + int64(sequence)*5000
	l := domain.Ledger{
		Sequence:       sequence,
		Hash:           c.hash(sequence),
		ClosedAtMillis: closed,
		Payments: []domain.Payment{{
			ID:             fmt.Sprintf("%d", uint64(sequence)<<32|4097),
			TxHash:         strings.Repeat("ab", 32),
			Ledger:         sequence,
			ClosedAtMillis: closed,
			From:           "GSENDER",
			To:             c.wallet,
			Asset:          domain.NativeAsset(),
			AmountStroops:  1,
		}},
	}
	return []domain.Ledger{l}, nil
}

// A source is not on another chain only because it lags, has a wrong clock, was restored from an
// old copy, or does not answer.
func TestOnlyAnotherChainLooksLikeOne(t *testing.T) {
	followed := &aChain{name: "a", began: 1_000_000, latest: 1736}
	cursor := func(sequence uint32) schemas.LedgerRead {
		return schemas.LedgerRead{
			Sequence:       sequence,
			Hash:           followed.hash(domain.OnChain(sequence)),
			ClosedAtMillis: followed.began + int64(domain.OnChain(sequence))*5000,
			Coverage:       domain.Coverage{}.Read(sequence, true),
		}
	}
	later := followed.began + 1736*5000
	begun := schemas.LedgerRead{Sequence: 1736, Hash: "wrong", ClosedAtMillis: later}
	if err := follower.CheckChain(t.Context(), followed, begun); err != nil {
		t.Errorf("a wrong answer before the first ledger was followed: %v", err)
	}
	for name, c := range map[string]struct {
		source *aChain
		cursor uint32
		is     bool
	}{
		"the same chain":              {&aChain{name: "a", began: 1_000_000, latest: 1736}, 1736, false},
		"it is ahead":                 {&aChain{name: "a", began: 1_000_000, latest: 1800}, 1736, false},
		"it lags":                     {&aChain{name: "a", began: 1_000_000, latest: 56}, 1736, false},
		"an old chain of other hash":  {&aChain{name: "b", began: 0, latest: 56}, 1736, false},
		"a younger chain":             {&aChain{name: "b", began: later, latest: 56}, 1736, true},
		"a younger one of one ledger": {&aChain{name: "b", began: later, latest: 1}, 1736, true},
		"closed in the same moment":   {&aChain{name: "b", began: later - 280_000, latest: 56}, 1736, false},
		"another one that is longer":  {&aChain{name: "b", began: later, latest: 4000}, 1736, true},
		"of the second chain": {&aChain{name: "a", began: 1_000_000, latest: 56}, 200_000_100,
			false},
		"the third chain": {&aChain{name: "b", began: later, latest: 56}, 200_000_100, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := follower.CheckChain(t.Context(), c.source, cursor(c.cursor))
			if errors.Is(err, follower.ErrOtherChain) != c.is || !c.is && err != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The same payment in the same ledger of two chains creates two events. The watch was admitted at a
// higher ledger of the first chain, but it must see every ledger of the second. The follower keeps
// running and waits for a ledger of the first chain. IDs of the first chain do not change.
func TestChainsShareNoID(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	config := r.config()
	first := &aChain{name: "a", wallet: "GWALLET", began: 1_000_000, latest: 40}
	door := &chainDoor{behind: first}
	config.Source, config.Probe = door, first
	config.Start = follower.Start{Sequence: 30}
	r.directory.add("wat_1", "GWALLET")
	r.admitting()
	x := r.startReady(config)
	x.until(40)
	before := len(r.matches())

	second := &aChain{name: "b", wallet: "GWALLET", began: 1_000_000 + 41*5000, latest: 35}
	door.set(second)
	number, err := follower.StartChain(t.Context(), r.cluster, config.Passphrase, 20, second.began, 1)
	if err != nil {
		t.Fatal(err)
	}
	if number != 200_000_020 {
		t.Errorf("ledger 20 of the second chain is called %d", number)
	}
	x.until(200_000_035)
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range r.matches() {
		if seen[m.Event.ID] {
			t.Errorf("event %s is of two payments", m.Event.ID)
		}
		seen[m.Event.ID] = true
	}
	for _, p := range r.observed() {
		id := fmt.Sprint(uint64(p.Ledger)<<32 | 4097)
		if p.ID != id || !seen[domain.EventID("wat_1", id)] {
			t.Errorf("payment %s of ledger %d, want %s, has no event of its own", p.ID, p.Ledger, id)
		}
		if own := domain.ViewPayment(p).Ledger; own != domain.OnChain(p.Ledger) {
			t.Errorf("an event says that ledger %d is %d", p.Ledger, own)
		}
	}
	if before == 0 || len(seen) != before+16 {
		t.Errorf("%d events of the first chain, %d in all, want 16 more", before, len(seen))
	}
	last := r.cursors()[len(r.cursors())-1]
	if gaps := last.Coverage.Gaps(); gaps != nil {
		t.Errorf("a gap between two chains: %v", gaps)
	}
	if _, err := follower.StartChain(t.Context(), r.cluster, config.Passphrase, 1, 0, 1); err == nil {
		t.Error("a chain begins with the ledger that the network was created with")
	}
}

type chainDoor struct {
	mu     sync.Mutex
	behind follower.Source
}

func (d *chainDoor) set(s follower.Source) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.behind = s
}

func (d *chainDoor) now() follower.Source {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.behind
}

func (d *chainDoor) Check(ctx context.Context) error            { return d.now().Check(ctx) }
func (d *chainDoor) Latest(ctx context.Context) (uint32, error) { return d.now().Latest(ctx) }
func (d *chainDoor) Continue(sequence uint32, hash string)      { d.now().Continue(sequence, hash) }

func (d *chainDoor) Next(ctx context.Context, sequence uint32) ([]domain.Ledger, error) {
	return d.now().Next(ctx, sequence)
}

// Between a network reset and StartChain, a source serves the new chain under the ledger numbers of
// the former one. A backfill must wait, whether or not the new chain already has as many ledgers as
// were followed. It ends once the source serves the former chain again.
func TestNoBackfillReadsAnotherChain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	config := r.config()
	first := &aChain{name: "a", wallet: "GWALLET", began: 1_000_000, latest: 40}
	door := &chainDoor{behind: first}
	config.Source, config.Start = first, follower.Start{Sequence: 30}
	config.Backfill = follower.BackfillConfig{
		Source:   door,
		Requests: r.directory,
		Commands: &desk{directory: r.directory},
	}
	waits := make(chan string, 100)
	config.Logger = slog.New(slog.NewTextHandler(interruptions(waits), nil))
	r.directory.add("wat_1", "GWALLET")
	r.admitting()
	x := r.startReady(config)
	x.until(40)
	r.asIs(x, "live", func(w domain.Watch) bool { return w.LiveSince != 0 })
	before := len(r.matches())
	for _, latest := range []uint32{35, 60} {
		door.set(short{&aChain{name: "b", wallet: "GWALLET", began: 1_000_000 + 41*5000, latest: latest}})
		r.directory.ask(domain.BackfillWatch{WatchID: "wat_1", From: 10, To: 20})
		for i := 0; i < problemTries+1; {
			select {
			case line := <-waits:
				if strings.Contains(line, "does not prove") {
					i++
				}
			case <-time.After(patience):
				w, _, _ := r.directory.Watch("wat_1")
				t.Fatalf("the backfill does not wait: %+v, %d events more", w.Backfill, len(r.matches())-before)
			}
		}
		if got := len(r.matches()); got != before {
			t.Errorf("%d events of another chain of %d ledgers", got-before, latest)
		}
	}
	door.set(first)
	w := r.ended(x, "wat_1")
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	if got := len(r.matches()) - before; !w.Backfill.Done() || got != 11 {
		t.Errorf("ended as %+v with %d events", w.Backfill, got)
	}
}

const problemTries = 3

// interruptions receives log lines, and drops a line if its buffer is full.
type interruptions chan string

func (i interruptions) Write(line []byte) (int, error) {
	select {
	case i <- string(line):
	default:
	}
	return len(line), nil
}

// short is a chain that fails for missing ledgers instead of waiting for them.
type short struct{ *aChain }

func (s short) Next(ctx context.Context, sequence uint32) ([]domain.Ledger, error) {
	if sequence > s.latest {
		return nil, errors.New("there is no such ledger yet")
	}
	return s.aChain.Next(ctx, sequence)
}
