package forward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/retry"
)

const (
	// attemptMax is the service's timeout for an attempt: connecting, headers and body.
	attemptMax = 10 * time.Second
	// answerMax bounds how much of a response is read and, if it is an error, shown.
	answerMax = 1 << 10
	// waitMax bounds how long to wait for a receiver with one signature.
	waitMax   = 30 * time.Second
	firstWait = 250 * time.Millisecond
	lastWait  = 2 * time.Second
)

var errBroken = errors.New("no response")

// Forwarder posts events to a receiver. It is not safe for concurrent use.
type Forwarder struct {
	URL    string      // empty: show events without posting them
	Header http.Header // additional headers, such as the endpoint's
	Faults []Fault     // applied to each event's first attempts
	Types  []string    // empty: all types
	AtOnce bool        // fail if the receiver is not running, instead of waiting
	// Secrets, if any, sign each post again for the current time. The signature of a pulled event
	// is as old as the event.
	Secrets []domain.Secret

	Report *Report

	client http.Client
	away   bool // the receiver was not running at the last attempt

	// Attempts made for the event that will be pulled again.
	sequence int64
	made     int
}

// New returns a Forwarder. Like the service, it does not follow redirects.
func New(url string, report *Report) *Forwarder {
	return &Forwarder{
		URL:    url,
		Report: report,
		client: http.Client{
			Timeout:   attemptMax,
			Transport: &http.Transport{DisableKeepAlives: true}, // the receiver may be restarted
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
	}
}

// Handle posts an event. It is the Handle function of a [client.Listener]. It returns
// [client.ErrPullAgain] while the receiver is not running, or an error of the report's output.
func (f *Forwarder) Handle(ctx context.Context, e client.PulledEvent) error {
	kind := typeOf(e.Body)
	if len(f.Types) > 0 && !slices.Contains(f.Types, kind) {
		return nil
	}
	line := Line{Sequence: e.Sequence, ID: e.Headers.ID, Type: kind}
	if f.URL == "" {
		return f.Report.event(line, e.Body)
	}
	if f.sequence != e.Sequence {
		f.sequence, f.made = e.Sequence, 0
	}
	for ; f.made <= len(f.Faults); f.made++ {
		var fault Fault
		if f.made < len(f.Faults) {
			fault = f.Faults[f.made]
		}
		line.Attempt = f.made + 1
		if err := f.attempt(ctx, e, line, fault); err != nil {
			return err
		}
	}
	f.sequence = 0 // if the event comes again, start over
	return nil
}

func (f *Forwarder) attempt(
	ctx context.Context, e client.PulledEvent, line Line, fault Fault,
) error {
	line.OnPurpose = fault.name
	if fault.status != 0 {
		line.Status = fault.status
		return f.Report.attempt(line)
	}
	began := time.Now()
	wait := retry.Policy{First: firstWait, Last: lastWait, Within: waitMax, If: isAway}
	if f.AtOnce {
		wait.If = func(error) bool { return false }
	}
	err := retry.Do(ctx, wait, func() error {
		began = time.Now()
		status, answer, err := f.post(ctx, e, fault)
		if isAway(err) && !f.AtOnce {
			f.tellAway()
		}
		line.Status, line.Answer = status, answer
		return err
	})
	switch {
	case isAway(err) && f.AtOnce:
		return fmt.Errorf("nothing listens at %s; start the receiver first", f.URL)
	case ctx.Err() != nil, isAway(err):
		return client.ErrPullAgain
	case err != nil:
		line.Error = inWords(err)
	}
	f.away = false
	line.Millis = time.Since(began).Milliseconds()
	return f.Report.attempt(line)
}

func inWords(err error) string {
	var timed interface{ Timeout() bool }
	var asked *url.Error
	switch {
	case errors.As(err, &timed) && timed.Timeout():
		return fmt.Sprintf("no response within %d s", int(attemptMax.Seconds()))
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "the connection was closed before a response"
	case errors.As(err, &asked):
		return asked.Err.Error() // without the URL, which the user knows
	}
	return err.Error()
}

func (f *Forwarder) tellAway() {
	if !f.away {
		f.Report.printf("nothing listens at %s; waiting for the receiver", f.URL)
	}
	f.away = true
}

func isAway(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

func (f *Forwarder) post(
	ctx context.Context, e client.PulledEvent, fault Fault,
) (status int, answer string, err error) {
	if len(f.Secrets) > 0 {
		e = Sign(f.Secrets, e.Headers.ID, e.Body, e.Sequence, f.Report.Now())
	}
	request, err := e.Request(ctx, f.URL)
	if err != nil {
		return 0, "", err
	}
	for name, values := range f.Header {
		request.Header[name] = values
	}
	if fault.half {
		request.Body = brokenBody(e.Body)
		request.GetBody = nil
	}
	response, err := f.client.Do(request)
	if errors.Is(err, errBroken) {
		return 0, "", errBroken
	}
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerMax))
	return response.StatusCode, string(bytes.ToValidUTF8(text, []byte("\uFFFD"))), err
}

// typeOf returns an event's type, or "" if the body is not an event.
func typeOf(body string) string {
	var event struct{ Type string }
	if err := json.Unmarshal([]byte(body), &event); err != nil {
		return ""
	}
	return event.Type
}

// CheckURL checks a URL to forward to.
func CheckURL(text string) error {
	r, err := http.NewRequest(http.MethodPost, text, nil) //nolint:noctx // it is never sent
	if err != nil || r.URL.Host == "" || r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return fmt.Errorf("%q: must be a URL such as http://127.0.0.1:3000/webhooks", text)
	}
	return nil
}

const faultsMax = 8

// Fault is a failure that an attempt simulates. The service retries after such a failure, so a
// receiver may receive an event more than once.
type Fault struct {
	name string
	// status is a response from a proxy in front of the receiver, which receives nothing.
	status int
	// half breaks the connection in the middle of the body. If it is not set and there is no
	// status, the receiver's response is lost.
	half bool
}

// ParseFaults parses the failures that an event's first attempts simulate, in order.
func ParseFaults(names []string) ([]Fault, error) {
	if len(names) > faultsMax {
		return nil, fmt.Errorf("must be at most %d failures per event, got %d", faultsMax, len(names))
	}
	faults := make([]Fault, len(names))
	for i, name := range names {
		status, err := strconv.Atoi(name)
		switch {
		case name == "timeout", name == "reset":
			faults[i] = Fault{name: name, half: name == "reset"}
		case err == nil && status >= 400 && status <= 599:
			faults[i] = Fault{name: name, status: status}
		default:
			return nil, fmt.Errorf("%q: must be a status from 400 to 599, timeout or reset", name)
		}
	}
	return faults, nil
}

// brokenBody returns a body that fails in the middle, which breaks the connection.
func brokenBody(body string) io.ReadCloser {
	half := strings.NewReader(body[:len(body)/2])
	return io.NopCloser(io.MultiReader(half, readFault{}))
}

type readFault struct{}

func (readFault) Read([]byte) (int, error) { return 0, errBroken }

// Line reports on an event or on an attempt to post it.
type Line struct {
	Time     time.Time `json:"time"`
	Sequence int64     `json:"sequence"`
	ID       string    `json:"id"`
	Type     string    `json:"type"`
	Body     string    `json:"body,omitempty"` // if the event is not posted

	Attempt   int    `json:"attempt,omitempty"`   // of this program, starting at 1
	OnPurpose string `json:"onPurpose,omitempty"` // the simulated failure
	Status    int    `json:"status,omitempty"`
	Millis    int64  `json:"durationMs,omitempty"`
	Error     string `json:"error,omitempty"`  // instead of a status
	Answer    string `json:"answer,omitempty"` // truncated
}

// accepted reports whether the receiver accepted the event and its response arrived.
func (l Line) accepted() bool {
	return l.OnPurpose == "" && l.Error == "" && l.Status >= 200 && l.Status <= 299
}

// refused reports whether the receiver rejected the event with a 4xx status.
func (l Line) refused() bool { return l.Error == "" && l.Status >= 400 && l.Status <= 499 }

// Report reports on events and attempts, one per line, as text or JSON.
type Report struct {
	Out  io.Writer
	Tell io.Writer // what else there is to say
	JSON bool
	Now  func() time.Time
	// Refusal means that the receiver must reject each post, for example because its signature is
	// invalid.
	Refusal bool

	Events, Refused int // by the result of the last attempt
	misjudged       int // posts whose result should have been the opposite
}

// Fault returns an error unless the receiver judged every post correctly.
func (r *Report) Fault() error {
	posts := r.Events + r.Refused
	switch {
	case r.misjudged == 0:
		return nil
	case r.Refusal:
		return fmt.Errorf("the receiver must reject these events (4xx), but rejected only %d of %d",
			posts-r.misjudged, posts)
	}
	return fmt.Errorf("the receiver did not accept %d of %d events", r.misjudged, posts)
}

func (r *Report) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.Tell, format+"\n", args...)
}

func (r *Report) event(l Line, body string) error {
	r.Events++
	if l.Body = body; r.JSON {
		return r.write(l)
	}
	_, err := fmt.Fprintf(r.Out, "%s  %s\n", r.head(l), cli.OneLine(body))
	return err
}

func (r *Report) attempt(l Line) error {
	if l.OnPurpose == "" && (r.Refusal && !l.refused() || !r.Refusal && !l.accepted()) {
		r.misjudged++
	}
	switch {
	case l.accepted():
		r.Events++
	case l.OnPurpose == "":
		r.Refused++
	}
	if r.JSON {
		return r.write(l)
	}
	said := l.outcome()
	switch {
	case r.Refusal && l.refused():
		said = fmt.Sprintf("rejected as expected: %d %s", l.Status, http.StatusText(l.Status))
	case r.Refusal && l.Error == "":
		said += ": MUST BE REJECTED"
	}
	_, err := fmt.Fprintf(r.Out, "%s  %s\n", r.head(l), said)
	return err
}

func (r *Report) head(l Line) string {
	return fmt.Sprintf("%s  %d  %s  %s", r.Now().Format(time.TimeOnly), l.Sequence,
		cli.OneLine(l.Type), cli.OneLine(l.ID))
}

func (l Line) outcome() string {
	got := fmt.Sprintf("%d %s in %d ms", l.Status, http.StatusText(l.Status), l.Millis)
	if l.Error != "" {
		got = l.Error
	}
	switch {
	case l.OnPurpose == "timeout":
		return "response lost on purpose: " + got
	case l.OnPurpose == "reset":
		return "connection broken on purpose, after half of the body: " + got
	case l.OnPurpose != "":
		return fmt.Sprintf("%d on purpose, not posted", l.Status)
	case l.accepted():
		return got
	}
	if l.Error != "" {
		return got + ": NOT ACCEPTED"
	}
	return fmt.Sprintf("%s: NOT ACCEPTED: %s", got, cli.OneLine(l.Answer))
}

func (r *Report) write(l Line) error {
	l.Time = r.Now().UTC()
	e := json.NewEncoder(r.Out)
	e.SetEscapeHTML(false)
	return e.Encode(l)
}
