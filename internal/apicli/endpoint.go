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
		cli.Row(w, "header", name+": the value can no longer be decrypted and is not sent; set it again")
	}
	if e.Health != nil || e.HealthUnavailable != "" {
		h := healthOf(e)
		cli.Row(w, "health", h.State)
		cli.Row(w, "success", fmt.Sprintf("%s in 1h, %s in 24h, %s in 7d", rate(h.Hour), rate(h.Day),
			rate(h.Week)))
		cli.Row(w, "last success", h.LastSuccessAt)
		cli.Row(w, "last failure", h.LastFailureAt)
		cli.Row(w, "oldest pending", oldestPending(h))
		if h.SlowedDown != "" {
			cli.Row(w, "slowed down", h.SlowedDown)
		}
	}
	showWarnings(w, e.Warnings)
	if e.Secret != "" {
		cli.Row(w, "secret", e.Secret)
		_, _ = io.WriteString(w, "\nThe secret is shown only once. Store it now.\n")
	}
}

func endpointRow(e client.Endpoint) []any {
	h := healthOf(e)
	return []any{e.ID, h.State, rate(h.Hour), rate(h.Day), rate(h.Week), sparkline(h.Sparkline),
		h.LastSuccessAt, oldestPending(h), e.URL, e.Description}
}

// healthOf returns an endpoint's health, or a State that explains why it is unknown.
func healthOf(e client.Endpoint) client.EndpointHealth {
	if e.Health == nil {
		return client.EndpointHealth{State: "unknown (" + e.HealthUnavailable + ")"}
	}
	return *e.Health
}

// rate formats the success rate. It rounds down, so that 100% means no failures.
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

// sparkline draws a bar per period. Its height is the success rate; a dot means no attempts.
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

// CheckTest returns an error if the receiver did not accept the test.
func CheckTest(t client.TestResult) error {
	a := t.Attempt
	r := ResultOf(a.StatusCode, a.Error, a.ErrorDetail)
	if r.Succeeded() {
		return nil
	}
	return fmt.Errorf("the receiver did not accept the test: %s: %s. The test is retried like "+
		"any event", r.Answer(), remedyOf(r))
}

// ResultOf returns the result of an attempt, whose fields are nil if they don't apply.
func ResultOf(statusCode *int, fault, detail *string) (r domain.AttemptResult) {
	if statusCode != nil {
		r.StatusCode = *statusCode
	}
	if fault != nil {
		r.Error = domain.AttemptError(*fault)
	}
	if detail != nil {
		r.ErrorDetail = *detail
	}
	return r
}

func remedyOf(r domain.AttemptResult) string {
	switch {
	case r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden:
		return "the receiver's secret probably differs from this endpoint's: compare them, " +
			"or create a new one with `lumenhook endpoints rotate-secret`"
	case r.StatusCode != 0:
		return "fix the receiver or the endpoint's URL"
	}
	return "`lumenhook doctor --only dns,egress --url URL` checks the connection step by step"
}

// CheckURL rejects a plain HTTP URL on this machine, to which the service cannot deliver, and
// suggests `lumenhook listen`.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" {
		return nil // the API reports other faults
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil
	}
	return cli.Usage(errors.New("--url: must begin with https://; `lumenhook listen --forward-to " +
		"URL` posts events to a receiver on this machine"))
}

// ConfirmDeletion lists the watches that deleting the endpoint leaves without one, and returns an
// error unless the user confirms.
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

// ShowDeletedEndpoint prints a deletion and the watches that are now without an endpoint.
func ShowDeletedEndpoint(w io.Writer, d client.DeletedEndpoint) {
	cli.Row(w, "deleted", d.ID)
	if left := d.LeftWatches; left.Total > 0 {
		cli.Row(w, "watches without an endpoint", left.Total)
		for _, id := range left.IDs {
			cli.Row(w, "", id)
		}
		cli.Row(w, "", "to give them another: lumenhook watches update WATCH_ID --endpoint ep_…")
	}
}

// SecretOut is the --secret-out flag, which keeps a new secret off the terminal.
type SecretOut struct{ file string }

// Register adds the flags.
func (s *SecretOut) Register(f *pflag.FlagSet) {
	f.StringVar(&s.file, "secret-out", "", "append the secret to this file instead of "+
		"showing it; only its owner can read the file")
}

// Check rejects --field secret, because the printed result does not contain the secret.
func (s *SecretOut) Check(field string) error {
	if s.file != "" && field == "secret" {
		return errors.New("--field secret and --secret-out exclude each other: the secret is only " +
			"in the file")
	}
	return nil
}

// Show prints an endpoint, and the file that contains its secret.
func (s *SecretOut) Show(w io.Writer, e client.Endpoint) {
	ShowEndpoint(w, e)
	if s.file != "" {
		cli.Row(w, "secret", "appended to "+s.file)
	}
}

// ShowRotated is like Show, for an endpoint whose previous secret stays valid for a while.
func (s *SecretOut) ShowRotated(w io.Writer, e client.Endpoint) {
	s.Show(w, e)
	_, _ = io.WriteString(w, "\nThe previous secret also signs for 24 hours. "+
		"Add the new one to the receiver before then.\n")
}

// Keep calls ask, which returns an endpoint with a new secret, and writes the secret to the file.
// It opens the file first, because a secret is returned only once and must not be lost.
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
		if about, known := f.Stat(); known == nil && about.Size() == 0 {
			err = errors.Join(err, os.Remove(s.file)) // or the file looks as if it had the secret
		}
		return e, errors.Join(err, f.Close())
	}
	_, err = fmt.Fprintln(f, e.Secret)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return e, fmt.Errorf("--secret-out: cannot store the secret of %s, rotate it: %w",
			e.ID, err)
	}
	e.Secret = ""
	return e, nil
}
