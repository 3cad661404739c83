package forward

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/lumenhook/lumenhook/internal/cli"
)

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
