package sim

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/lab/draw"
	"github.com/lumenhook/lumenhook/schemas"
)

// Options configure a run.
type Options struct {
	Seed  uint64
	Steps int
	Left  func(int) bool // steps to leave out; nil means none
	Lines bool           // keep the transcript
}

// Report is the result of a run.
type Report struct {
	Hash      uint64   // of the transcript
	Violation string   // empty if no guarantee was violated
	Step      int      // last step
	Lines     []string // transcript, if requested
	Stats     map[string]int
}

// Run executes a number of steps with faults, and then steps without faults until everything has
// settled.
func Run(o Options) (r Report) {
	w := newWorld(o.Seed, o.Lines)
	defer w.removeFolders()
	defer func() {
		if p := recover(); p != nil {
			r.Violation = describe(p)
			w.tracef("VIOLATION: %s", r.Violation)
			func() { // as far as possible
				defer func() { _ = recover() }()
				w.close()
			}()
		}
		r.Hash, r.Step, r.Lines, r.Stats = w.hash.Sum64(), w.step, w.lines, w.Stats
	}()
	for i := range o.Steps {
		if o.Left == nil || !o.Left(i) {
			w.takeStep(i)
			w.count("steps")
		}
	}
	w.comeToRest(o.Steps)
	w.verifyEnd()
	w.close()
	return r
}

// Shrink searches for fewer steps that violate the same guarantee, within a time limit. It returns
// the run's options, the number of steps left, and the report with the transcript.
func Shrink(o Options, failed Report, within time.Duration) (Options, int, Report) {
	o.Steps = min(o.Steps, failed.Step+1)
	steps := make([]int, o.Steps)
	for i := range steps {
		steps[i] = i
	}
	run := func(kept []int) Report {
		o.Left = func(i int) bool { _, is := slices.BinarySearch(kept, i); return !is }
		return Run(o)
	}
	kept := draw.Shrink(steps, time.Now().Add(within), func(some []int) bool {
		return kindOf(run(some).Violation) == kindOf(failed.Violation)
	})
	o.Lines = true
	return o, len(kept), run(kept)
}

// kindOf returns a violation without the names in it. Runs with the same kind count as the same
// failure.
func kindOf(violation string) string {
	var kind strings.Builder
	for word := range strings.FieldsSeq(violation) {
		if !strings.ContainsAny(word, "_0123456789") || len(word) == 3 && word[0] == 'G' {
			kind.WriteString(word + " ")
		}
		if kind.Len() > 60 {
			break
		}
	}
	return kind.String()
}

func describe(p any) string {
	if v, ok := p.(violation); ok {
		return v.text
	}
	return fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
}

const mostCalmSteps = 40_000

// comeToRest stops all faults, heals the receivers, and continues until everything has settled.
func (w *World) comeToRest(step int) {
	w.calm = true
	for ; ; step++ {
		if step > mostCalmSteps {
			w.violate("it does not come to rest")
		}
		w.step = step
		w.rnd = newStepRand(w.seed, step)
		w.log.expire(w.txnIDs, w.steady)
		if w.calmStep() || w.closeForTheNew() {
			continue
		}
		if w.rested() {
			w.checks.allTold()
			return
		}
		w.advance(min(max(w.nextDue(), 1), hourMillis))
	}
}

// calmStep performs a step that doesn't need time to pass.
func (w *World) calmStep() bool {
	w.resume()
	w.bootSomething()
	for _, do := range []func(*World) bool{
		(*World).writeMarker, (*World).coordinate, (*World).workEngine, (*World).deliverOutcome,
		(*World).workStandby,
		(*World).fillDirectory, (*World).workFollower, (*World).workMailer, (*World).clientReads,
		(*World).readRest,
	} {
		if do(w) {
			return true
		}
	}
	return w.askRest()
}

// closeForTheNew closes a ledger if a backfill waits for its watch to become live, which happens
// with the next ledger.
func (w *World) closeForTheNew() bool {
	if !w.allIsRead() {
		return false
	}
	for _, watch := range w.checks.model.watches {
		gone := w.checks.model.endpoints[watch.EndpointID].Deleted()
		if (watch.Backfill.UnderWay() || watch.MissedSince != 0) && watch.LiveSince == 0 &&
			!gone && !watch.Deleted() {
			return w.closeLedger()
		}
	}
	return false
}

func (w *World) readRest() bool {
	c := w.clients
	for p := range w.setup.partitions {
		at := topicPartition{schemas.TopicResults, p}
		records, next := w.log.read(at, c.from[at], 16)
		if next == c.from[at] {
			continue
		}
		c.from[at] = next
		for _, r := range records {
			c.take(r)
		}
		return true
	}
	return false
}

// askRest repeats unanswered commands. Once all are answered, it enables disabled endpoints, so no
// answer can depend on an enabling. It is called when nothing is in flight.
func (w *World) askRest() bool {
	if len(w.flights) > 0 || w.steady < w.askAgain {
		return false
	}
	asked, disabled := false, []string(nil)
	for _, cmd := range w.clients.commands {
		if w.clients.waits(cmd) {
			w.clients.ask(cmd)
			asked = true
		}
	}
	for _, id := range w.clients.endpoints {
		if !asked && w.checks.model.endpoints[id].Status == domain.StatusDisabled {
			disabled = append(disabled, id)
		}
	}
	for _, id := range disabled {
		w.clients.ask(w.clients.issue(domain.EnableEndpoint{EndpointID: id}))
	}
	w.askAgain = w.steady + 30_000
	return asked || len(disabled) > 0
}

func (w *World) rested() bool {
	for _, cmd := range w.clients.commands {
		if w.clients.waits(cmd) {
			return false
		}
	}
	m := w.checks.model
	for _, id := range m.created {
		if m.deliveries[id].State.Pending() {
			return false
		}
	}
	for _, id := range w.clients.endpoints {
		if m.endpoints[id].Status == domain.StatusDisabled {
			return false
		}
	}
	for _, watch := range m.watches {
		if watch.Backfill.UnderWay() && !watch.Deleted() {
			return false
		}
	}
	return len(w.flights) == 0 && w.checks.mails.rested() && w.mailer.idle() && w.allIsRead()
}

// allIsRead reports whether every ledger was read, and every task has taken all its inputs.
func (w *World) allIsRead() bool {
	if len(w.log.unmarked(w.txnIDs)) > 0 || w.checks.cursor != w.chain.latest() {
		return false
	}
	for p := range w.setup.partitions {
		if w.owners[p] == nil {
			return false
		}
	}
	for _, e := range w.engines {
		for _, t := range e.tasks {
			if !t.idle() || t.hasInput() || len(t.arrived) > 0 {
				return false
			}
		}
	}
	return true
}
