package engine

import (
	"slices"

	"github.com/lumenhook/lumenhook/domain"
)

// window bounds the attempts under way to one endpoint. It grows while the
// receiver keeps up and halves when it shows that it does not, so that a slow
// receiver holds few of the attempts that all share (G6).
type window struct {
	size     float64
	limit    int
	underWay int
	probing  bool     // the last attempt failed, or there was none yet
	blocked  []string // groups that wait for an attempt to end, one for each epoch at most

	sealedUntilMillis int64 // nothing can be signed for it until it is tried again

	starts starts // for the endpoint's rate limit
}

// firstWindow is what a receiver of which nothing is known gets.
const firstWindow = 2

// quickMillis is how soon an answer counts as keeping up.
const quickMillis = 2000

// newWindow makes the window of a receiver. What began until a time is not known.
func newWindow(limit int, unknownUntilMillis int64) *window {
	w := &window{size: float64(min(firstWindow, limit)), limit: limit, probing: true}
	w.starts.quietSince(unknownUntilMillis)
	return w
}

func (w *window) room() int { return int(w.size) - w.underWay }

func (w *window) begin(nowMillis int64, limited bool) {
	w.underWay++
	w.starts.add(nowMillis, limited)
}

// end counts an attempt out. A quick success adds one place for every window's
// worth of them, doubling at first; no answer, or an error of the server,
// halves.
func (w *window) end(r domain.AttemptResult) {
	w.underWay--
	w.probing = !r.Succeeded()
	switch {
	case r.StatusCode == 0 || r.StatusCode >= 500:
		w.size = max(1, w.size/2)
	case r.Succeeded() && r.DurationMillis < quickMillis:
		w.size = min(float64(w.limit), w.size+1)
	}
}

// block notes a group that is asked again when an attempt has ended.
func (w *window) block(group string) {
	if !slices.Contains(w.blocked, group) {
		w.blocked = append(w.blocked, group)
	}
}

// restart begins again with one attempt at a time: the receiver was away, and
// much may have waited for it.
func (w *window) restart() { w.size, w.probing = 1, true }

// allowance is how many attempts may start now at a rate; 0 is no limit. When it is
// nothing, wakeMillis is when to ask again.
func (w *window) allowance(perSecond int, nowMillis int64) (n int, wakeMillis int64) {
	if perSecond == 0 {
		return w.limit, 0
	}
	return w.starts.allowance(perSecond, nowMillis)
}
