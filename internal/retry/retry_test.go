package retry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
)

var errAway = errors.New("it is away")

// latest is jitter that makes every wait as long as possible.
func latest() float64 { return 1 }

func policy() retry.Policy {
	return retry.Policy{First: 100 * time.Millisecond, Last: time.Second, Jitter: latest}
}

func TestWaitsDoubleUpToTheLongest(t *testing.T) {
	b := policy().Backoff()
	want := []time.Duration{100, 200, 400, 800, 1000, 1000}
	for i, millis := range want {
		if got := b.Next(); got != millis*time.Millisecond {
			t.Errorf("wait %d is %v, want %d ms", i+1, got, millis)
		}
	}
	b.Reset()
	if got := b.Next(); got != 100*time.Millisecond {
		t.Errorf("after progress the wait is %v, want the first", got)
	}
}

func TestAWaitWithoutALongestStaysTheFirst(t *testing.T) {
	b := retry.Policy{First: time.Second, Jitter: latest}.Backoff()
	if first, second := b.Next(), b.Next(); first != time.Second || second != time.Second {
		t.Errorf("the waits are %v and %v, want 1 s", first, second)
	}
}

func TestJitterIsInTheSecondHalf(t *testing.T) {
	p := retry.Policy{First: time.Second}
	seen := make(map[time.Duration]bool)
	for range 1000 {
		wait := p.Backoff().Next()
		if wait < time.Second/2 || wait > time.Second {
			t.Fatalf("a wait of %v, want from 500 ms to 1 s", wait)
		}
		seen[wait] = true
	}
	if len(seen) < 900 {
		t.Errorf("1000 loops have %d different waits: they come back together", len(seen))
	}
}

func TestSeededJitterRepeats(t *testing.T) {
	waits := func(seed uint64) (all []time.Duration) {
		p := policy()
		p.Jitter = retry.Seeded(seed)
		for b := p.Backoff(); len(all) < 20; {
			all = append(all, b.Next())
		}
		return all
	}
	if !slices.Equal(waits(1), waits(1)) {
		t.Error("a seed has two rows of waits")
	}
	if slices.Equal(waits(1), waits(2)) {
		t.Error("two seeds have one row of waits")
	}
}

func TestDoTriesUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		err := retry.Do(t.Context(), policy(), func() error {
			if tries++; tries < 4 {
				return errAway
			}
			return nil
		})
		if err != nil || tries != 4 || time.Since(began) != 700*time.Millisecond {
			t.Errorf("%d tries in %v: %v; want 4 in 700 ms", tries, time.Since(began), err)
		}
	})
}

func TestAPermanentErrorEndsALoopAndStaysMarked(t *testing.T) {
	ends := map[string]func(error) error{
		"Do": func(failed error) error {
			return retry.Do(t.Context(), policy(), func() error { return failed })
		},
		"Forever": func(failed error) error {
			return retry.Forever(t.Context(), policy(), func() (bool, error) { return true, failed })
		},
	}
	for name, loop := range ends {
		failed := fmt.Errorf("reading: %w", retry.Permanent(errAway))
		err := loop(failed)
		if err != failed || !retry.IsPermanent(err) || !errors.Is(err, errAway) {
			t.Errorf("%s returned %v, want %v, and marked", name, err, failed)
		}
	}
	if retry.IsPermanent(errAway) || retry.IsPermanent(nil) || retry.Permanent(nil) != nil {
		t.Error("what nobody marked is permanent")
	}
}

func TestIfSaysWhatPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, errBroken, tries := policy(), errors.New("it is broken"), 0
		p.If = func(err error) bool { return errors.Is(err, errAway) }
		_, err := retry.Value(t.Context(), p, func() (int, error) {
			if tries++; tries == 1 {
				return 0, errAway
			}
			return 0, errBroken
		})
		if tries != 2 || err != errBroken || retry.IsPermanent(err) {
			t.Errorf("%d tries, %v; want 2 and %v, which is not marked", tries, err, errBroken)
		}
	})
}

func TestTriesAndTimeAreBounds(t *testing.T) {
	for name, c := range map[string]struct {
		bound func(*retry.Policy)
		want  int
	}{
		"tries":  {func(p *retry.Policy) { p.Tries = 3 }, 3},
		"within": {func(p *retry.Policy) { p.Within = 650 * time.Millisecond }, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := policy()
			c.bound(&p)
			got, err := retry.Value(t.Context(), p, func() func() (int, error) {
				tries := 0
				return func() (int, error) { tries++; return tries, errAway }
			}())
			if got != c.want || err != errAway {
				t.Errorf("%s: %d tries, %v; want %d and %v", name, got, err, c.want, errAway)
			}
		})
	}
}

func TestAnEndedContextIsToldWithTheLastFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := retry.Do(ctx, policy(), func() error { cancel(); return errAway })
		if !errors.Is(err, context.Canceled) || !errors.Is(err, errAway) {
			t.Errorf("%v, want that the context was cancelled and %v", err, errAway)
		}
	})
}

// After a run that made progress, Forever must retry soon, and otherwise after longer and longer
// waits. After a run that ended without an error, it must start the next one at once.
func TestForeverBeginsAnewAfterProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := []struct {
			progress bool
			err      error
			wait     time.Duration
		}{
			{false, errAway, 100}, {false, errAway, 200}, {true, errAway, 100},
			{false, errAway, 200}, {false, nil, 0}, {false, errAway, 100},
		}
		ctx, cancel := context.WithCancel(t.Context())
		run, last := 0, time.Now()
		err := retry.Forever(ctx, policy(), func() (bool, error) {
			if run > 0 && time.Since(last) != runs[run-1].wait*time.Millisecond {
				t.Errorf("run %d began after %v, want %d ms", run+1, time.Since(last), runs[run-1].wait)
			}
			if run == len(runs) {
				cancel()
				return false, ctx.Err()
			}
			run, last = run+1, time.Now()
			return runs[run-1].progress, runs[run-1].err
		})
		if err != nil || run != len(runs) {
			t.Errorf("%d runs, %v; want %d and no error", run, err, len(runs))
		}
	})
}

func TestForeverEndsWithItsContextWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- retry.Forever(ctx, policy(), func() (bool, error) { return false, errAway })
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := retry.Sleep(ctx, time.Millisecond); err != nil {
			t.Error(err)
		}
		if err := retry.Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := retry.Sleep(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Error("a context that has ended is slept on:", err)
		}
		if got := time.Since(began); got != time.Second {
			t.Errorf("it slept for %v, want 1 s", got)
		}
	})
}

func TestAFailureIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		p := policy()
		p.OnFailure = retry.Warn(slog.New(slog.NewTextHandler(&logged, nil)), "no answer", "topic", "t")
		b := p.Backoff()
		for _, progress := range []bool{false, false, false, true, false} {
			if progress {
				b.Reset()
			}
			if err := b.Wait(t.Context(), errAway); err != nil {
				t.Fatal(err)
			}
		}
		want := `level=WARN msg="no answer" topic=t error="it is away" wait=100ms`
		if strings.Count(logged.String(), want) != 2 || strings.Count(logged.String(), "\n") != 2 {
			t.Errorf("want twice %q:\n%s", want, &logged)
		}
	})
}
