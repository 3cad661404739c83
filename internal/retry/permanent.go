package retry

import (
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Permanent marks an error as permanent; nil stays nil.
func Permanent(err error) error { return backoff.Permanent(err) }

// IsPermanent reports whether an error, or one that it wraps, was marked by Permanent.
func IsPermanent(err error) bool {
	_, permanent := errors.AsType[*backoff.PermanentError](err)
	return permanent
}

// After is an error that requires a minimum wait, such as one that a server requested.
func After(err error, wait time.Duration) error { return &after{err, wait} }

type after struct {
	error
	wait time.Duration
}

func (a *after) Unwrap() error { return a.error }

func askedWait(err error) time.Duration {
	if asked, ok := errors.AsType[*after](err); ok {
		return asked.wait
	}
	return 0
}
