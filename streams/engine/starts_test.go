package engine

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lumenhook/lumenhook/domain"
)

// backlog is an endpoint that has more pending deliveries than its limit allows.
type backlog struct {
	window *window
	limit  int
	wall   int64   // the engine's clock
	passed int64   // elapsed time, ignoring setbacks of the clock
	began  []int64 // start times, by elapsed time
}

func (b *backlog) pass(millis int64) { b.wall, b.passed = b.wall+millis, b.passed+max(millis, 0) }

// ask begins as many attempts as the window allows, up to most.
func (b *backlog) ask(most int) {
	n, wake := b.window.allowance(b.limit, b.wall)
	if n == 0 && (wake <= b.wall || wake > b.wall+rateMillis) {
		panic("it is asked again too early or too late")
	}
	for range min(n, most) {
		b.window.begin(b.wall, b.limit > 0)
		b.began = append(b.began, b.passed)
	}
}

// No second may have more attempts than the limit, wherever the second begins and however the clock
// steps or is set, or when another task takes over.
func TestNoSecondHoldsMoreThanTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &backlog{limit: rapid.IntRange(1, 7).Draw(t, "limit"), wall: 5_000_000}
		b.window = newWindow(16, b.wall)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 19).Draw(t, "step") {
			case 0:
				b.window = newWindow(16, b.wall) // another task
			case 1:
				b.pass(rapid.Int64Range(-3_600_000, 3_600_000).Draw(t, "jump"))
			case 2, 3, 4:
				b.pass(rapid.Int64Range(900, 1100).Draw(t, "a second"))
			default:
				b.pass(rapid.Int64Range(0, 300).Draw(t, "millis"))
			}
			b.ask(rapid.IntRange(1, 9).Draw(t, "most"))
			last := len(b.began) - 1
			if last >= b.limit && b.began[last]-b.began[last-b.limit] < rateMillis {
				t.Fatalf("more than %d a second: %v", b.limit, b.began)
			}
		}
	})
}

// With a backlog, each second uses the complete limit, starting one second after the start. Setting
// the clock back costs one second.
func TestALimitIsUsedUp(t *testing.T) {
	for _, limit := range []int{1, 2, 5, 50, 1000, 10_000} {
		b := &backlog{limit: limit, wall: 5_000_000}
		b.window = newWindow(16, b.wall)
		const seconds = 10
		for b.passed < seconds*rateMillis {
			if b.passed == 4*rateMillis {
				b.pass(-3_600_000)
			}
			b.ask(max(1, limit/100)) // not all at once
			b.pass(1)
		}
		if want := (seconds - 2) * limit; len(b.began) != want {
			t.Errorf("%d a second: %d attempts began in %d s, and %d could", limit, len(b.began), seconds,
				want)
		}
	}
}

// The first second of a new limit holds no more attempts than the limit, including the attempts
// that began before it was set.
func TestALimitThatIsSetCountsWhatBeganWithout(t *testing.T) {
	b := &backlog{wall: 5_000_000}
	b.window = newWindow(16, 0)
	for range 40 {
		b.ask(1)
		b.pass(10)
	}
	b.limit = 2
	if n, wake := b.window.allowance(b.limit, b.wall); n != 0 || wake != b.wall-10+rateMillis {
		t.Errorf("%d may begin, else at %d", n, wake)
	}
	b.pass(rateMillis - 10)
	if n, _ := b.window.allowance(b.limit, b.wall); n != 2 {
		t.Errorf("%d may begin after a second", n)
	}
}

// A receiver that times out on some requests keeps its places. A receiver that times out on many
// gets one attempt at a time.
func TestAFewFailuresLeaveAWideWindow(t *testing.T) {
	const limit = 128
	for _, c := range []struct {
		every int // one in this many attempts fails
		want  float64
	}{{100, limit}, {12, limit}, {6, limit}, {3, 1}, {1, 1}} {
		w := newWindow(limit, 0)
		w.size = limit / 4
		for n := range 2000 {
			r := domain.AttemptResult{StatusCode: 200}
			if (n+1)%c.every == 0 {
				r = domain.AttemptResult{Error: domain.AttemptTimeout}
			}
			w.begin(0, false)
			w.end(r)
		}
		if near := w.size >= c.want-failureCost && w.size <= c.want+failureCost; !near {
			t.Errorf("with one failure in %d, the window is %v, not about %v", c.every, w.size, c.want)
		}
	}
}
