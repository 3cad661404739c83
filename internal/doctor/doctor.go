package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/mailer"
	"github.com/lumenhook/lumenhook/streams/topology"
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
			return fmt.Errorf("unknown check %q: use %s", name, strings.Join(Names(), ", "))
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

// Config says what to check.
type Config struct {
	What string // a description
	// why a service of lumenhook run does not run; nil: it runs, or this is not one
	Away        error
	Faults      []error  // of its settings
	SecretFiles []string // that others must not read

	Cluster  kafka.Cluster
	Embedded bool // broker and database are those of lumenhook run
	Topology topology.CheckOptions

	ClickHouse   string // DSN; empty: no database
	NoClickHouse string // why
	Ledgers      []config.Server
	Clocks       []config.Server // the same once more, since each is asked by one goroutine
	Quorum       int             // of them
	Passphrase   string          // of their network
	NoLedgers    error
	Egress       egress.Config
	TryURL       string // a receiver's; empty: none is tried
	DataDir      string
	LeastFree    uint64 // bytes, of the data folder's disk
	LeastFiles   uint64 // that the process must be allowed to have open
	Mail         *mailer.SMTP
	MailServer   string
	Only         []string // names of checks; none: all
	Timeout      time.Duration
	Explain      func(error) string
	Now          func() time.Time
}

// ofService is a check of something that only a running service has or reports: its addresses, and
// its start options. Without the service the check is skipped.
func (cfg *Config) ofService(run checkFunc) checkFunc {
	if cfg.Away == nil {
		return run
	}
	return func(_ context.Context, f *findings) {
		f.add(Unknown, "", "left out, as the service does not run")
	}
}

// Configuration is the check that says what is checked, or why a service does not run.
const Configuration = "configuration"

// checks are all checks, in the order in which they are listed.
func (cfg *Config) checks() []check {
	return []check{
		{Configuration, cfg.configuration},
		{"files", cfg.files},
		{"kafka", cfg.ofService(cfg.kafka)},
		{"topics", cfg.ofService(cfg.topics)},
		{"transactions", cfg.ofService(cfg.transactions)},
		{"rights", cfg.ofService(cfg.rights)},
		{"clickhouse", cfg.ofService(cfg.clickhouse)},
		{"ledgers", cfg.ofService(cfg.ledgers)},
		{"clock", cfg.ofService(cfg.clock)},
		{"dns", cfg.dns},
		{"egress", cfg.ofService(cfg.egress)},
		{"disk", cfg.disk},
		{"limits", cfg.limits},
		{"mail", cfg.mail},
	}
}

// configuration reports problems of the settings themselves.
func (cfg *Config) configuration(_ context.Context, f *findings) {
	if cfg.Away != nil {
		f.unknown(cfg.Away, "")
	} else {
		f.ok("%s", cfg.What)
	}
	for _, fault := range cfg.Faults {
		f.failed(fault, "correct it; `lumenhook config check` prints which settings count, and where "+
			"each came from")
	}
}

// files checks who may read the files with secrets.
func (cfg *Config) files(_ context.Context, f *findings) {
	well := 0
	for _, path := range cfg.SecretFiles {
		if cfg.secretFile(path, f) {
			well++
		}
	}
	if well > 0 || len(cfg.SecretFiles) == 0 {
		f.ok("%d files of secrets can be read, and by no others", well)
	}
}

func (cfg *Config) secretFile(path string, f *findings) (well bool) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		f.add(Problem, "write it, or correct the setting that names it", "%s does not exist", path)
		return false
	}
	file, openErr := os.Open(path) // #nosec G304 -- a file that the operator named
	if err = errors.Join(err, openErr); err != nil {
		f.failed(err, "let the user that runs this program read it")
		return false
	}
	_ = file.Close()
	if open := info.Mode().Perm() &^ allowed(info); open != 0 {
		f.add(Problem, "run `chmod 600 "+path+"`", "%s has mode %04o: others may read or change it",
			path, info.Mode().Perm())
		return false
	}
	return true
}

// allowed are the rights that a file of secrets may have. One that root provides to the process
// of another user is read through its group: Kubernetes mounts secrets so, and systemd its
// credentials.
func allowed(info fs.FileInfo) fs.FileMode {
	mode := fs.FileMode(0o700)
	owner, known := info.Sys().(*syscall.Stat_t)
	if known && owner.Uid == 0 && os.Geteuid() != 0 {
		mode |= 0o040
	}
	return mode
}
