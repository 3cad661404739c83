package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
)

// step is a part of a repetition that stands for itself.
type step struct {
	line, name string
	takes      time.Duration // about, on two cores
	run        func(ctx context.Context, repetition int) (record, error)
}

// line is what -lines names.
type line struct {
	name, what string
	aside      bool // not part of "all"
	steps      func(l *lab) []step
}

const allLines = "all"

// lines are all of them, in the order of the table.
func lines() []line {
	return []line{
		{name: "deliver", what: "full speed to 1, 8 and 100 endpoints, with and without fsync",
			steps: (*lab).deliverSteps},
		{name: "latency", what: "append to arrival at 100/s, 500/s and half of full speed",
			steps: (*lab).latencySteps},
		{name: "close", what: "a ledger's close to arrival",
			steps: (*lab).closeSteps},
		{name: "extract", what: "ledgers of 1,000 payments to payments, on one core",
			steps: (*lab).extractSteps},
		{name: "catchup", what: "ledgers followed over RPC at a round trip of 80 ms",
			steps: (*lab).catchUpSteps},
		{name: "match", what: "payments against 1,000,000 watches", steps: (*lab).matchSteps},
		{name: "waiting", what: "1,000,000 deliveries that wait", steps: (*lab).waitingSteps},
		{name: "hanging", what: "50 healthy endpoints beside 50 that hang",
			steps: (*lab).hangingSteps},
		{name: "rebuild", what: "the history from the topics", steps: (*lab).rebuildSteps},
		{name: "api", what: "creates and reads over HTTP", steps: (*lab).apiSteps},
		{name: "kafka", what: "deliver and latency on three real brokers; needs Java 17",
			steps: (*lab).kafkaSteps},
		{name: "memory", what: "bytes for one of each, the service's memory and its start",
			steps: (*lab).memorySteps},
		{name: "history", what: "deliver after -past deliveries beside an empty history",
			steps: (*lab).historySteps},
		{name: "backlog", what: "deliver at a backlog of -deep beside one of 10,000",
			steps: (*lab).backlogSteps},
		{name: "profile", what: "where the processor time of one delivery goes", aside: true,
			steps: (*lab).profileSteps},
	}
}

// chosen are the lines that a flag names.
func chosen(names string) (list []line, err error) {
	for name := range strings.SplitSeq(names, ",") {
		if name == allLines {
			for _, l := range lines() {
				if !l.aside {
					list = append(list, l)
				}
			}
			continue
		}
		at := slices.IndexFunc(lines(), func(l line) bool { return l.name == name })
		if at < 0 {
			return nil, fmt.Errorf("-lines: there is no line %q", name)
		}
		list = append(list, lines()[at])
	}
	return list, nil
}

// printLines says what each line measures, and how long that takes with these settings.
func printPlan(w io.Writer, o options) {
	l := &lab{opt: o}
	var whole time.Duration
	fmt.Fprintln(w, "lines, and how long a repetition of each takes:")
	for _, one := range lines() {
		takes := during(one.steps(l))
		if !one.aside {
			whole += takes
		}
		fmt.Fprintf(w, "  %-8s %6s  %s\n", one.name, inWords(takes), one.what)
	}
	fmt.Fprintf(w, "  %-8s %6s  all but profile; five repetitions take %s. The first of history "+
		"also makes the\n                   past, once: about %s.\n", allLines, inWords(whole),
		inWords(5*whole), inWords(l.fillTakes()))
}

func during(steps []step) (sum time.Duration) {
	for _, s := range steps {
		sum += s.takes
	}
	return sum
}

func inWords(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	if d < 100*time.Minute {
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}

// planned is a step of one repetition.
type planned struct {
	step
	repetition int
}

// plan is what is to be measured and was not yet. Every other repetition goes in the opposite
// order, so that a machine that gets slower or faster meanwhile favours none.
func (l *lab) plan(kept *journal) (todo []planned) {
	for n := range l.opt.reps {
		var all []planned
		for _, one := range l.opt.lines {
			for _, s := range one.steps(l) {
				s.line = one.name
				if !kept.has(s.name, n+1) {
					all = append(all, planned{s, n + 1})
				}
			}
		}
		if n%2 == 1 {
			slices.Reverse(all)
		}
		todo = append(todo, all...)
	}
	return todo
}

// measure does what is planned. What a step could not measure is said in its record, and the
// others go on.
func (l *lab) measure(ctx context.Context, r *results) error {
	todo := l.plan(r.journal)
	var faults error
	for n, p := range todo {
		l.opt.say(fmt.Sprintf("%s, repetition %d of %d (%d of %d; about %s left) …", p.name,
			p.repetition, l.opt.reps, n+1, len(todo), inWords(left(todo[n:], r.journal))))
		began, meanwhile := time.Now(), measuring.Meanwhile()
		got, err := p.run(ctx, p.repetition)
		if ctx.Err() != nil {
			return errors.Join(faults, context.Cause(ctx))
		}
		got.Stamp, got.Line, got.Step, got.Repetition = r.stamp, p.line, p.name, p.repetition
		got.At, got.Seconds, got.Load = began.UTC(), time.Since(began).Seconds(), meanwhile()
		if err != nil {
			got.Fault = err.Error()
			l.opt.say(fmt.Sprintf("%s was not measured: %v", p.name, err))
			faults = errors.Join(faults, fmt.Errorf("%s, repetition %d: %w", p.name, p.repetition, err))
		}
		if err := r.journal.add(got); err != nil {
			return errors.Join(faults, err)
		}
	}
	return faults
}

// left is how long steps take, by how long they took before.
func left(todo []planned, kept *journal) (sum time.Duration) {
	for _, p := range todo {
		if took := kept.took(p.name); took > 0 {
			sum += took
		} else {
			sum += p.takes
		}
	}
	return sum
}

// run measures. Its results are those until something failed.
func run(ctx context.Context, o options) (r *results, err error) {
	if o.service, err = filepath.Abs(o.service); err != nil {
		return nil, err
	}
	// The service would fetch the engine in the background.
	if _, err := clickhouse.Ensure(ctx, clickhouse.Options{Progress: os.Stderr}); err != nil {
		return nil, err
	}
	if r, err = newResults(ctx, o); err != nil {
		return nil, err
	}
	if o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o750); err != nil {
			return r, err
		}
	}
	dir, err := os.MkdirTemp(o.scratch, "speed-")
	if err != nil {
		return r, err
	}
	l, err := openLab(o, dir)
	if err != nil {
		return r, err
	}
	err = errors.Join(l.measure(ctx, r), l.close())
	if err != nil {
		return r, fmt.Errorf("%w\nwhat the processes said is in %s", err, dir)
	}
	return r, os.RemoveAll(dir)
}
