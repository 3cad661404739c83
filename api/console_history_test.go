package api_test

import (
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
)

// The page of a history has each change, and the state after the fact that is chosen; without
// script, by links.
func TestConsoleShowsAHistory(t *testing.T) {
	w := newWorld(t)
	d, k := signedIn(t, w, domain.Permissions()...)
	made := w.call("POST", "/v1/watches", k, watchBody(w.newEndpoint(k), `,"label":"the till"`))
	path := "/v1/watches/" + decode[struct{ ID string }](t, made.body).ID
	wantStatus(t, w.call("PATCH", path, k, `{"label":"the other till"}`), 200)
	page := strings.Replace(path, "/v1", "/console", 1) + "/history"
	has := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%q is not in %s", part, text)
			}
		}
	}
	has(d.get(page).text, "What it was after version 2",
		"<code>label</code>: the till → the other till<br>", `href="?version=1#then"`,
		"The watch as it is now")
	has(d.get(page+"?version=1").text, "What it was after version 1", "<dd>the till</dd>")
	has(d.get(page+"?version=9").text, "No fact of this page has that version")
	for err, says := range map[error]string{
		api.ErrFactsMissing:  "The first facts are not kept",
		api.ErrHistoryBehind: "Still catching up",
	} {
		w.historyErr = err
		has(d.get(page).text, says)
	}
	w.historyErr = nil
	wantStatus(t, w.call("DELETE", path, k, ""), 204)
	has(d.get(page).text, "The watch was deleted", "deletedAt")
}

// An event's page leads to its history, whose facts are in words.
func TestConsoleShowsAnEventsHistory(t *testing.T) {
	w := newWorld(t)
	d, _ := signedIn(t, w, domain.Permissions()...)
	w.happens(account("a"), anEvent, wentOnAt)
	text := d.get("/console/events/" + anEvent + "/history").text
	for _, part := range []string{
		"<code>held</code>: false → true<br>", "Queued again<br>", "Attempted<br>", "Handed over",
		"The event as it is now", "<dt>runReason</dt>",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %s", part, text)
		}
	}
}
