package retry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Policy is how long to wait before each further try, and when to give up. Zero limits mean
// none.
type Policy struct {
	First time.Duration // after the first failure; each further wait is twice the previous one
	Last  time.Duration // the longest wait

	Tries  int           // of Do and Value: the maximum
	Within time.Duration // of Do and Value: no try starts after it

	// If reports whether an error is transient; nil: each that is not permanent.
	If func(error) bool
	// Jitter is where in its second half a wait ends, in [0, 1); nil: random. A policy
	// whose jitter is not safe for concurrent use belongs to one loop.
	Jitter func() float64
	// OnFailure is called before each wait.
	OnFailure func(Failure)
}

// Failure is a failed try that is followed by another.
type Failure struct {
	Err  error
	Wait time.Duration // until the next try
	// New reports whether it is the first since the start or the last progress, or differs
	// from the previous one.
	New bool
}

// Seeded returns a deterministic jitter.
func Seeded(seed uint64) func() float64 {
	return rand.New(rand.NewPCG(seed, 0)).Float64 // #nosec G404 -- waits are no secrets
}

// Warn logs each new failure as a warning, and repeats of it at the debug level.
func Warn(log *slog.Logger, message string, args ...any) func(Failure) {
	return func(f Failure) {
		level := slog.LevelDebug
		if f.New {
			level = slog.LevelWarn
		}
		log.With(args...).Log(context.Background(), level, message, "error", f.Err, "wait", f.Wait)
	}
}

// Permanent marks an error as permanent; nil stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

type permanent struct{ error }

func (p *permanent) Unwrap() error { return p.error }

// IsPermanent reports whether an error, or one that it wraps, was marked by Permanent.
func IsPermanent(err error) bool {
	_, is := errors.AsType[*permanent](err)
	return is
}

// After reads the header Retry-After (RFC 9110, section 10.2.3): seconds or a date. The wait is 0
// for an invalid value or a past date, and never longer than longest.
func After(value string, now time.Time, longest time.Duration) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, longest)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), longest)
}

// Backoff is the waits of one loop. It is used by one goroutine.
type Backoff struct {
	policy Policy
	next   time.Duration // the longest that the next wait may be
	told   string        // the last failure's text
}

// Backoff returns the waits of a policy, from the first one on.
func (p Policy) Backoff() *Backoff {
	if p.Jitter == nil {
		p.Jitter = rand.Float64 //nolint:forbidigo // unless a policy brings another
	}
	return &Backoff{policy: p, next: p.First}
}

// Next returns the next wait, for callers that wait by other means.
func (b *Backoff) Next() time.Duration {
	half := b.next / 2
	b.next = min(2*b.next, max(b.policy.First, b.policy.Last))
	return half + time.Duration(b.policy.Jitter()*float64(half))
}

// Reset starts over with the first wait, after progress.
func (b *Backoff) Reset() { b.told, b.next = "", b.policy.First }

// Wait waits after a failure, and returns an error if the context ends first.
func (b *Backoff) Wait(ctx context.Context, failed error) error {
	wait := b.Next()
	if b.policy.OnFailure != nil {
		text := failed.Error()
		b.policy.OnFailure(Failure{Err: failed, Wait: wait, New: text != b.told})
		b.told = text
	}
	return Sleep(ctx, wait)
}

// Sleep waits, and returns the context's error if that ends first.
func Sleep(ctx context.Context, wait time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Do tries until it succeeds. It returns the last try's error if that is permanent or the
// policy gives up, joined with the context's error if that ends.
func Do(ctx context.Context, p Policy, try func() error) error {
	_, err := Value(ctx, p, func() (struct{}, error) { return struct{}{}, try() })
	return err
}

// Value is Do for a function with a result: that of the last try.
func Value[T any](ctx context.Context, p Policy, try func() (T, error)) (T, error) {
	within := ctx
	if p.Within > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, p.Within)
		defer cancel()
	}
	waits := p.Backoff()
	for tries := 1; ; tries++ {
		value, err := try()
		if err == nil || tries == p.Tries || !p.mayPass(err) {
			return value, err
		}
		if waits.Wait(within, err) == nil {
			continue
		}
		if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
			err = fmt.Errorf("%w; the last try: %w", ended, err)
		}
		return value, err
	}
}

// Forever runs until the context ends, which is no error, or a run fails permanently. A run
// that ends without an error is followed by the next one at once, one that failed after a
// wait, which starts over if the run had made progress.
func Forever(ctx context.Context, p Policy, run func() (progress bool, err error)) error {
	waits := p.Backoff()
	for ctx.Err() == nil {
		progress, err := run()
		if progress || err == nil {
			waits.Reset()
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if !p.mayPass(err) {
			return err
		}
		if waits.Wait(ctx, err) != nil {
			return nil
		}
	}
	return nil
}

func (p Policy) mayPass(err error) bool {
	return !IsPermanent(err) && (p.If == nil || p.If(err))
}
