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
	// attemptMax is the timeout of the service's own attempts: connecting, headers and body.
	attemptMax = 10 * time.Second
	// answerMax is how much of an answer is read, and shown where it refuses an event.
	answerMax = 1 << 10
	// waitMax is how long a receiver is waited for with one signature.
	waitMax   = 30 * time.Second
	firstWait = 250 * time.Millisecond
	lastWait  = 2 * time.Second
)

var errBroken = errors.New("the connection was broken off on purpose")

// Forwarder posts events to a receiver. It is used by one goroutine.
type Forwarder struct {
	URL    string      // empty: events are shown, and posted nowhere
	Header http.Header // further ones, such as an endpoint has of its own
	Faults []Fault     // of each event's first attempts
	Types  []string    // empty: all; others are passed over
	AtOnce bool        // a receiver that is not there is an error, and not waited for
	// Secrets, if there are any, sign each post again for its moment: the signature of a pulled event
	// is as old as the event.
	Secrets []domain.Secret

	Report *Report

	client http.Client
	away   bool // the receiver, when it was asked last

	// Attempts that were made of an event that was to be pulled again.
	sequence int64
	made     int
}

// New makes a forwarder. Redirects are not followed, as the service follows none.
func New(url string, report *Report) *Forwarder {
	return &Forwarder{
		URL:    url,
		Report: report,
		client: http.Client{
			Timeout:   attemptMax,
			Transport: &http.Transport{DisableKeepAlives: true}, // a receiver may be restarted
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
	}
}

// Handle posts one event, for a [client.Listener]. Its error is of the report's output, or
// [client.ErrPullAgain] while the receiver is not there.
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
	f.sequence = 0 // the same event again is another
	return nil
}

// attempt posts an event once there is a receiver, and reports how it went.
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
		return fmt.Errorf("nothing listens at %s: start the receiver first", f.URL)
	case ctx.Err() != nil, isAway(err):
		return client.ErrPullAgain
	case err != nil:
		line.Error = inWords(err)
	}
	f.away = false
	line.Millis = time.Since(began).Milliseconds()
	return f.Report.attempt(line)
}

// inWords says what an attempt ended with that has no answer.
func inWords(err error) string {
	var timed interface{ Timeout() bool }
	var asked *url.Error
	switch {
	case errors.As(err, &timed) && timed.Timeout():
		return fmt.Sprintf("no answer within %d s", int(attemptMax.Seconds()))
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "the connection was closed before an answer"
	case errors.As(err, &asked):
		return asked.Err.Error() // the address was given
	}
	return err.Error()
}

// tellAway says once that the receiver is waited for.
func (f *Forwarder) tellAway() {
	if !f.away {
		f.Report.tell("nothing listens at %s: waiting for it", f.URL)
	}
	f.away = true
}

// isAway reports whether nothing listens at the address yet.
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

// typeOf is an event's type; empty if the body is no event.
func typeOf(body string) string {
	var event struct{ Type string }
	if err := json.Unmarshal([]byte(body), &event); err != nil {
		return ""
	}
	return event.Type
}

// CheckURL checks an address to forward to.
func CheckURL(text string) error {
	r, err := http.NewRequest(http.MethodPost, text, nil) //nolint:noctx // it is never sent
	if err != nil || r.URL.Host == "" || r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return fmt.Errorf("%q: must be an address such as http://127.0.0.1:3000/webhooks", text)
	}
	return nil
}

// faultsMax bounds the failures of one event.
const faultsMax = 8

// Fault is a failure that an attempt meets on purpose, as the service may meet it. It tries
// again after each, so that a receiver gets an event more than once.
type Fault struct {
	name string
	// status is an answer of something before the receiver, which gets nothing.
	status int
	// half: the connection breaks off in the middle of the body. Otherwise, without a status,
	// the receiver's answer comes too late.
	half bool
}

// ParseFaults reads the names of failures: what an event's first attempts meet, in turn.
func ParseFaults(names []string) ([]Fault, error) {
	if len(names) > faultsMax {
		return nil, fmt.Errorf("%d failures of an event: at most %d", len(names), faultsMax)
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

// brokenBody ends with an error in the middle, which breaks off the connection.
func brokenBody(body string) io.ReadCloser {
	half := strings.NewReader(body[:len(body)/2])
	return io.NopCloser(io.MultiReader(half, readFault{}))
}

type readFault struct{}

func (readFault) Read([]byte) (int, error) { return 0, errBroken }

// Line is the report on an event, or on an attempt to post it.
type Line struct {
	Time     time.Time `json:"time"`
	Sequence int64     `json:"sequence"`
	ID       string    `json:"id"`
	Type     string    `json:"type"`
	Body     string    `json:"body,omitempty"` // where it is posted nowhere

	Attempt   int    `json:"attempt,omitempty"`   // of this program's, from 1 on
	OnPurpose string `json:"onPurpose,omitempty"` // the failure that was asked for
	Status    int    `json:"status,omitempty"`
	Millis    int64  `json:"durationMs,omitempty"`
	Error     string `json:"error,omitempty"`  // instead of a status
	Answer    string `json:"answer,omitempty"` // its beginning
}

// accepted reports whether the receiver took the event, and was heard.
func (l Line) accepted() bool {
	return l.OnPurpose == "" && l.Error == "" && l.Status >= 200 && l.Status <= 299
}

// refused reports whether the receiver said no, and not that it is in trouble.
func (l Line) refused() bool { return l.Error == "" && l.Status >= 400 && l.Status <= 499 }

// Report says what becomes of events: a line each, for people or as JSON.
type Report struct {
	Out  io.Writer
	Tell io.Writer // what else there is to say
	JSON bool
	Now  func() time.Time
	// Refusal: what is posted must be refused, such as a signature that is wrong.
	Refusal bool

	Events, Refused int // whose last attempt was, and was not accepted
	misjudged       int // that were, or were not, where the other was right
}

// Fault is nil if the receiver judged each post as it must.
func (r *Report) Fault() error {
	posts := r.Events + r.Refused
	switch {
	case r.misjudged == 0:
		return nil
	case r.Refusal:
		return fmt.Errorf("the receiver must refuse these (4xx), and refused %d of %d",
			posts-r.misjudged, posts)
	}
	return fmt.Errorf("the receiver did not take %d of %d", r.misjudged, posts)
}

func (r *Report) tell(format string, args ...any) {
	_, _ = fmt.Fprintf(r.Tell, format+"\n", args...)
}

// event shows an event that is posted nowhere.
func (r *Report) event(l Line, body string) error {
	r.Events++
	if l.Body = body; r.JSON {
		return r.write(l)
	}
	_, err := fmt.Fprintf(r.Out, "%s  %s\n", r.head(l), cli.OneLine(body))
	return err
}

// attempt shows how an attempt went.
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
		said = fmt.Sprintf("refused, as it must be: %d %s", l.Status, http.StatusText(l.Status))
	case r.Refusal:
		said += ": IT MUST BE REFUSED"
	}
	_, err := fmt.Fprintf(r.Out, "%s  %s\n", r.head(l), said)
	return err
}

func (r *Report) head(l Line) string {
	return fmt.Sprintf("%s  %d  %s  %s", r.Now().Format(time.TimeOnly), l.Sequence,
		cli.OneLine(l.Type), cli.OneLine(l.ID))
}

// outcome is how an attempt went, in words.
func (l Line) outcome() string {
	got := fmt.Sprintf("%d %s in %d ms", l.Status, http.StatusText(l.Status), l.Millis)
	if l.Error != "" {
		got = l.Error
	}
	switch {
	case l.OnPurpose == "timeout":
		return "on purpose its answer is not heard: " + got
	case l.OnPurpose == "reset":
		return "on purpose half of the body, and then nothing: " + got
	case l.OnPurpose != "":
		return fmt.Sprintf("on purpose %d, and it was not posted", l.Status)
	case l.accepted():
		return got
	}
	return fmt.Sprintf("%s: NOT ACCEPTED: %s", got, cli.OneLine(l.Answer))
}

func (r *Report) write(l Line) error {
	l.Time = r.Now().UTC()
	e := json.NewEncoder(r.Out)
	e.SetEscapeHTML(false)
	return e.Encode(l)
}
