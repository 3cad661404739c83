package apicli_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
)

// The prompt must list the watches that would lose their endpoint, and only a yes may delete it.
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
