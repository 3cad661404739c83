package apicli_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
)

// TestADeletionIsConfirmed: the watches that are left without an endpoint are shown, and only a yes
// deletes.
func TestADeletionIsConfirmed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("endpointId") != "ep_1" {
			http.Error(w, "another list", http.StatusTeapot)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":[{"id":"wat_1","label":"till"}],"nextCursor":"more"}`)
	}))
	defer server.Close()
	c, err := client.New(server.URL, "whk_test_x", nil)
	if err != nil {
		t.Fatal(err)
	}
	for answer, deletes := range map[string]bool{
		"y\n": true, "YES\n": true, "yes": true, "n\n": false, "\n": false, "": false, "yep\n": false,
	} {
		var out bytes.Buffer
		err := apicli.ConfirmDeletion(t.Context(), c, "ep_1", strings.NewReader(answer), &out)
		if (err == nil) != deletes {
			t.Errorf("%q: %v", answer, err)
		}
		if got := out.String(); !strings.Contains(got, "wat_1 till") || !strings.Contains(got, "more") {
			t.Errorf("it shows %q", got)
		}
	}
	var shown bytes.Buffer
	deleted := client.DeletedEndpoint{ID: "ep_1"}
	deleted.LeftWatches.Total, deleted.LeftWatches.IDs = 2, []string{"wat_1", "wat_2"}
	apicli.ShowDeletedEndpoint(&shown, deleted)
	for _, want := range []string{"ep_1", "2", "wat_1", "wat_2", "watches update"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("%q is not in %s", want, shown.String())
		}
	}
}

// TestASlowedEndpointIsExplained: failures with pending events are shown with their effect.
func TestASlowedEndpointIsExplained(t *testing.T) {
	const text = "8 of 100 attempts failed in 1h"
	pending := time.Now()
	for _, c := range []struct {
		delivered int64
		pending   *time.Time
		shown     bool
	}{{92, &pending, true}, {92, nil, false}, {100, &pending, false}} {
		var out bytes.Buffer
		apicli.ShowEndpoint(&out, client.Endpoint{Health: &client.EndpointHealth{
			PendingKnown: true, OldestPendingAt: c.pending,
			Hour: client.AttemptCounts{Attempts: 100, Delivered: c.delivered},
		}})
		if strings.Contains(out.String(), text) != c.shown {
			t.Errorf("%+v: it shows\n%s", c, out.String())
		}
	}
}
