package retry

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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
