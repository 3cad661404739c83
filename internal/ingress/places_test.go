package ingress_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/lumenhook/lumenhook/internal/ingress"
)

// Places must be bounded in total and per holder. A place that is given up is free again, and a
// changed limit takes effect at once.
func TestPlacesAreBounded(t *testing.T) {
	p := ingress.NewPlaces[string](3)
	take := func(of string, most int64, want error) func() {
		t.Helper()
		leave, err := p.Take(of, most)
		if !errors.Is(err, want) {
			t.Fatalf("%s of %d: %v, want %v", of, most, err, want)
		}
		return leave
	}
	first := take("a", 2, nil)
	take("a", 2, nil)
	take("a", 2, ingress.ErrShareTaken)
	if users := p.Users("a"); users != 2 {
		t.Errorf("a has %d users", users)
	}
	last := take("b", 2, nil)
	take("b", 2, ingress.ErrAllTaken)
	first()
	take("b", 2, nil)()
	take("a", 1, nil)
	take("a", 1, ingress.ErrShareTaken)
	last()
	if users := p.Users("b"); users != 0 {
		t.Errorf("b has %d users", users)
	}
}

// Waiting requests must get places in the order of their arrival. A flood from one holder must not
// delay another, and waiting ends with the context.
func TestPlacesAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ingress.NewPlaces[string](2)
		leave, err := p.Take("a", 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan int, 4)
		var all sync.WaitGroup
		for n := range 4 {
			all.Go(func() {
				next, err := p.Await(ctx, "a", 1, 1)
				if err != nil {
					got <- -1
					return
				}
				got <- n
				next()
			})
			synctest.Wait()
		}
		other, err := p.Await(ctx, "b", 1, 1)
		if err != nil || len(got) != 0 {
			t.Fatalf("another holder waits: %v", err)
		}
		other()
		leave()
		all.Wait()
		for n := range 4 {
			if was := <-got; was != n {
				t.Errorf("place %d went to %d", n, was)
			}
		}
		cancel()
		if _, err := p.Take("a", 1); err != nil {
			t.Error(err)
		}
		if _, err := p.Await(ctx, "a", 1, 1); !errors.Is(err, ingress.ErrShareTaken) {
			t.Errorf("after its context, the wait ends with %v", err)
		}
	})
}
