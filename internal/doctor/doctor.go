package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Status is how a check ended.
type Status string

// The results of a check, from good to bad.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Unknown Status = "unknown" // it could not be checked
	Problem Status = "problem"
)

// order is from good to bad.
var order = []Status{OK, Warning, Unknown, Problem}

// Finding is one thing that was found out.
type Finding struct {
	Status Status `json:"status"`
	Found  string `json:"found"`
	Do     string `json:"do,omitempty"` // what to do; empty: nothing
}

// Result is the result of one check.
type Result struct {
	Name       string    `json:"name"`
	Status     Status    `json:"status"` // the worst of its findings
	DurationMs int64     `json:"durationMs"`
	Findings   []Finding `json:"findings"`
}

// Report holds the results of all checks.
type Report struct {
	Status Status   `json:"status"` // the worst
	Checks []Result `json:"checks"`
}

// Fault says which checks found problems, and which could not be made; nil if all are well, or
// warn only.
func (r Report) Fault() error {
	var faults []error
	for _, status := range []Status{Problem, Unknown} {
		var names []string
		for _, c := range r.Checks {
			if c.Status == status {
				names = append(names, c.Name)
			}
		}
		switch {
		case len(names) == 0:
		case status == Problem:
			faults = append(faults, fmt.Errorf("there are problems: %s", strings.Join(names, ", ")))
		default:
			faults = append(faults, fmt.Errorf("it could not be checked: %s", strings.Join(names, ", ")))
		}
	}
	return errors.Join(faults...)
}

// check is one of the checks.
type check struct {
	name string
	run  checkFunc
}

type checkFunc func(context.Context, *findings)

// findings collects the findings of a check. It must be used by one goroutine.
type findings struct {
	list    []Finding
	explain func(error) string
}

func (f *findings) ok(format string, args ...any) {
	f.list = append(f.list, Finding{Status: OK, Found: fmt.Sprintf(format, args...)})
}

func (f *findings) add(status Status, do, format string, args ...any) {
	f.list = append(f.list, Finding{Status: status, Found: fmt.Sprintf(format, args...), Do: do})
}

// failed notes that something cannot be used at all.
func (f *findings) failed(err error, do string) {
	f.add(Problem, do, "%s", f.explain(err))
}

// unknown notes what could not be found out.
func (f *findings) unknown(err error, do string) {
	f.add(Unknown, do, "%s", f.explain(err))
}

// Names returns the names of all checks, in order.
func Names() (names []string) {
	for _, c := range (&Config{}).checks() {
		names = append(names, c.name)
	}
	return names
}

// CheckNames returns an error for names that are of no check.
func CheckNames(names []string) error {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("%q is no check: there are %s", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// Run makes the checks that only names, or all, at once, each within a time. ended is called with
// each as it ends, by one goroutine.
func Run(ctx context.Context, cfg Config, ended func(Result)) Report {
	checks := slices.DeleteFunc(cfg.checks(), func(c check) bool {
		return len(cfg.Only) > 0 && !slices.Contains(cfg.Only, c.name)
	})
	type numbered struct {
		n int
		Result
	}
	done := make(chan numbered, len(checks))
	for n, c := range checks {
		go func() { done <- numbered{n, cfg.one(ctx, c)} }()
	}
	report := Report{Status: OK, Checks: make([]Result, len(checks))}
	for range checks {
		r := <-done
		report.Checks[r.n] = r.Result
		report.Status = worse(report.Status, r.Status)
		ended(r.Result)
	}
	return report
}

// one runs one check. A check that does not end in time is abandoned: its requests have their own
// timeouts.
func (cfg *Config) one(ctx context.Context, c check) Result {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	answer := make(chan []Finding, 1)
	go func() {
		f := findings{explain: cfg.Explain}
		c.run(ctx, &f)
		answer <- f.list
	}()
	r := Result{Name: c.name, Status: OK}
	select {
	case r.Findings = <-answer:
	case <-ctx.Done():
		r.Findings = cfg.late(ctx, answer)
	}
	for _, f := range r.Findings {
		r.Status = worse(r.Status, f.Status)
	}
	r.DurationMs = time.Since(begin).Milliseconds()
	return r
}

// grace is how long a check has, after its timeout, to report its findings.
const grace = 500 * time.Millisecond

func (cfg *Config) late(ctx context.Context, answer <-chan []Finding) []Finding {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case found := <-answer:
		return found
	case <-timer.C:
	}
	f := Finding{
		Status: Unknown,
		Found:  fmt.Sprintf("no answer within %s", cfg.Timeout),
		Do: "see whether the addresses are right and a firewall lets them through, or give more " +
			"--timeout",
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		f.Found, f.Do = "it was interrupted", ""
	}
	return []Finding{f}
}

func worse(a, b Status) Status {
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}
