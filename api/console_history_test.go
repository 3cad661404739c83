package api_test

import (
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// The page of a history must show each change and the state after the selected fact. Facts are
// selected by links, without scripts.
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
	has(d.get(page).text, "State after version 2",
		"<code>label</code>: the till → the other till<br>", `href="?version=1#then"`,
		"Current watch")
	has(d.get(page+"?version=1").text, "State after version 1", "<dd>the till</dd>")
	has(d.get(page+"?version=9").text, "Select a version above")
	for err, says := range map[error]string{
		readmodel.ErrFactsMissing: "The first facts are no longer stored",
		readmodel.ErrBehind:       "Still catching up",
	} {
		w.historyErr = err
		has(d.get(page).text, says)
	}
	w.historyErr = nil
	wantStatus(t, w.call("DELETE", path, k, ""), 204)
	has(d.get(page).text, "The watch was deleted", "deletedAt")
}

func TestConsoleShowsAnEventsHistory(t *testing.T) {
	w := newWorld(t)
	d, _ := signedIn(t, w, domain.Permissions()...)
	w.happens(account("a"), anEvent, wentOnAt)
	text := d.get("/console/events/" + anEvent + "/history").text
	for _, part := range []string{
		"<code>held</code>: false → true<br>", "Queued again<br>", "Attempted<br>", "Handed over",
		"Current event", "<dt>runReason</dt>",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %s", part, text)
		}
	}
}

// Each fact of an event that was handed over must be selectable, although each endpoint counts
// versions separately.
func TestConsoleChoosesOneFactOfAHandedOverEvent(t *testing.T) {
	w := newWorld(t)
	d, _ := signedIn(t, w, domain.Permissions()...)
	w.happens(account("a"), anEvent, wentOnAt)
	page := "/console/events/" + anEvent + "/history"
	for query, at := range map[string]string{
		"?version=2":                      wentOnAt, // the newer endpoint
		"?version=2&at=" + wentOnAt:       wentOnAt,
		"?at=" + eventFrom + "&version=2": eventFrom,
	} {
		text := d.get(page + query).text
		if n := strings.Count(text, "shown below"); n != 1 {
			t.Errorf("%s: %d facts are shown below", query, n)
		}
		_, then, _ := strings.Cut(text, `id="then"`)
		if !strings.Contains(then, "<dt>endpointId</dt><dd>"+at+"</dd>") {
			t.Errorf("%s: shown is %s", query, then)
		}
		if !strings.Contains(text, "version 2 at <code>"+at+"</code>") {
			t.Errorf("%s: no row names %s", query, at)
		}
	}
	link := `href="?at=` + eventFrom + `&amp;version=2#then"`
	if text := d.get(page).text; !strings.Contains(text, link) {
		t.Errorf("%s is not in %s", link, text)
	}
}
