package api_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

func atDesk(
	t *testing.T,
) (w *world, d *desk, apiKey string, endpoints map[domain.HealthState]string) {
	t.Helper()
	w, apiKey, endpoints = clinic(t)
	d = newDesk(t, w)
	d.signIn(apiKey)
	return w, d, apiKey, endpoints
}

// The overview and the list must show each endpoint's state in a word, worst first. The success
// rate covers all attempts.
func TestConsoleSaysWhichEndpointsAreDown(t *testing.T) {
	w, d, _, endpoints := atDesk(t)
	for _, page := range []string{"/console", "/console/endpoints"} {
		text, last := d.open(page), 0
		for _, state := range domain.HealthStates() {
			at := strings.Index(text, "/console/endpoints/"+endpoints[state]+`"`)
			word := strings.ToUpper(string(state[:1])) + string(state[1:])
			row, _, _ := strings.Cut(text[max(at, 0):], "</tr>")
			if at < last || !strings.Contains(row, ">"+word+"<") {
				t.Errorf("%s: %s is at %d, after %d: %s", page, word, at, last, row)
			}
			last = at
		}
	}
	text := d.open("/console")
	for _, want := range []string{
		"Of 5 endpoints: 1 down, 1 failing, 1 disabled.",
		"Success, last hour</dt><dd>66.6%</dd><dd class=\"hint\">of 3 attempts",
		"Success, 24 hours</dt><dd>33.3%</dd><dd class=\"hint\">of 6 attempts",
		"Success, 7 days</dt><dd>42.8%</dd><dd class=\"hint\">of 7 attempts",
		`href="/console/endpoints/` + endpoints["down"] + `">See endpoint`,
		`aria-label="Attempts per hour: 0.0% of 2 delivered"`, "30 h ago", "nothing pending",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	one := d.open("/console/endpoints/" + endpoints["down"])
	for _, want := range []string{">Down<", "<dd>33.3%</dd>", "30 h ago", "last failure"} {
		if !strings.Contains(one, want) {
			t.Errorf("its page lacks %s: %s", want, one)
		}
	}
	const none = "no enabled endpoint has pending deliveries"
	w.pendingUnknown = true
	if text := d.open("/console"); strings.Contains(text, none) ||
		!strings.Contains(text, "<dd>unknown</dd>") {
		t.Errorf("what is pending is not known, and the overview says %s", text)
	}
	w.pendingUnknown = false
	w.historyErr = readmodel.ErrUnavailable
	for _, page := range []string{"/console", "/console/endpoints"} {
		if text := d.open(page); strings.Count(text, ">Unknown<") != 4 ||
			strings.Count(text, ">Disabled<") < 1 {
			t.Errorf("without the history %s is %s", page, text)
		}
	}
	w.historyErr = nil
	page := "/console/endpoints/" + endpoints["down"]
	d.press(page, page+"/disable")
	if text := d.open("/console"); !strings.Contains(text, none) {
		t.Errorf("nothing is pending for enabled endpoints, and the overview says %s", text)
	}
}

func TestConsoleHealthPagesFollowChanges(t *testing.T) {
	w, d, _, endpoints := atDesk(t)
	streams := make(map[string]*bufio.Reader)
	for _, page := range []string{
		"/console", "/console/endpoints?status=active", "/console/endpoints/" + endpoints["idle"],
	} {
		streams[page] = d.follow(page)
	}
	w.deliveredOf("9", account("a"), endpoints["idle"], domain.StateWaiting,
		domain.AttemptResult{SentAtMillis: w.now.Add(-time.Second).UnixMilli(), StatusCode: 500})
	for page, stream := range streams {
		said := ""
		for !strings.Contains(said, "data: changed\n") {
			line, err := stream.ReadString('\n')
			if said += line; err != nil {
				t.Fatalf("%s: %q: %v", page, said, err)
			}
		}
		if page != "/console/endpoints?status=active" && !strings.Contains(d.open(page), ">Down<") {
			t.Errorf("%s does not say that it is down", page)
		}
	}
}

// A single pending event can be sent at once, and so can all of an endpoint, after the page has
// shown their number.
func TestConsoleSendsNowWhatIsPending(t *testing.T) {
	w, d, k, endpoints := atDesk(t)
	e := endpoints["down"]
	for i := range 2 {
		w.deliveredOf(fmt.Sprint(20+i), account("a"), e, domain.StateWaiting,
			domain.AttemptResult{SentAtMillis: w.now.UnixMilli(), StatusCode: 503})
	}
	waiting := func() (ids []string) {
		return w.walk("/v1/events?state=WAITING&endpointId="+e, k, 50)
	}
	all := waiting()
	if len(all) != 3 {
		t.Fatalf("%d wait", len(all))
	}
	event := "/console/events/" + all[0]
	if text := d.open(event); !strings.Contains(text, ">Send now<") ||
		strings.Contains(text, ">Send again<") {
		t.Errorf("it cannot be sent now: %s", text)
	}
	d.press(event, event+"/resend")
	if n := len(waiting()); n != 2 {
		t.Errorf("after one was sent, %d wait", n)
	}
	pending := "/console/endpoints/" + e + "/pending"
	if !strings.Contains(d.open("/console/endpoints/"+e), `href="`+pending+`"`) {
		t.Error("the endpoint does not offer to send what is pending")
	}
	if text := d.open(pending); !strings.Contains(text, "<strong>2</strong> deliveries are waiting") ||
		!strings.Contains(text, ">Send 2 now<") || !strings.Contains(text, "up to 10 attempts") {
		t.Errorf("%s", text)
	}
	if n := len(waiting()); n != 2 {
		t.Errorf("the count has sent something: %d wait", n)
	}
	if s := d.press(pending, pending); s.StatusCode != http.StatusSeeOther {
		t.Errorf("%d %s", s.StatusCode, s.text)
	}
	if n := len(waiting()); n != 0 {
		t.Errorf("%d still wait", n)
	}
	if text := d.open(pending); !strings.Contains(text, "There is nothing to send.") {
		t.Errorf("%s", text)
	}
	for id, r := range w.history { // attempts that were already made are kept
		if r.record.EndpointID == e && len(r.record.Attempts) == 0 {
			t.Errorf("%s has lost its attempts", id)
		}
	}
	reader := newDesk(t, w)
	reader.signIn(w.newKey(account("a"), domain.PermissionRead))
	if text := reader.open(pending); strings.Contains(text, "<button class=\"main\"") ||
		!strings.Contains(text, "</code> permission") {
		t.Errorf("a reader is shown %s", text)
	}
}
