package source_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/devnet/devtraffic"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/lake"
	"github.com/lumenhook/lumenhook/internal/stellar/source/quorum"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
)

// chainLedgers is the length of the chain on which all sources are compared.
const chainLedgers = 1000

const firstLedger = 2 // on every network here

// chain is a network with transactions of every kind, and a lake with its ledgers.
type chain struct {
	network *devnet.Network
	traffic *devtraffic.Traffic
	lakeDir string
	last    uint32
	steps   int
}

func open(t *testing.T, change func(*devnet.Config)) *chain {
	t.Helper()
	ids, err := devnet.NewIdentities()
	if err != nil {
		t.Fatal(err)
	}
	c := &chain{lakeDir: t.TempDir()}
	config := devnet.Config{
		Dir:           t.TempDir(),
		Identities:    ids,
		Listen:        "127.0.0.1:0",
		CloseInterval: time.Hour,
	}
	if change != nil {
		change(&config)
	}
	if c.network, err = devnet.Open(config); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.network.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := errors.Join(c.network.Close(), <-ended); err != nil {
			t.Error(err)
		}
	})
	if c.traffic, err = devtraffic.New(t.Context(), c.network, ids); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.traffic.Close() })
	w, err := lake.NewWriter(c.lakeDir, lake.Layout{LedgersPerFile: 8, FilesPerPartition: 1000},
		c.network.Passphrase())
	if err = errors.Join(err, c.traffic.ExportTo(w)); err != nil {
		t.Fatal(err)
	}
	c.last = firstLedger + 1
	return c
}

func (c *chain) grow(t *testing.T, last uint32) {
	t.Helper()
	for ; c.last < last; c.last++ {
		if err := c.traffic.Step(t.Context(), c.steps); err != nil {
			t.Fatal(err)
		}
		c.steps++
	}
}

const poll = time.Millisecond

// handover joins two sources as the flags do.
func handover(t *testing.T, near, far source.Looker) source.Source {
	t.Helper()
	s, err := quorum.New(quorum.Config{
		Members:  []quorum.Member{{Name: "near", Source: near}, {Name: "far", Source: far}},
		Need:     1,
		Interval: poll,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (c *chain) rpc(t *testing.T) source.Looker {
	t.Helper()
	s, err := rpc.New(rpc.Config{
		URL:          c.network.RPCURL(),
		Passphrase:   c.network.Passphrase(),
		PollInterval: poll,
		BackoffMax:   4 * poll,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (c *chain) lake(t *testing.T) source.Looker {
	t.Helper()
	store, err := lake.OpenFolder(c.lakeDir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := lake.New(lake.Config{
		Store:        store,
		Passphrase:   c.network.Passphrase(),
		PollInterval: poll,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read reads the ledgers from first to last, as a follower does.
func read(
	t *testing.T, s source.Source, passphrase string, first, last uint32,
) (all []domain.Ledger) {
	t.Helper()
	e, err := ledger.NewExtractor(passphrase)
	if err != nil {
		t.Fatal(err)
	}
	return readWith(t, e, s, first, last)
}

// readMoving is like read, for ledgers with balance moves.
func readMoving(
	t *testing.T, s source.Source, passphrase string, first, last uint32,
) (all []domain.Ledger) {
	t.Helper()
	e, err := ledger.NewExtractor(passphrase)
	if err != nil {
		t.Fatal(err)
	}
	e.EnableMoves()
	return readWith(t, e, s, first, last)
}

func readWith(
	t *testing.T, e *ledger.Extractor, s source.Source, first, last uint32,
) (all []domain.Ledger) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := s.Check(ctx); err != nil {
		t.Fatal(err)
	}
	for next := first; next <= last; {
		page, err := s.Next(ctx, next)
		if err != nil {
			t.Fatalf("ledger %d: %v", next, err)
		}
		for _, raw := range page {
			l, err := e.Read(raw)
			if err != nil {
				t.Fatalf("ledger %d: %v", raw.Sequence, err)
			}
			if l.Sequence != next || len(l.Quarantined) > 0 {
				t.Fatalf("ledger %d where %d is due, %v quarantined", l.Sequence, next, l.Quarantined)
			}
			all = append(all, l)
			next++
		}
	}
	return all[:last-first+1]
}

func compare(t *testing.T, name string, got, want []domain.Ledger) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s gave %d ledgers, want %d", name, len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("%s: ledger %d differs:\n got %+v\nwant %+v", name, want[i].Sequence, got[i], want[i])
		}
	}
}

// All sources must return the same ledgers, with the same payments under the same ids, on a chain
// with every kind of operation, fee bump, failure, muxed account and memo.
func TestAllSourcesAgree(t *testing.T) {
	c := open(t, nil)
	last := uint32(firstLedger+chainLedgers-1) | 7 // so that the lake's last file is full
	c.grow(t, last)
	passphrase := c.network.Passphrase()
	want := read(t, c.rpc(t), passphrase, firstLedger, last)
	compare(t, "the lake", read(t, c.lake(t), passphrase, firstLedger, last), want)
	for _, l := range want {
		if !l.Verified {
			t.Errorf("ledger %d was not verified against its hashes", l.Sequence)
		}
	}

	kinds, memos, muxed, senders, count := map[string]int{}, map[domain.MemoType]int{}, 0,
		map[string]bool{}, 0
	zero := map[string]bool{} // operations that paid to the muxed id 0
	for _, l := range want {
		for _, p := range l.Payments {
			kinds[p.Operation]++
			memos[p.Memo.Type]++
			senders[p.From] = true
			count++
			if p.ToMuxedID != "" {
				muxed++
			}
			if p.ToMuxedID == "0" {
				zero[p.Operation] = true
			}
		}
	}
	for _, kind := range []string{
		"payment", "create_account", "account_merge", "path_payment_strict_send",
		"path_payment_strict_receive", "invoke_host_function",
	} {
		if kinds[kind] < 10 {
			t.Errorf("the chain holds %d payments by %s: too few to compare", kinds[kind], kind)
		}
	}
	if len(zero) != 4 {
		t.Errorf("the muxed id 0 was paid by %v alone", zero)
	}
	if len(memos) != 5 || muxed < 10 || len(senders) < 3 {
		t.Errorf("the chain holds memos %v, %d muxed receivers, %d senders", memos, muxed, len(senders))
	}
	t.Logf("%d ledgers, %d payments: %v, memos %v, %d muxed", len(want), count, kinds, memos, muxed)
}

// Ledgers that the RPC server no longer has come from the lake. The switch to the RPC server must
// leave no gap.
func TestHandoverFromLakeToRPC(t *testing.T) {
	c := open(t, func(config *devnet.Config) { config.RetentionLedgers = 30 })
	c.grow(t, 100)
	passphrase := c.network.Passphrase()
	if _, err := c.rpc(t).Next(t.Context(), firstLedger); !errors.Is(err, domain.ErrBehindRetention) {
		t.Fatalf("the RPC server still has the first ledger: %v", err)
	}
	s := handover(t, c.rpc(t), c.lake(t))
	got := read(t, s, passphrase, firstLedger, 100)
	compare(t, "the lake to its end", got[:96-firstLedger],
		read(t, c.lake(t), passphrase, firstLedger, 95))
	compare(t, "the RPC server", got[80-firstLedger:], read(t, c.rpc(t), passphrase, 80, 100))
	c.grow(t, 110)
	for i, l := range read(t, s, passphrase, 101, 110) {
		if l.Sequence != 101+uint32(i) {
			t.Errorf("ledger %d where %d is due", l.Sequence, 101+i)
		}
	}
	behind := handover(t, c.rpc(t), c.rpc(t))
	if _, err := behind.Next(t.Context(), firstLedger); !errors.Is(err, domain.ErrBehindRetention) {
		t.Errorf("neither has the first ledger: %v", err)
	}
}

// Faults must make the source wait and then return the same ledgers. Another chain must stop it.
func TestFaultsLeadToTheSameLedgers(t *testing.T) {
	calm := open(t, nil)
	calm.grow(t, 60)
	want := read(t, calm.rpc(t), calm.network.Passphrase(), firstLedger, 60)
	for _, kind := range []devnet.FaultKind{
		devnet.FaultErrors, devnet.FaultGarbage, devnet.FaultGap, devnet.FaultBehind,
	} {
		t.Run(string(kind), func(t *testing.T) {
			var faults []devnet.Fault
			for _, at := range []uint32{20, 21, 33, 50} {
				faults = append(faults, devnet.Fault{Kind: kind, Ledger: at, Answers: 5})
			}
			c := open(t, func(config *devnet.Config) { config.Faults = faults })
			s := c.rpc(t)
			var got []domain.Ledger
			for last := uint32(10); last <= 60; last += 5 {
				c.grow(t, last)
				got = append(got, read(t, s, c.network.Passphrase(), firstLedger+uint32(len(got)), last)...)
			}
			again := read(t, c.rpc(t), c.network.Passphrase(), firstLedger, 60)
			compare(t, string(kind), got, again)
			if len(got) != len(want) || shape(got) != shape(want) {
				t.Errorf("other payments than on a calm network")
			}
		})
	}
}

// shape returns a summary that is equal for two networks with the same traffic.
func shape(all []domain.Ledger) (s string) {
	for _, l := range all {
		for _, p := range l.Payments {
			s += fmt.Sprintf("%s %s %d %s;", p.ID, p.Operation, p.AmountStroops, p.Asset.Code)
		}
	}
	return s
}

func TestAnotherChainStopsTheSource(t *testing.T) {
	c := open(t, func(config *devnet.Config) {
		config.Faults = []devnet.Fault{{Kind: devnet.FaultReset, Ledger: 30, Answers: 1000}}
	})
	s := c.rpc(t)
	c.grow(t, 29)
	read(t, s, c.network.Passphrase(), firstLedger, 29)
	c.grow(t, 35)
	if _, err := s.Next(t.Context(), 30); !errors.Is(err, domain.ErrForked) {
		t.Errorf("got %v", err)
	}
}

// A source must wait for a killed server that comes back with its folder.
func TestAKilledNodeIsWaitedFor(t *testing.T) {
	ids, err := devnet.NewIdentities()
	if err != nil {
		t.Fatal(err)
	}
	config := devnet.Config{
		Dir:           t.TempDir(),
		Identities:    ids,
		Listen:        "127.0.0.1:0",
		CloseInterval: 50 * time.Millisecond,
	}
	start := func() (*devnet.Network, func()) {
		n, err := devnet.Open(config)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- n.Run(context.Background()) }()
		return n, func() {
			if err := errors.Join(n.Close(), <-ended); err != nil {
				t.Error(err)
			}
		}
	}
	n, stop := start()
	config.Listen = n.Addr().String()
	s, err := rpc.New(rpc.Config{
		URL:          n.RPCURL(),
		Passphrase:   n.Passphrase(),
		PollInterval: poll,
		BackoffMax:   8 * poll,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, s, n.Passphrase(), firstLedger, 6)
	stop()
	type answer struct {
		page []ledger.Raw
		err  error
	}
	resumed := make(chan answer, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() {
		page, err := s.Next(ctx, 7)
		resumed <- answer{page, err}
	}()
	_, stop = start()
	defer func() { stop() }()
	first := <-resumed
	if first.err != nil || first.page[0].Sequence != 7 {
		t.Fatalf("after the restart: %+v", first)
	}
	got = append(got, read(t, s, n.Passphrase(), 7, 20)...)
	var sequences []uint32
	for _, l := range got {
		sequences = append(sequences, l.Sequence)
	}
	if !slices.IsSorted(sequences) || len(sequences) != 19 {
		t.Errorf("got ledgers %v", sequences)
	}
}
