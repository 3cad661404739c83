package engine

import "github.com/lumenhook/lumenhook/domain"

// window bounds the attempts under way to one endpoint. It grows while the
// receiver keeps up and halves when it shows that it does not, so that a slow
// receiver holds few of the attempts that all share (G6).
type window struct {
	size     float64
	limit    int
	underWay int
}

// firstWindow is what a receiver of which nothing is known gets.
const firstWindow = 8

// quickMillis is how soon an answer counts as keeping up.
const quickMillis = 2000

func newWindow(limit int) *window {
	return &window{size: float64(min(firstWindow, limit)), limit: limit}
}

func (w *window) room() int { return int(w.size) - w.underWay }

func (w *window) begin() { w.underWay++ }

// end counts an attempt out. A quick success adds one place for every window's
// worth of them, doubling at first; no answer, or an error of the server,
// halves.
func (w *window) end(r domain.AttemptResult) {
	w.underWay--
	switch {
	case r.StatusCode == 0 || r.StatusCode >= 500:
		w.size = max(1, w.size/2)
	case r.Succeeded() && r.DurationMillis < quickMillis:
		w.size = min(float64(w.limit), w.size+1)
	}
}

// idle tells whether the window may be forgotten: nothing is under way, and it
// holds no bad news.
func (w *window) idle() bool { return w.underWay == 0 && w.size >= firstWindow }
