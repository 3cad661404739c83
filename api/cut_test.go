package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"github.com/lumenhook/lumenhook/internal/testkit"
)

// If a response fails after its first part has been sent, whether by a panic or an error, it must
// not look complete. The request must still get its log line and its metric.
func TestAnAnswerThatBreaksOffLooksBroken(t *testing.T) {
	for name, fail := range map[string]func() error{
		"a panic":  func() error { panic("the view is broken") },
		"an error": func() error { return errors.New("the view is broken") },
	} {
		t.Run(name, func(t *testing.T) {
			var log testkit.Buffer
			answered := make(chan int, 1)
			a := &API{Config: Config{
				Log: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return time.Time{} },
				Entropy:  strings.NewReader(""),
				Answered: func(_, _ string, status int, _ time.Duration) { answered <- status },
			}, router: mux.NewRouter()}
			a.router.Handle("/", a.answering(route{path: "/", handle: func(
				context.Context, *request,
			) (reply, error) {
				return reply{stream: func(w *bufio.Writer) error {
					_, _ = w.WriteString(strings.Repeat("x", streamBytes+10))
					return fail()
				}}, nil
			}}))
			server := httptest.NewUnstartedServer(a)
			server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
			server.Start()
			defer server.Close()
			response, err := http.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if _, err := io.Copy(io.Discard, response.Body); err == nil {
				t.Error("it looks complete")
			}
			if status := <-answered; status != http.StatusInternalServerError {
				t.Errorf("the metric has status %d", status)
			}
			if line := log.String(); !strings.Contains(line, "msg=request") ||
				!strings.Contains(line, "the view is broken") {
				t.Errorf("the log has %s", line)
			}
		})
	}
}
