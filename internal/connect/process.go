package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
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
	f.DurationVar(&p.timeout, "timeout", processTimeout, "how long the answer may take")
	p.flags = f
}

// said is what a process answered.
type said struct {
	url    string // that was requested
	status int
	body   []byte
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
	s.url = base + path
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
		case cli.OnCommandLine(p.flags, "data-dir"):
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
