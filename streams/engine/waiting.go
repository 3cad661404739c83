package engine

import (
	"container/heap"
	"iter"
	"math"
)

// queue is a set of groups in order of arrival. They are blocked in the timer index and have
// pending deliveries, which bounds their number.
type queue struct {
	in    map[string]bool
	order []string
}

func newQueue() *queue { return &queue{in: make(map[string]bool)} }

func (q *queue) add(group string) {
	if !q.in[group] {
		q.in[group] = true
		q.order = append(q.order, group)
	}
}

func (q *queue) len() int { return len(q.order) }

func (q *queue) pop() (group string, ok bool) {
	if len(q.order) == 0 {
		return "", false
	}
	group, q.order = q.order[0], q.order[1:]
	delete(q.in, group)
	return group, true
}

type wakes struct {
	in      map[string]bool
	entries wakeHeap
}

func newWakes() *wakes { return &wakes{in: make(map[string]bool)} }

type wake struct {
	atMillis int64
	group    string
}

func (w *wakes) add(atMillis int64, group string) {
	if !w.in[group] {
		w.in[group] = true
		heap.Push(&w.entries, wake{atMillis, group})
	}
}

func (w *wakes) due(nowMillis int64) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(w.entries) > 0 && w.entries[0].atMillis <= nowMillis {
			group := heap.Pop(&w.entries).(wake).group
			delete(w.in, group)
			if !yield(group) {
				return
			}
		}
	}
}

func (w *wakes) nextMillis() int64 {
	if len(w.entries) == 0 {
		return math.MaxInt64
	}
	return w.entries[0].atMillis
}

type wakeHeap []wake

func (h wakeHeap) Len() int           { return len(h) }
func (h wakeHeap) Less(i, j int) bool { return h[i].atMillis < h[j].atMillis }
func (h wakeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *wakeHeap) Push(w any)        { *h = append(*h, w.(wake)) }
func (h *wakeHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	*h = old[:len(old)-1]
	return w
}
