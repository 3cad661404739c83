package sim

import (
	"fmt"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
)

type behaviour struct {
	name   string
	millis int64
	result domain.AttemptResult
}

// behaviours are the receivers' possible behaviours. Healthy ones come first, several times, so
// that not everything fails.
var behaviours = []behaviour{
	{"200", 40, domain.AttemptResult{StatusCode: 200, ResponseBody: []byte("ok")}},
	{"200", 40, domain.AttemptResult{StatusCode: 204}},
	{"200", 40, domain.AttemptResult{StatusCode: 200}},
	{"slow body", 6000, domain.AttemptResult{StatusCode: 200}},
	{"large body", 300, domain.AttemptResult{StatusCode: 200, Error: domain.AttemptBodyTooLarge}},
	{"404", 30, domain.AttemptResult{StatusCode: 404}},
	{"410", 30, domain.AttemptResult{StatusCode: 410}},
	{"500", 100, domain.AttemptResult{StatusCode: 500}},
	{"503", 20, domain.AttemptResult{StatusCode: 503, RetryAfterMillis: 300_000}},
	{"redirect", 20, domain.AttemptResult{StatusCode: 301, Error: domain.AttemptRedirect}},
	{"hang", 10_000, domain.AttemptResult{Error: domain.AttemptTimeout}},
	{
		"hang after the status", 10_000,
		domain.AttemptResult{StatusCode: 200, Error: domain.AttemptTimeout},
	},
	{"reset", 10, domain.AttemptResult{Error: domain.AttemptConnRefused}},
	{"410 cut off", 10, domain.AttemptResult{StatusCode: 410, Error: domain.AttemptConnRefused}},
}

type flight struct {
	task    *engineTask
	boot    int // of the task's process
	attempt domain.Attempt
	result  domain.AttemptResult
	due     int64 // by the steady clock
	done    func(domain.AttemptResult)
	line    string // wallet of the delivery's line when the attempt started
}

func (f *flight) lives() bool { return f.task.process.alive && f.task.process.boots == f.boot }

// others reports whether another process has owned the attempt's partition since.
func (f *flight) others() bool {
	return slices.ContainsFunc(f.task.process.world.owned[f.task.partition][f.task.since:],
		func(e *engineProcess) bool {
			return e != f.task.process
		})
}

type dispatcher struct {
	process   *engineProcess
	partition int32
}

func (d dispatcher) Disconnect(string) {}

// Dispatch starts an attempt.
func (d dispatcher) Dispatch(a domain.Attempt, done func(domain.AttemptResult)) {
	w := d.process.world
	i := slices.IndexFunc(d.process.tasks,
		func(t *engineTask) bool { return t.partition == d.partition })
	t := d.process.tasks[i]
	w.checks.checkStart(t, a)
	b, ok := w.receivers[a.EndpointID]
	if !ok {
		b = behaviours[0]
	}
	if w.calm {
		b = behaviours[0]
	}
	r := b.result
	r.SentAtMillis, r.DurationMillis = w.wall(), b.millis
	f := &flight{
		task:    t,
		boot:    t.process.boots,
		attempt: a,
		result:  r,
		due:     w.steady + b.millis,
		done:    done,
		line:    w.checks.reference.deliveries[deliveryID{a.EndpointID, a.EventID}].line,
	}
	w.flights = append(w.flights, f)
	t.process.inFlight[t.partition] = append(t.process.inFlight[t.partition], f)
	w.tracef("attempt %d of %s to %s starts: %s", a.Number, short(a.EventID), short(a.EndpointID),
		b.name)
	w.count("attempts")
	w.count("receiver: " + b.name)
}

func (w *World) deliverOutcome() bool {
	var due []int
	for i, f := range w.flights {
		if f.due <= w.steady {
			due = append(due, i)
		}
	}
	i, ok := pick(w, due)
	if !ok {
		return false
	}
	f := w.flights[i]
	if f.lives() && f.task.process.paused {
		return false // a paused process receives nothing
	}
	w.flights = slices.Delete(w.flights, i, i+1)
	w.checks.noteEnd(f)
	if !f.lives() {
		w.tracef("the outcome of %s is lost with its process", short(f.attempt.EventID))
		w.count("outcomes lost with their process")
		return true
	}
	w.tracef("attempt %d of %s ends: %d %s", f.attempt.Number, short(f.attempt.EventID),
		f.result.StatusCode, f.result.Error)
	f.done(f.result)
	return true
}

func (w *World) changeReceiver() bool {
	id, ok := pick(w, w.clients.endpoints)
	if !ok {
		return false
	}
	b := behaviours[w.rnd.IntN(len(behaviours))]
	w.receivers[id] = b
	w.tracef("the receiver of %s now: %s", short(id), b.name)
	return true
}

func short(id string) string {
	if len(id) < 10 {
		return id
	}
	return fmt.Sprintf("%.10s", id)
}
