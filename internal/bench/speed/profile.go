package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
	"github.com/lumenhook/lumenhook/internal/standalone"
)

// profileRun is where the processor time of one delivery goes.
type profileRun struct {
	Line       string  `json:"line"`
	Sync       bool    `json:"brokerSync"`
	Repetition int     `json:"repetition"`
	Deliveries int     `json:"deliveries"`
	PerSecond  float64 `json:"perSecond"` // until the history had all

	// Processor is the time in microseconds of each process, by /proc; Parts is that of the
	// service by its parts, from its profile.
	Processor map[string]float64 `json:"processorMicros"`
	Parts     map[string]float64 `json:"partsMicros"`
	Load      measuring.Load     `json:"load"`
}

// parts say to which part of the service a sample belongs: to that of the innermost function
// whose package, or name, begins so. What has no rule belongs to its caller: a system call or
// a copy is of who made it.
var parts = []struct{ prefix, part string }{
	{"runtime.gcBgMarkWorker", partGC},
	{"runtime.gcAssistAlloc", partGC},
	{"runtime.bgsweep", partGC},
	{"runtime.bgscavenge", partGC},
	{"github.com/cockroachdb/pebble", "Pebble"},
	{"github.com/twmb/franz-go/pkg/kfake", partBroker},
	{house + "internal/embedded/broker", partBroker},
	{"github.com/twmb/franz-go", "Kafka clients (kgo)"},
	{"github.com/ClickHouse", partProjector},
	{house + "projections", partProjector},
	{house + "schemas", partEncoding},
	{"google.golang.org/protobuf", partEncoding},
	{"encoding/json", partEncoding},
	{house + "internal/egress", "egress: HTTP and TLS"},
	{house + "domain", "domain: deciding, signing"},
	{house + "streams/engine", "engine"},
	{house + "streams/follower", partNetwork},
	{house + "internal/stellar", partNetwork},
	{house + "streams/directory", "directory"},
	{house + "streams", "turns, readers (streams)"},
	{house + "internal", partRest},
	{"runtime.schedule", partScheduler},
	{"runtime.mcall", partScheduler},
	{"runtime.mstart", partScheduler},
}

const (
	house         = "github.com/lumenhook/lumenhook/"
	partGC        = "GC"
	partBroker    = "broker (kfake)"
	partProjector = "projector"
	partEncoding  = "encoding"
	partNetwork   = "follower, development network"
	partScheduler = "Go scheduler"
	partRest      = "rest"
)

// partOf returns the part of a stack, whose innermost function is the first.
func partOf(stack []string) string {
	for _, function := range stack {
		for _, rule := range parts {
			if strings.HasPrefix(function, rule.prefix) {
				return rule.part
			}
		}
	}
	return partRest
}

// readProfile returns the time of each part.
func readProfile(ctx context.Context, file string) (map[string]time.Duration, error) {
	text, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-traces", "-unit=us",
		file).Output() // #nosec G204 -- ours
	if err != nil {
		return nil, fmt.Errorf("reading a profile: %w", err)
	}
	return readTraces(bytes.NewReader(text))
}

// readTraces reads what pprof prints of each stack: its time beside the innermost function, and
// the others below.
func readTraces(in io.Reader) (map[string]time.Duration, error) {
	by := make(map[string]time.Duration)
	var stack []string
	var took time.Duration
	end := func() {
		if len(stack) > 0 {
			by[partOf(stack)] += took
		}
		stack, took = nil, 0
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	began := false
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "-----------+") {
			end()
			began = true
			continue
		}
		fields := strings.Fields(strings.TrimSuffix(line, " (inline)"))
		if !began || len(fields) == 0 {
			continue
		}
		if d, err := time.ParseDuration(fields[0]); err == nil && len(fields) > 1 {
			took, fields = d, fields[1:]
		}
		stack = append(stack, strings.Join(fields, " "))
	}
	end()
	return by, lines.Err()
}

// runService is `lumenhook run` in this process, of which profiles can be taken: SIGUSR1 begins
// one, and the next ends it.
func runService(ctx context.Context, args []string) error {
	if len(args) < 1 {
		return errors.New("what names of profiles begin with is missing")
	}
	var s standalone.Flags
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	s.Register(flags)
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if err := errors.Join(s.Check()...); err != nil {
		return err
	}
	go profiles(args[0])
	return standalone.Run(ctx, &s, os.Stdout)
}

func profiles(prefix string) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	for n := 1; ; n++ {
		<-asked
		name := prefix + "-cpu-" + strconv.Itoa(n) + ".pprof"
		file, err := os.Create(name) // #nosec G703 -- the lab's own
		if err == nil {
			err = pprof.StartCPUProfile(file)
		}
		report(event{Kind: eventProfiling, Fault: text(err)})
		<-asked
		pprof.StopCPUProfile()
		err = errors.Join(err, writeAllocations(prefix+"-allocs-"+strconv.Itoa(n)+".pprof"))
		report(event{Kind: eventProfiled, URL: name, Fault: text(errors.Join(err, file.Close()))})
	}
}

// writeAllocations writes what was allocated where since the start.
func writeAllocations(name string) error {
	file, err := os.Create(name) // #nosec G703 -- the lab's own
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(file, 0), file.Close())
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// profiled takes a profile of a service while something is done.
func (s *service) profiled(ctx context.Context, do func() error) (map[string]time.Duration, error) {
	s.profiles++
	if _, err := s.toggle(eventProfiling); err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	e, err := s.toggle(eventProfiled)
	if err != nil {
		return nil, err
	}
	return readProfile(ctx, e.URL)
}

// toggle begins or ends a profile.
func (s *service) toggle(to string) (said event, err error) {
	if err := syscall.Kill(s.process.PID(), syscall.SIGUSR1); err != nil {
		return said, err
	}
	err = s.process.Await("its profile", startMax, func(events []event) bool {
		n := 0
		for _, e := range events {
			if e.Kind == to {
				n, said = n+1, e
			}
		}
		return n == s.profiles
	})
	if err == nil && said.Fault != "" {
		err = errors.New("a profile: " + said.Fault)
	}
	return said, err
}

// profileSteps are a service with fsync, and one without.
func (l *lab) profileSteps() (steps []step) {
	for _, sync := range l.opt.syncs {
		name := "profile"
		if sync {
			name += ", --broker-sync"
		}
		steps = append(steps, step{
			name:  name,
			takes: l.deliverTakes(l.opt.Deliveries) + l.opt.PaceTime + 2*l.opt.rest,
			run: func(ctx context.Context, n int) (record, error) {
				runs, err := l.profile(ctx, n, sync)
				return record{Profile: runs}, err
			},
		})
	}
	return steps
}

// profile takes profiles at full speed and at the last of the rates.
func (l *lab) profile(
	ctx context.Context, repetition int, sync bool,
) (runs []profileRun, err error) {
	s, err := l.serve(ctx, serving{sync: sync, endpoints: latencyEndpoints, profiled: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := l.warm(ctx, s); err != nil {
		return nil, err
	}
	rate := l.opt.rates[len(l.opt.rates)-1]
	for _, t := range []task{
		{Kind: loadPacedAppend, Rate: rate, Time: l.opt.PaceTime, Run: fmt.Sprintf("at %.0f/s", rate)},
		{
			Kind:    loadAppends,
			Run:     "at full speed",
			AtLeast: l.opt.Deliveries,
			Time:    l.opt.Time,
			Backlog: l.opt.Backlog,
		},
	} {
		if err := rest(ctx, l.opt.rest); err != nil {
			return runs, err
		}
		r, err := l.profileBy(ctx, s, t)
		if err != nil {
			return runs, err
		}
		r.Sync, r.Repetition = sync, repetition
		if sync {
			r.Line += ", --broker-sync"
		}
		runs = append(runs, r)
	}
	return runs, nil
}

func (l *lab) profileBy(ctx context.Context, s *service, t task) (r profileRun, err error) {
	r = profileRun{Line: "profile " + t.Run}
	l.say(r.Line)
	during := measuring.Meanwhile()
	before, err := l.used(s)
	if err != nil {
		return r, err
	}
	t.Sent, t.Run = filepath.Join(l.dir, "sent-profile"), l.ownRun(t.Run)
	var d delivered
	of, err := s.profiled(ctx, func() error {
		d, err = l.deliverAll(ctx, s, t)
		return err
	})
	if err != nil {
		return r, err
	}
	after, err := l.used(s)
	r.Load = during()
	n := float64(d.n)
	r.Deliveries, r.PerSecond = d.n, n/d.inHistory.Sub(d.began).Seconds()
	r.Processor = map[string]float64{ofLoad: d.processor / n * 1e6}
	for process := range after {
		r.Processor[process] = (after[process] - before[process]) / n * 1e6
	}
	r.Parts = make(map[string]float64)
	for part, took := range of {
		r.Parts[part] = took.Seconds() / n * 1e6
	}
	return r, err
}
