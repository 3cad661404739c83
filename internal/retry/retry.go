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

// Policy specifies the wait before each retry and when to give up. Zero limits mean no limit.
type Policy struct {
	First time.Duration // wait after the first failure, doubled after each further one
	Last  time.Duration // maximum wait

	Tries  int           // for Do and Value: maximum number of attempts
	Within time.Duration // for Do and Value: no attempt starts later

	// If reports whether an error is transient. If nil, all errors are that are not permanent.
	If func(error) bool
	// Jitter returns the share, in [0, 1), of a wait's second half that is used. If nil, it is
	// random. A Jitter that isn't safe for concurrent use must not be shared by loops.
	Jitter func() float64
	// OnFailure is called before each wait.
	OnFailure func(Failure)
}

// Failure is a failed attempt that will be followed by another.
type Failure struct {
	Err  error
	Wait time.Duration // until the next attempt
	// New is true for the first failure since the last progress, or if the error is a different one.
	New bool
}

// Seeded returns a deterministic Policy.Jitter.
func Seeded(seed uint64) func() float64 {
	return rand.New(rand.NewPCG(seed, 0)).Float64 // #nosec G404 -- waits are no secrets
}

// Warn returns an OnFailure that logs new failures as warnings and repeated ones as debug.
func Warn(log *slog.Logger, message string, args ...any) func(Failure) {
	return func(f Failure) {
		level := slog.LevelDebug
		if f.New {
			level = slog.LevelWarn
		}
		log.With(args...).Log(context.Background(), level, message, "error", f.Err, "wait", f.Wait)
	}
}

// Permanent marks an error as permanent. It returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

type permanent struct{ error }

func (p *permanent) Unwrap() error { return p.error }

// IsPermanent reports whether err was marked by Permanent or wraps such an error.
func IsPermanent(err error) bool {
	_, is := errors.AsType[*permanent](err)
	return is
}

// After parses a Retry-After header (RFC 9110, section 10.2.3), which contains seconds or a date.
// It returns 0 for invalid values and past dates, and at most longest.
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

// Backoff provides the waits of a loop. It is not safe for concurrent use.
type Backoff struct {
	policy Policy
	next   time.Duration // the next wait without jitter
	told   string        // text of the last failure
}

// Backoff returns a new Backoff for the policy.
func (p Policy) Backoff() *Backoff {
	if p.Jitter == nil {
		p.Jitter = rand.Float64 //nolint:forbidigo // unless a policy brings another
	}
	return &Backoff{policy: p, next: p.First}
}

// Next returns the next wait, for callers that don't use Wait.
func (b *Backoff) Next() time.Duration {
	half := b.next / 2
	b.next = min(2*b.next, max(b.policy.First, b.policy.Last))
	return half + time.Duration(b.policy.Jitter()*float64(half))
}

// Reset makes the next wait the first one again. Call it after progress.
func (b *Backoff) Reset() { b.told, b.next = "", b.policy.First }

// Wait waits after a failure. It returns an error if the context ends first.
func (b *Backoff) Wait(ctx context.Context, failed error) error {
	wait := b.Next()
	if b.policy.OnFailure != nil {
		text := failed.Error()
		b.policy.OnFailure(Failure{Err: failed, Wait: wait, New: text != b.told})
		b.told = text
	}
	return Sleep(ctx, wait)
}

// Sleep waits, or returns the context's error if the context ends first.
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

// Do calls try until it succeeds. If the last error is permanent or the policy gives up, Do returns
// that error. If the context ends, Do returns the context's error joined with the last error.
func Do(ctx context.Context, p Policy, try func() error) error {
	_, err := Value(ctx, p, func() (struct{}, error) { return struct{}{}, try() })
	return err
}

// Value is like Do and also returns the result of the last attempt.
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

// Forever calls run repeatedly until the context ends, which is not an error, or until run returns
// a permanent error. It waits after a failed run, with the first wait if the run made progress.
// After a successful run, it continues without a wait.
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
