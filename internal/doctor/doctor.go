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

// Status is the result of a check or a finding.
type Status string

// The statuses, from good to bad.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Unknown Status = "unknown" // the check could not be completed
	Problem Status = "problem"
)

var order = []Status{OK, Warning, Unknown, Problem}

// Finding is one result of a check.
type Finding struct {
	Status Status `json:"status"`
	Found  string `json:"found"`
	Do     string `json:"do,omitempty"` // empty: nothing to do
}

// Result is the result of one check.
type Result struct {
	Name       string    `json:"name"`
	Status     Status    `json:"status"` // the worst status of the findings
	DurationMs int64     `json:"durationMs"`
	Findings   []Finding `json:"findings"`
}

// Report contains the results of all checks.
type Report struct {
	Status Status   `json:"status"` // the worst status of the checks
	Checks []Result `json:"checks"`
}

// Warnings returns the number of warnings.
func (r Report) Warnings() (n int) {
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			if f.Status == Warning {
				n++
			}
		}
	}
	return n
}

// Fault returns an error that lists the checks that found problems and those that could not be
// completed. Warnings are not errors.
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
			faults = append(faults, fmt.Errorf("could not be checked: %s", strings.Join(names, ", ")))
		}
	}
	return errors.Join(faults...)
}

type check struct {
	name string
	run  checkFunc
}

type checkFunc func(context.Context, *findings)

// findings collects the findings of a check. It is not safe for concurrent use.
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

func (f *findings) failed(err error, do string) {
	f.add(Problem, do, "%s", f.explain(err))
}

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

// CheckNames returns an error for an unknown check.
func CheckNames(names []string) error {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("unknown check %q (known: %s)", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// Run runs the checks in cfg.Only, or all checks, concurrently, each with a timeout. It calls ended
// with each result in the order of Names, as soon as the earlier ones have ended.
func Run(ctx context.Context, cfg Config, ended func(Result)) Report {
	checks := slices.DeleteFunc(cfg.checks(), func(c check) bool {
		return len(cfg.Only) > 0 && !slices.Contains(cfg.Only, c.name)
	})
	results := make([]chan Result, len(checks))
	for n, c := range checks {
		results[n] = make(chan Result, 1)
		go func() { results[n] <- cfg.one(ctx, c) }()
	}
	report := Report{Status: OK}
	for _, result := range results {
		r := <-result
		report.Checks = append(report.Checks, r)
		report.Status = worse(report.Status, r.Status)
		ended(r)
	}
	return report
}

// one runs one check. If the check does not finish in time, one abandons it; the check's requests
// have their own timeouts.
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

// grace is how long a check may take to report its findings after its timeout.
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
		Found:  fmt.Sprintf("no result within %s", cfg.Timeout),
		Do: "check the addresses and firewalls, or increase " +
			"--timeout",
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		f.Found, f.Do = "interrupted", ""
	}
	return []Finding{f}
}

func worse(a, b Status) Status {
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// Config describes what to check.
type Config struct {
	What string // a description
	// Away is why the service of lumenhook run is not running; nil if it runs or if this is another
	// kind of service.
	Away        error
	Faults      []error  // of the settings
	SecretFiles []string // must not be readable by others

	Cluster  kafka.Cluster
	Embedded bool // broker and database belong to lumenhook run
	Topology topology.CheckOptions

	ClickHouse   string // DSN; empty: no database
	NoClickHouse string // reason if there is none
	Ledgers      []config.Server
	Clocks       []config.Server // the same again: a Server serves one goroutine
	Quorum       int             // number of Ledgers that must agree
	Passphrase   string          // of the Ledgers' network
	NoLedgers    error
	Egress       egress.Config
	TryURL       string // URL of a receiver to test; empty: none
	DataDir      string
	LeastFree    uint64 // free bytes that the data folder's disk needs
	LeastFiles   uint64 // open files that the process needs
	PID          int    // of the running service, or 0 if it isn't known
	Mail         *mailer.SMTP
	MailServer   string
	Only         []string // names of checks; empty: all
	Timeout      time.Duration
	Explain      func(error) string
	Now          func() time.Time
}

// ofService wraps a check of something that only a running service has or reports, such as its
// addresses. If the service is not running, the check is skipped.
func (cfg *Config) ofService(run checkFunc) checkFunc {
	if cfg.Away == nil {
		return run
	}
	return func(_ context.Context, f *findings) {
		f.add(Unknown, "", "skipped, because the service is not running")
	}
}

// Configuration is the name of the check that describes the service, or explains why it is not
// running.
const Configuration = "configuration"

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

func (cfg *Config) configuration(_ context.Context, f *findings) {
	if cfg.Away != nil {
		f.unknown(cfg.Away, "")
	} else {
		f.ok("%s", cfg.What)
	}
	for _, fault := range cfg.Faults {
		f.failed(fault, "correct it; `lumenhook config check` prints the effective settings and where "+
			"each comes from")
	}
}

func (cfg *Config) files(_ context.Context, f *findings) {
	well := 0
	for _, path := range cfg.SecretFiles {
		if cfg.secretFile(path, f) {
			well++
		}
	}
	if well > 0 || len(cfg.SecretFiles) == 0 {
		f.ok("only their user can read the secret files (%d)", well)
	}
}

func (cfg *Config) secretFile(path string, f *findings) (well bool) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		f.add(Problem, "create it, or correct the setting", "%s does not exist", path)
		return false
	}
	file, openErr := os.Open(path) // the operator named the file
	if err = errors.Join(err, openErr); err != nil {
		f.failed(err, "give the user that runs this program read permission")
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

// allowed returns the permissions that a secret file may have. A file that root provides to another
// user's process is read through its group: Kubernetes mounts secrets like this, and systemd its
// credentials.
func allowed(info fs.FileInfo) fs.FileMode {
	mode := fs.FileMode(0o700)
	owner, known := info.Sys().(*syscall.Stat_t)
	if known && owner.Uid == 0 && os.Geteuid() != 0 {
		mode |= 0o040
	}
	return mode
}
