package apicli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// ShowEndpoint prints an endpoint, one field per line.
func ShowEndpoint(w io.Writer, e client.Endpoint) {
	cli.ShowFields(w, e, "headers", "lostHeaders", "health", "healthUnavailable", "warnings",
		"warningDetails", "secret")
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		cli.Row(w, "header", name+": "+e.Headers[name])
	}
	for _, name := range e.LostHeaders {
		cli.Row(w, "header", name+": its value cannot be read any more and is not sent: set it again")
	}
	if e.Health != nil || e.HealthUnavailable != "" {
		h := healthOf(e)
		cli.Row(w, "health", h.State)
		cli.Row(w, "success", fmt.Sprintf("%s in 1h, %s in 24h, %s in 7d", rate(h.Hour), rate(h.Day),
			rate(h.Week)))
		cli.Row(w, "last success", h.LastSuccessAt)
		cli.Row(w, "last failure", h.LastFailureAt)
		cli.Row(w, "oldest pending", oldestPending(h))
	}
	showWarnings(w, e.Warnings)
	if e.Secret != "" {
		cli.Row(w, "secret", e.Secret)
		_, _ = io.WriteString(w, "\nThe secret is shown only once: keep it.\n")
	}
}

// ShowEndpoints prints a list of them, with their health.
func ShowEndpoints(w io.Writer, l client.List[client.Endpoint]) {
	cli.Row(w, "ID", "HEALTH", "1H", "24H", "7D", "LAST 24H", "LAST SUCCESS", "OLDEST PENDING", "URL",
		"DESCRIPTION")
	for _, e := range l.Data {
		h := healthOf(e)
		cli.Row(w, e.ID, h.State, rate(h.Hour), rate(h.Day), rate(h.Week), sparkline(h.Sparkline),
			h.LastSuccessAt, oldestPending(h), e.URL, e.Description)
	}
	cli.More(w, l.NextCursor)
}

// healthOf says that an endpoint's health is unknown, where it is.
func healthOf(e client.Endpoint) client.EndpointHealth {
	if e.Health == nil {
		return client.EndpointHealth{State: "unknown (" + e.HealthUnavailable + ")"}
	}
	return *e.Health
}

// rate is the success of attempts, rounded down: only 100% is without a failure.
func rate(c client.AttemptCounts) string {
	if c.SuccessRate == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", math.Floor(1000**c.SuccessRate)/10)
}

func oldestPending(h client.EndpointHealth) any {
	if !h.PendingKnown {
		return "unknown"
	}
	return h.OldestPendingAt
}

// sparkline is a bar for each part of a span: as high as its success, a dot without attempts.
func sparkline(parts []client.AttemptCounts) string {
	bars, line := []rune("▁▂▃▄▅▆▇█"), []rune{}
	for _, p := range parts {
		bar := '·'
		if p.SuccessRate != nil {
			bar = bars[int(*p.SuccessRate*float64(len(bars)-1))]
		}
		line = append(line, bar)
	}
	return string(line)
}

// ShowTest prints the result of a test.
func ShowTest(w io.Writer, t client.TestResult) {
	cli.Row(w, "event", t.EventID)
	cli.Row(w, "status code", t.Attempt.StatusCode)
	cli.Row(w, "duration", fmt.Sprintf("%d ms", t.Attempt.DurationMs))
	cli.Row(w, "error", t.Attempt.Error)
	cli.Row(w, "detail", t.Attempt.ErrorDetail)
	if t.Attempt.ResponseBody != "" {
		cli.Row(w, "answer", t.Attempt.ResponseBody)
	}
}

// CheckTest returns the error of a test that the receiver did not accept.
func CheckTest(t client.TestResult) error {
	var r domain.AttemptResult
	if t.Attempt.StatusCode != nil {
		r.StatusCode = *t.Attempt.StatusCode
	}
	if t.Attempt.Error != nil {
		r.Error = domain.AttemptError(*t.Attempt.Error)
	}
	if t.Attempt.ErrorDetail != nil {
		r.ErrorDetail = *t.Attempt.ErrorDetail
	}
	if r.Succeeded() {
		return nil
	}
	return fmt.Errorf("the receiver did not take the test: %s: %s. This test is tried again, as "+
		"every event is", r.Answer(), remedyOf(r))
}

// remedyOf says what to do about a test that failed.
func remedyOf(r domain.AttemptResult) string {
	switch {
	case r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden:
		return "most receivers answer so when they have another secret than this endpoint: compare it " +
			"with the receiver's, or make a new one with `lumenhook endpoints rotate-secret`"
	case r.StatusCode != 0:
		return "correct the receiver, or the endpoint's URL"
	}
	return "`lumenhook doctor --only dns,egress --url URL` checks the way to the receiver step by step"
}

// CheckURL refuses the address of a receiver on this machine without TLS, which no service may post
// to, and names the command that may.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" {
		return nil // the API says what is wrong
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil
	}
	return cli.Usage(errors.New("--url: must begin with https://; `lumenhook listen --forward-to " +
		"URL` posts events to a receiver on this machine"))
}

// ConfirmDeletion shows which watches the deletion of an endpoint leaves without one, and fails
// unless the answer is yes.
func ConfirmDeletion(
	ctx context.Context, c *client.Client, endpointID string, in io.Reader, out io.Writer,
) error {
	left, err := c.ListWatches(ctx, client.WatchFilter{EndpointID: endpointID}, client.Page{Limit: 20})
	if err != nil {
		return err
	}
	for _, w := range left.Data {
		_, _ = fmt.Fprintf(out, "left without an endpoint: %s %s\n", w.ID, w.Label)
	}
	if left.NextCursor != nil {
		_, _ = fmt.Fprintln(out, "… and more")
	}
	_, _ = fmt.Fprintf(out, "Delete %s? [y/N] ", endpointID)
	answer, _ := bufio.NewReader(io.LimitReader(in, 100)).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was deleted")
	}
	return nil
}

// ShowDeletedEndpoint prints a deletion, and the watches that it has left without an endpoint.
func ShowDeletedEndpoint(w io.Writer, d client.DeletedEndpoint) {
	cli.Row(w, "deleted", d.ID)
	if left := d.LeftWatches; left.Total > 0 {
		cli.Row(w, "watches without an endpoint", left.Total)
		for _, id := range left.IDs {
			cli.Row(w, "", id)
		}
		cli.Row(w, "", "give them another: lumenhook watches update WATCH_ID --endpoint ep_…")
	}
}

// SecretOut is the flag that keeps a new secret off the terminal.
type SecretOut struct{ file string }

// Register adds the flag.
func (s *SecretOut) Register(f *pflag.FlagSet) {
	f.StringVar(&s.file, "secret-out", "", "append the secret to this file instead of "+
		"showing it; only its owner can read the file")
}

// Check refuses to print the member that is kept off the terminal: the answer lacks it.
func (s *SecretOut) Check(field string) error {
	if s.file != "" && field == "secret" {
		return errors.New("--field and --secret-out: the secret is in the file alone: leave one of " +
			"them out")
	}
	return nil
}

// Show prints an endpoint, and where its secret is.
func (s *SecretOut) Show(w io.Writer, e client.Endpoint) {
	ShowEndpoint(w, e)
	if s.file != "" {
		cli.Row(w, "secret", "added to "+s.file)
	}
}

// ShowRotated is Show for an endpoint whose former secret stays valid for a while.
func (s *SecretOut) ShowRotated(w io.Writer, e client.Endpoint) {
	s.Show(w, e)
	_, _ = io.WriteString(w, "\nFor 24 hours the former secret also signs: "+
		"put this one into the receiver by then.\n")
}

// Keep requests an endpoint with a new secret. The file is opened before: a secret is
// returned only once, and must not be lost.
func (s *SecretOut) Keep(ask func() (client.Endpoint, error)) (client.Endpoint, error) {
	if s.file == "" {
		return ask()
	}
	f, err := os.OpenFile(s.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return client.Endpoint{}, fmt.Errorf("--secret-out: %w", err)
	}
	e, err := ask()
	if err != nil {
		return e, errors.Join(err, f.Close())
	}
	_, err = fmt.Fprintln(f, e.Secret)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return e, fmt.Errorf("--secret-out: the secret of %s could not be kept, rotate it: %w",
			e.ID, err)
	}
	e.Secret = ""
	return e, nil
}
