package engine

import (
	"slices"

	"github.com/lumenhook/lumenhook/domain"
)

// window bounds the attempts in flight to one endpoint. It grows while the receiver keeps up and
// halves when it does not, so that a slow receiver uses few of the shared places for attempts (G6).
type window struct {
	size     float64
	limit    int
	inFlight int
	probing  bool     // the last attempt failed, or there was no attempt yet
	blocked  []string // groups that wait for an attempt to end, at most one per epoch

	sealedUntilMillis int64 // its secrets are not tried again until then

	starts starts // for the endpoint's rate limit
}

// firstWindow is the window of an unknown receiver.
const firstWindow = 2

// quickMillis is the longest response time that counts as keeping up.
const quickMillis = 2000

// newWindow returns the window of a receiver. Attempts before unknownUntilMillis were not counted.
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

// end counts an attempt out. A quick success adds a place, so that a window's worth of them doubles
// it. A missing answer or a server error halves it.
func (w *window) end(r domain.AttemptResult) {
	w.inFlight--
	w.probing = !r.Succeeded()
	switch {
	case r.StatusCode == 0 || r.StatusCode >= 500:
		w.size = max(1, w.size/2)
	case r.Succeeded() && r.DurationMillis < quickMillis:
		w.size = min(float64(w.limit), w.size+1)
	}
}

// block adds a group to unblock when an attempt has ended.
func (w *window) block(group string) {
	if !slices.Contains(w.blocked, group) {
		w.blocked = append(w.blocked, group)
	}
}

// restart starts over with one attempt at a time: the receiver was away, and many deliveries may be
// pending.
func (w *window) restart() { w.size, w.probing = 1, true }

// allowance returns how many attempts may start now at a rate; 0: no limit. If none may, wakeMillis
// is when to ask again.
func (w *window) allowance(perSecond int, nowMillis int64) (n int, wakeMillis int64) {
	if perSecond == 0 {
		return w.limit, 0
	}
	return w.starts.allowance(perSecond, nowMillis)
}
