package ingress

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Why Places has no place.
var (
	ErrShareTaken = errors.New("the holder has as many places as it may have")
	ErrAllTaken   = errors.New("all places are taken")
)

// Places bounds how much runs at once: in total, and for each holder, such as an account. A flood
// of one holder delays only its own requests.
type Places[K comparable] struct {
	all      *semaphore.Weighted
	mu       sync.Mutex
	byHolder map[K]*share
}

// share is the places of one holder.
type share struct {
	running *semaphore.Weighted
	most    int64
	users   int // that run or wait; with the last one, the entry goes
}

// NewPlaces returns places of which at most so many are taken.
func NewPlaces[K comparable](most int64) *Places[K] {
	return &Places[K]{all: semaphore.NewWeighted(most), byHolder: make(map[K]*share)}
}

// Take takes a place for a holder that may have most, or returns ErrShareTaken or ErrAllTaken. Call
// leave once.
func (p *Places[K]) Take(of K, most int64) (leave func(), err error) {
	return p.take(of, most, 1, func(s *semaphore.Weighted) bool { return s.TryAcquire(1) })
}

// Await is Take, but takes n places, and waits for them until ctx ends, in the order of arrival.
func (p *Places[K]) Await(ctx context.Context, of K, most, n int64) (leave func(), err error) {
	return p.take(of, most, n, func(s *semaphore.Weighted) bool { return s.Acquire(ctx, n) == nil })
}

// Users returns how many of a holder have a place or wait for one.
func (p *Places[K]) Users(of K) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own, known := p.byHolder[of]; known {
		return own.users
	}
	return 0
}

func (p *Places[K]) take(
	of K, most, n int64, acquire func(*semaphore.Weighted) bool,
) (leave func(), err error) {
	p.mu.Lock()
	own, known := p.byHolder[of]
	if !known || own.most != most { // after a change of most, earlier ones leave the former share
		own = &share{running: semaphore.NewWeighted(most), most: most}
		p.byHolder[of] = own
	}
	own.users++
	p.mu.Unlock()
	if !acquire(own.running) {
		p.forget(of, own)
		return nil, ErrShareTaken
	}
	if !acquire(p.all) {
		own.running.Release(n)
		p.forget(of, own)
		return nil, ErrAllTaken
	}
	return func() {
		p.all.Release(n)
		own.running.Release(n)
		p.forget(of, own)
	}, nil
}

func (p *Places[K]) forget(of K, own *share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own.users--; own.users == 0 && p.byHolder[of] == own {
		delete(p.byHolder, of)
	}
}
