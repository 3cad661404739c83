package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

const (
	// processTimeout is longer than a process takes to check its parts.
	processTimeout = 10 * time.Second
	// processMaxBytes bounds an answer; the health of all roles has 2 KB, and 32 sources of
	// ledgers, each left for a reason, have 20 KB.
	processMaxBytes = 64 << 10
)

// Process is where a process of the service answers operators: at its --metrics-listen.
type Process struct {
	Service
	listen  string
	timeout time.Duration
	flags   *pflag.FlagSet
}

// Register adds the flags. Their defaults are read from the files of `lumenhook serve`.
func (p *Process) Register(f *pflag.FlagSet) {
	p.Service.Register(f)
	cli.ShareConfig(f)
	f.StringVar(&p.listen, "metrics-listen", "127.0.0.1:9464", "where the process serves "+
		"/readyz, as its own flag says; not given, it is asked where the data folder's service does")
	f.DurationVar(&p.timeout, "timeout", processTimeout, "how long the answer may take (1ms to 1m)")
	p.flags = f
}

// said is the answer of a process.
type said struct {
	url      string // that was requested
	status   int
	body     []byte
	byFolder bool // the data folder's service should answer, or one of lumenhook serve
}

// strange is the error of an answer that no process of ours gives.
func (s said) strange() error {
	return fmt.Errorf("what answers at %s is no lumenhook (it said %d %s): "+
		"is it where the process has its --metrics-listen?", s.url, s.status, http.StatusText(s.status))
}

// ask requests a path. It uses no proxy and follows no redirects: it asks the process itself.
func (p *Process) ask(ctx context.Context, path string) (s said, err error) {
	if p.timeout < time.Millisecond || p.timeout > time.Minute {
		return s, cli.Usage(fmt.Errorf("--timeout %s: must be from 1ms to 1m", p.timeout))
	}
	base, noFolder, err := p.base()
	if err != nil {
		return s, err
	}
	s.url, s.byFolder = base+path, !p.flags.Changed("metrics-listen")
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return s, err
	}
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	switch {
	case noFolder != nil && errors.Is(err, syscall.ECONNREFUSED):
		return s, fmt.Errorf("%w; and nothing listens at %s, where a process of lumenhook serve would: "+
			"--metrics-listen names another address", noFolder, p.listen)
	case err != nil:
		return s, &url.Error{Op: http.MethodGet, URL: s.url, Err: err}
	}
	defer answer.Body.Close()
	s.status = answer.StatusCode
	if s.body, err = io.ReadAll(io.LimitReader(answer.Body, processMaxBytes)); err != nil {
		return s, &url.Error{Op: http.MethodGet, URL: s.url, Err: err}
	}
	return s, nil
}

// base returns the process's address for operators: that of the data folder's service, or else the
// usual one, and why it is not the folder's.
func (p *Process) base() (address string, noFolder, err error) {
	if !p.flags.Changed("metrics-listen") {
		run, err := runfile.Read(p.DataDir)
		switch {
		case err == nil && run.MetricsURL == "":
			return "", nil, fmt.Errorf("the service of %s answers no operator: "+
				"start it with --metrics-listen", p.DataDir)
		case err == nil:
			return strings.TrimSuffix(run.MetricsURL, "/metrics"), nil, nil
		case cli.OnCommandLine(p.flags, "data-dir") || runfile.HasRun(p.DataDir):
			return "", nil, fmt.Errorf("%w; or name its address with --metrics-listen", err)
		}
		noFolder = err
	}
	if p.listen == "" {
		return "", nil, cli.Usage(fmt.Errorf("--metrics-listen %q: "+
			"a process that listens nowhere cannot be asked", p.listen))
	}
	if err := cli.CheckAddress(p.listen); err != nil {
		return "", nil, cli.Usage(fmt.Errorf("--metrics-listen %q: %w", p.listen, err))
	}
	host, port, _ := net.SplitHostPort(p.listen) // checked
	if port == "0" {
		return "", nil, cli.Usage(fmt.Errorf("--metrics-listen %q: "+
			"name the port that the process found, which its log says", p.listen))
	}
	return "http://" + net.JoinHostPort(reachable(host), port), noFolder, nil
}

// reachable returns a host's own address if a process listens on all of them.
func reachable(host string) string {
	at, err := netip.ParseAddr(host)
	switch {
	case err != nil || !at.IsUnspecified():
		return host
	case at.Is4():
		return "127.0.0.1"
	}
	return "::1"
}

// HealthFlags select the process to check, and what.
type HealthFlags struct {
	Process
	alive bool
}

// Register adds the flags. Their defaults are read from the files of `lumenhook serve`.
func (h *HealthFlags) Register(f *pflag.FlagSet) {
	h.Process.Register(f)
	f.BoolVar(&h.alive, "alive", false, "ask whether the process answers (/healthz), "+
		"and not whether its parts do their work")
}

// Health is a process's report of its health.
type Health struct {
	URL     string       `json:"url"` // that was requested
	Status  string       `json:"status"`
	DataDir string       `json:"dataDir,omitempty"` // of a `lumenhook run`
	Checks  []HealthPart `json:"checks"`
	ok      bool
}

// HealthPart is the report of a part.
type HealthPart struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

const partOK = "ok"

// Fault returns which parts are unhealthy, and why; nil if all are healthy.
func (h Health) Fault() error {
	if h.ok {
		return nil
	}
	var parts []string
	for _, c := range h.Checks {
		if c.Status != partOK {
			parts = append(parts, c.Name+": "+c.Detail)
		}
	}
	return fmt.Errorf("the process is %s: %s", h.Status, strings.Join(parts, "; "))
}

// Ask requests the health. An error means that no process of ours answered.
func (h *HealthFlags) Ask(ctx context.Context) (health Health, err error) {
	path := "/readyz"
	if h.alive {
		path = "/healthz"
	}
	said, err := h.ask(ctx, path)
	if err != nil {
		return health, err
	}
	health.ok = said.status == http.StatusOK
	known := health.ok || said.status == http.StatusServiceUnavailable
	if !known || json.Unmarshal(said.body, &health) != nil || health.Status == "" {
		return health, said.strange()
	}
	health.URL = said.url
	if said.byFolder && health.DataDir != "" && !sameFolder(health.DataDir, h.DataDir) {
		return health, fmt.Errorf("the service of %s does not run: %s is answered by the service of %s; "+
			"name that folder with --data-dir, or the address with --metrics-listen",
			h.DataDir, said.url, health.DataDir)
	}
	return health, nil
}

func sameFolder(a, b string) bool {
	at, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(at, other)
}

var (
	errNoFollower = errors.New("the process has no follower, and so no sources of ledgers: ask one " +
		"that runs with the role follower (--metrics-listen)")
	errStandsBy = errors.New("the follower of this process stands by, and asks no source: ask the " +
		"process whose lumenhook_ledger_sequence grows (--metrics-listen)")
)

// LedgerSources returns the state of the sources of ledgers, as the process that follows them sees
// it. A process that does not follow them is an error: its answer would be old.
func (p *Process) LedgerSources(ctx context.Context) (sources node.LedgerSources, err error) {
	said, err := p.ask(ctx, "/ledger-sources")
	if err != nil {
		return sources, err
	}
	switch {
	case said.status != http.StatusOK || json.Unmarshal(said.body, &sources) != nil:
		return sources, said.strange()
	case !sources.Follower:
		return sources, errNoFollower
	case !sources.Following:
		return sources, errStandsBy
	}
	return sources, nil
}
