package engine

import (
	"slices"

	"github.com/lumenhook/lumenhook/domain"
)

// window bounds the attempts in flight to one endpoint. It grows while the receiver keeps up and
// shrinks when it does not, so that a slow receiver occupies few of the shared places (G6).
type window struct {
	size     float64
	limit    int
	inFlight int
	probing  bool     // no attempt yet, or the last one failed
	blocked  []string // groups that wait for an attempt to end, at most one per epoch

	sealedUntilMillis int64 // when its secrets may be opened again

	starts starts
}

const firstWindow = 2

// failureCost is the number of places that a failure takes from the window, or half of them if the
// window is small. With quick successes that add one each, a window grows while fewer than a fifth
// of the attempts fail. If a failure halved it, one hanging request in a hundred would be enough to
// keep a window of 128 at a few places.
const failureCost = 4

// quickMillis is the response time below which a receiver keeps up.
const quickMillis = 2000

// newWindow returns the window of a receiver whose attempts until unknownUntilMillis were not
// counted.
func newWindow(limit int, unknownUntilMillis int64) *window {
	w := &window{size: float64(min(firstWindow, limit)), limit: limit, probing: true}
	w.starts.quietSince(unknownUntilMillis)
	return w
}

func (w *window) free() int { return int(w.size) - w.inFlight }

func (w *window) begin(nowMillis int64, limited bool) {
	w.inFlight++
	w.starts.add(nowMillis, limited)
}

// end removes an attempt. A quick success grows the window by one, so that a full window of them
// doubles it. A missing response or a server error shrinks it.
func (w *window) end(r domain.AttemptResult) {
	w.inFlight--
	w.probing = !r.Succeeded()
	switch {
	case r.StatusCode == 0 || r.StatusCode >= 500:
		w.size = max(1, w.size-min(failureCost, w.size/2))
	case r.Succeeded() && r.DurationMillis < quickMillis:
		w.size = min(float64(w.limit), w.size+1)
	}
}

func (w *window) block(group string) {
	if !slices.Contains(w.blocked, group) {
		w.blocked = append(w.blocked, group)
	}
}

// restart continues with one attempt at a time, because many deliveries may be pending.
func (w *window) restart() { w.size, w.probing = 1, true }

// allowance returns how many attempts may start now, or when to try again. A rate of 0 is
// unlimited.
func (w *window) allowance(perSecond int, nowMillis int64) (n int, wakeMillis int64) {
	if perSecond == 0 {
		return w.limit, 0
	}
	return w.starts.allowance(perSecond, nowMillis)
}
