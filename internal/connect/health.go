package connect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

const (
	// healthTimeout is longer than a process takes to check its parts.
	healthTimeout = 10 * time.Second
	// healthMaxBytes bounds an answer; one of all roles has 2 KB.
	healthMaxBytes = 64 << 10
)

// HealthFlags select the process to check, and what.
type HealthFlags struct {
	Service
	listen  string
	alive   bool
	timeout time.Duration
	flags   *pflag.FlagSet
}

// Register adds the flags. Their defaults are read from the files of `lumenhook serve`.
func (h *HealthFlags) Register(f *pflag.FlagSet) {
	h.Service.Register(f)
	cli.ShareConfig(f)
	f.StringVar(&h.listen, "metrics-listen", "127.0.0.1:9464", "where the process serves "+
		"/readyz, as its own flag says; not given, it is asked where the data folder's service does")
	f.BoolVar(&h.alive, "alive", false, "ask whether the process answers (/healthz), "+
		"and not whether its parts do their work")
	f.DurationVar(&h.timeout, "timeout", healthTimeout, "how long the answer may take")
	h.flags = f
}

// Health is a process's report of its health.
type Health struct {
	URL    string       `json:"url"` // that was requested
	Status string       `json:"status"`
	Checks []HealthPart `json:"checks"`
	well   bool
}

// HealthPart is the report of a part.
type HealthPart struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

const partIsWell = "ok"

// Fault returns which parts are unhealthy, and why; nil if all are healthy.
func (h Health) Fault() error {
	if h.well {
		return nil
	}
	var parts []string
	for _, c := range h.Checks {
		if c.Status != partIsWell {
			parts = append(parts, c.Name+": "+c.Detail)
		}
	}
	return fmt.Errorf("the process is %s: %s", h.Status, strings.Join(parts, "; "))
}

// Ask requests the health. An error means that no process of ours answered.
func (h *HealthFlags) Ask(ctx context.Context) (Health, error) {
	if h.timeout < time.Millisecond || h.timeout > time.Minute {
		return Health{}, cli.Usage(fmt.Errorf("--timeout %s: must be from 1ms to 1m", h.timeout))
	}
	base, err := h.base()
	if err != nil {
		return Health{}, err
	}
	address := base + "/readyz"
	if h.alive {
		address = base + "/healthz"
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	return askHealth(ctx, address)
}

// base returns the process's address for operators.
func (h *HealthFlags) base() (string, error) {
	if !h.flags.Changed("metrics-listen") {
		run, err := runfile.Read(h.DataDir)
		switch {
		case err == nil && run.MetricsURL == "":
			return "", fmt.Errorf("the service of %s has no /readyz: "+
				"start it with --metrics-listen", h.DataDir)
		case err == nil:
			return strings.TrimSuffix(run.MetricsURL, "/metrics"), nil
		case cli.OnCommandLine(h.flags, "data-dir"):
			return "", fmt.Errorf("%w; or name its address with --metrics-listen", err)
		}
	}
	if h.listen == "" {
		return "", cli.Usage(fmt.Errorf("--metrics-listen %q: "+
			"a process that listens nowhere cannot be asked", h.listen))
	}
	if err := cli.CheckAddress(h.listen); err != nil {
		return "", cli.Usage(fmt.Errorf("--metrics-listen %q: %w", h.listen, err))
	}
	host, port, _ := net.SplitHostPort(h.listen) // checked
	if port == "0" {
		return "", cli.Usage(fmt.Errorf("--metrics-listen %q: "+
			"name the port that the process found, which its log says", h.listen))
	}
	return "http://" + net.JoinHostPort(reachable(host), port), nil
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

// askHealth uses no proxy and follows no redirects: it asks the process itself.
func askHealth(ctx context.Context, address string) (h Health, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return h, err
	}
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return h, &url.Error{Op: http.MethodGet, URL: address, Err: err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, healthMaxBytes))
	if err != nil {
		return h, &url.Error{Op: http.MethodGet, URL: address, Err: err}
	}
	h.well = answer.StatusCode == http.StatusOK
	known := h.well || answer.StatusCode == http.StatusServiceUnavailable
	if !known || json.Unmarshal(text, &h) != nil || h.Status == "" {
		return h, fmt.Errorf("what answers at %s is no lumenhook (it said %s): "+
			"is it where the process has its --metrics-listen?", address, answer.Status)
	}
	h.URL = address
	return h, nil
}
