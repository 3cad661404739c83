package follower_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/follower"
)

// liar is a source that answers wrongly while lie is set.
type liar struct {
	follower.Source
	mu   sync.Mutex
	lie  func(page []domain.Ledger) ([]domain.Ledger, error) // nil: no lie
	told int
}

func (l *liar) set(lie func([]domain.Ledger) ([]domain.Ledger, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lie, l.told = lie, 0
}

func (l *liar) Next(ctx context.Context, sequence uint32) ([]domain.Ledger, error) {
	page, err := l.Source.Next(ctx, sequence)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || l.lie == nil {
		return page, err
	}
	l.told++
	return l.lie(page)
}

func (l *liar) times() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told
}

// Whatever wrong answer a source returns, the follower pauses. It logs the reason once, not once
// per attempt, and continues when the source is right again. It loses no payment and skips no
// ledger.
func TestAWrongAnswerPausesFollowing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	wallet := r.wallet()
	r.directory.add("wat_1", wallet)
	var log testkit.Buffer
	config := r.config()
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	var later atomic.Int64
	config.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	source := &liar{Source: config.Source}
	config.Source = source
	var restarts atomic.Int64
	config.OnRestart = func() { restarts.Add(1) }
	x := r.startReady(config)
	x.until(r.pay(wallet, "1").Ledger)
	paid := 1
	for _, why := range []domain.LedgerError{
		domain.ErrForked, domain.ErrBehindRetention, domain.ErrWrongNetwork, domain.ErrUnreadable,
	} {
		source.set(func([]domain.Ledger) ([]domain.Ledger, error) {
			return nil, fmt.Errorf("%w: it says so", why)
		})
		x.failsWith("it says so", why)
		testkit.Eventually(t, "the source is asked again", func() bool { return source.times() >= 3 })
		last := r.pay(wallet, "1")
		paid++
		source.set(nil)
		x.until(last.Ledger)
		testkit.EventuallyNil(t, "following continues", x.Check)
	}
	// a ledger other than the expected one
	source.set(func(page []domain.Ledger) ([]domain.Ledger, error) {
		page[0].Sequence += 5
		return page, nil
	})
	testkit.Eventually(t, "the source is asked again", func() bool { return source.times() >= 3 })
	if err := x.Check(); err != nil {
		t.Errorf("an error that may pass counts at once: %v", err)
	}
	later.Store(int64(61 * time.Second))
	x.failsWith("is due", nil)
	source.set(nil)
	x.until(r.pay(wallet, "1").Ledger)
	paid++
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	if n := restarts.Load(); n < 5 {
		t.Errorf("%d restarts after five kinds of failures", n)
	}
	if got := len(r.matches()); got != paid {
		t.Errorf("%d matches of %d payments", got, paid)
	}
	checkCursors(t, r.cursors())
	for line, want := range map[string]int{
		"following the ledger was interrupted": 5,
		"ledgers are read again":               5,
		"following the ledger from its cursor": 0,
	} {
		got := strings.Count(log.String(), line)
		if line == "following the ledger from its cursor" {
			want = strings.Count(log.String(), "was interrupted") // at most once per interruption
			if got > want {
				t.Errorf("%d lines %q:\n%s", got, line, log.String())
			}
			continue
		}
		if got != want {
			t.Errorf("%d lines %q, want %d:\n%s", got, line, want, log.String())
		}
	}
}

// If a source reports a newest ledger that it does not have, the follower asks again and begins at
// a ledger that the source has.
func TestTheNewestLedgerIsAskedForAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	config := r.config()
	ahead := &aheadOnce{Source: config.Source}
	config.Source = ahead
	x := r.startReady(config)
	x.until(r.pay(r.wallet(), "1").Ledger)
	if ahead.asked < 2 {
		t.Errorf("the newest ledger was asked for %d times", ahead.asked)
	}
}

// The source gives one wrong answer when following begins, when there is nothing to compare it
// with. The follower must then begin where the source is, without an operator's help.
func TestALieAboutTheFirstLedgerIsNotKept(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]*firstLie{
		"another hash":          {hash: strings.Repeat("ab", 32)},
		"a ledger of far ahead": {ahead: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			config := r.config()
			lie.Source = config.Source
			config.Source = lie
			wallet := r.wallet()
			r.directory.add("wat_1", wallet)
			x := r.startReady(config)
			x.until(r.pay(wallet, "1").Ledger)
			if err := x.stopped(); err != nil {
				t.Fatal(err)
			}
			if got := len(r.matches()); got != 1 || !lie.told {
				t.Errorf("%d matches of one payment, lied: %t", got, lie.told)
			}
		})
	}
}

// firstLie is a source whose first ledger has a wrong hash or is far ahead.
type firstLie struct {
	follower.Source
	ahead uint32
	hash  string
	told  bool
}

func (f *firstLie) Latest(ctx context.Context) (uint32, error) {
	latest, err := f.Source.Latest(ctx)
	if !f.told {
		latest += f.ahead
	}
	return latest, err
}

func (f *firstLie) Next(ctx context.Context, sequence uint32) ([]domain.Ledger, error) {
	if f.told {
		return f.Source.Next(ctx, sequence)
	}
	f.told = true
	page, err := f.Source.Next(ctx, sequence-f.ahead)
	if err == nil {
		page = page[:1]
		page[0].Sequence, page[0].Hash = sequence, cmp.Or(f.hash, page[0].Hash)
	}
	return page, err
}

// aheadOnce first reports a ledger that it does not have, and then fails to wait for it.
type aheadOnce struct {
	follower.Source
	asked int
}

func (a *aheadOnce) Latest(ctx context.Context) (uint32, error) {
	latest, err := a.Source.Latest(ctx)
	if a.asked++; a.asked == 1 {
		latest += 1000
	}
	return latest, err
}

func (a *aheadOnce) Next(ctx context.Context, sequence uint32) ([]domain.Ledger, error) {
	if a.asked == 1 {
		if _, bounded := ctx.Deadline(); !bounded {
			return nil, errors.New("it would wait without a bound")
		}
		return nil, context.DeadlineExceeded
	}
	return a.Source.Next(ctx, sequence)
}

// A source that stalls returns no error. When no ledger has been read for a minute, the follower is
// no longer ready and logs one line that says since when. It is ready again with the next ledger.
func TestAStalledSourceIsReported(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var log testkit.Buffer
	config := r.config()
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	var mu sync.Mutex
	var later time.Duration
	config.Now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().Add(later)
	}
	hung := &gate{Source: config.Source, open: make(chan struct{})}
	close(hung.open)
	config.Source = hung
	x := r.startReady(config)
	x.until(r.pay(r.wallet(), "1").Ledger)
	hung.shut()
	testkit.Eventually(t, "the source is waited for", hung.waited)
	if err := x.Check(); err != nil {
		t.Errorf("before the bound: %v", err)
	}
	mu.Lock()
	later = 61 * time.Second
	mu.Unlock()
	x.failsWith("no ledger was read since 20", nil)
	testkit.Eventually(t, "it is logged", func() bool {
		return strings.Contains(log.String(), "reading ledgers has stalled")
	})
	hung.let()
	testkit.EventuallyNil(t, "following continues", x.Check)
	testkit.Eventually(t, "it is logged that it continues", func() bool {
		return strings.Contains(log.String(), "continues after it had stalled")
	})
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "has stalled"); n != 1 {
		t.Errorf("%d lines, want one:\n%s", n, log.String())
	}
}

type gate struct {
	follower.Source
	mu      sync.Mutex
	open    chan struct{}
	waiting bool
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open, g.waiting = make(chan struct{}), false
}

func (g *gate) let() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
}

func (g *gate) waited() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

func (g *gate) Next(ctx context.Context, sequence uint32) ([]domain.Ledger, error) {
	g.mu.Lock()
	open := g.open
	g.waiting = true
	g.mu.Unlock()
	select {
	case <-open:
		return g.Source.Next(ctx, sequence)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
