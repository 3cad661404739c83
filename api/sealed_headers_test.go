package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// Values must leave the API sealed for their endpoint and name, and no response may show them,
// neither to a key that may only read nor to the key that set them.
func TestHeaderValuesAreSealed(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	// The credential is too long to occur by chance in ids, ports or ciphertexts.
	const credential = "of-these-tidings"
	const token = "Bearer " + credential
	made := wantStatus(t,
		w.call("POST", "/v1/endpoints", k,
			`{"url":"https://a.example/","headers":{"Authorization":"`+token+`","X-Empty":""}}`,
			"Idempotency-Key", "one"),
		201)
	id := in(t, made.body, "id").(string)
	path := "/v1/endpoints/" + id
	shown := func(what string, body []byte, want string) {
		t.Helper()
		if got := fmt.Sprint(in(t, body, "headers")); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	const all = "map[Authorization:[redacted] X-Empty:[redacted]]"
	shown("created", made.body, all)
	shown("read", wantStatus(t, w.call("GET", path, k, ""), 200).body, all)
	shown("repeated",
		wantStatus(t,
			w.call("POST", "/v1/endpoints", k,
				`{"url":"https://a.example/","headers":{"Authorization":"`+token+`","X-Empty":""}}`,
				"Idempotency-Key", "one"),
			201).body,
		all)
	kept := w.endpoints[id].Headers
	for i, name := range []string{"Authorization", "X-Empty"} {
		if kept[i].Name != name || strings.Contains(string(kept[i].Sealed), credential) {
			t.Fatalf("kept as %q", kept)
		}
		if _, err := newSealer(t).Open(kept[i].Sealed, id); err == nil {
			t.Errorf("%s opens as a secret", name)
		}
		if _, err := newSealer(t).Open(kept[i].Sealed, kept[1-i].SealedFor(id)); err == nil {
			t.Errorf("%s opens as another header", name)
		}
	}

	// Setting the same value changes nothing and keeps the sealed value.
	same := wantStatus(t, w.call("PATCH", path, k, `{"headers":{"authorization":"`+token+`"}}`), 200)
	if same.Header.Get("ETag") != `"1"` ||
		string(w.endpoints[id].Headers[0].Sealed) != string(kept[0].Sealed) {
		t.Errorf("%s: the same value was taken for another", same.Header.Get("ETag"))
	}
	changed := wantStatus(t, w.call("PATCH", path, k, `{"headers":{"X-Empty":"full"}}`), 200)
	shown("changed", changed.body, all)
	if got := w.endpoints[id].Headers; string(got[0].Sealed) != string(kept[0].Sealed) ||
		string(got[1].Sealed) == string(kept[1].Sealed) {
		t.Error("not only the header that changed was sealed anew")
	}
	// A header that was resealed between the read and the decision must stay resealed.
	resealed := reseal(t, w, id)
	shown("resealed",
		wantStatus(t,
			w.call("PATCH", path, k, `{"headers":{"X-Empty":null}}`, "If-Match", changed.Header.Get("ETag")),
			200).body,
		"map[Authorization:[redacted]]")
	if got := w.endpoints[id].Headers; len(got) != 1 ||
		string(got[0].Sealed) != string(resealed[0].Sealed) {
		t.Error("a change put the former seal back")
	}
	if strings.Contains(w.log.String(), credential) {
		t.Error("the value is in the log")
	}
}

// reseal does what `lumenhook secrets rewrap` does, without this node's knowledge.
func reseal(t *testing.T, w *world, id string) []domain.Header {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.endpoints[id]
	body := domain.ResealSecrets{EndpointID: id}
	for _, h := range e.Headers {
		value, err := newSealer(t).Open(h.Sealed, h.SealedFor(id))
		if err != nil {
			t.Fatal(err)
		}
		again, err := newSealer(t).Seal(value, h.SealedFor(id))
		if err != nil {
			t.Fatal(err)
		}
		body.Values = append(body.Values, domain.Resealed{Was: h.Sealed, Sealed: again})
	}
	answer := w.decide(domain.Command{ID: "cmd_reseal", AccountID: e.AccountID, Body: body})
	if answer.Rejection != nil || answer.Endpoint.Revision != e.Revision {
		t.Fatalf("%+v", answer)
	}
	return w.endpoints[id].Headers
}

// Every response must list the headers of an endpoint that can no longer be opened. Changing
// another header must keep them, and they can be set again.
func TestWhatDoesNotOpen(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	const create = `{"url":"https://a.example/","headers":{"X-A":"1","X-B":"2"}}`
	id := in(t,
		wantStatus(t, w.call("POST", "/v1/endpoints", k, create, "Idempotency-Key", "one"), 201).body,
		"id").(string)
	w.mu.Lock()
	e := w.endpoints[id]
	e.Headers = []domain.Header{
		{Name: "X-A", Sealed: []byte("sealed with a key that was dropped")}, e.Headers[1],
	}
	w.endpoints[id] = e
	for command, answered := range w.answers {
		answered.Answer.Endpoint = &e
		w.answers[command] = answered
	}
	w.mu.Unlock()
	path := "/v1/endpoints/" + id
	const lost = "map[X-B:[redacted]] [X-A]"
	headersOf := func(body []byte) string {
		return fmt.Sprint(in(t, body, "headers"), " ", in(t, body, "lostHeaders"))
	}
	page := in(t, wantStatus(t, w.call("GET", "/v1/endpoints", k, ""), 200).body, "data").([]any)
	listed := page[0].(map[string]any)
	for _, answer := range []string{
		headersOf(wantStatus(t, w.call("GET", path, k, ""), 200).body),
		fmt.Sprint(listed["headers"], " ", listed["lostHeaders"]),
		headersOf(wantStatus(t, w.call("POST", path+"/disable", k, ""), 200).body),
	} {
		if answer != lost {
			t.Errorf("headers %s, want %s", answer, lost)
		}
	}
	repeated := wantStatus(t,
		w.call("POST", "/v1/endpoints", k, create, "Idempotency-Key", "one"), 201)
	if headersOf(repeated.body) != lost {
		t.Errorf("%s", repeated.body)
	}
	if got := wantStatus(t, w.call("PATCH", path, k, `{"headers":{"X-B":"3"}}`), 200); headersOf(
		got.body,
	) != lost {
		t.Errorf("%s", got.body)
	}
	got := wantStatus(t, w.call("PATCH", path, k, `{"headers":{"X-A":"new","X-B":"2"}}`), 200)
	if strings.Contains(string(got.body), "lostHeaders") ||
		fmt.Sprint(in(t, got.body, "headers")) != "map[X-A:[redacted] X-B:[redacted]]" {
		t.Errorf("%s", got.body)
	}
}

// TestHeaderValuesAreWriteOnly plays a user with a key who wants the credential that the receiver
// requires. No response of any route may contain it.
func TestHeaderValuesAreWriteOnly(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	const credential = "let-these-deliveries-in"
	const create = `{"url":"https://a.example/","headers":{"Authorization":"` + credential + `"}}`
	var answers []string
	call := func(method, path, body string, status int, header ...string) []byte {
		t.Helper()
		got := wantStatus(t, w.call(method, path, k, body, header...), status)
		answers = append(answers, method+" "+path+": "+string(got.body))
		return got.body
	}
	made := call("POST", "/v1/endpoints", create, 201, "Idempotency-Key", "one")
	id := in(t, made, "id").(string)
	path := "/v1/endpoints/" + id
	call("POST", "/v1/endpoints", create, 201, "Idempotency-Key", "one")
	read := call("GET", path, "", 200)
	call("GET", "/v1/endpoints", "", 200)
	call("POST", path+"/disable", "", 200)
	call("POST", path+"/enable", "", 200)
	call("POST", path+"/rotate-secret", "", 200)
	call("PATCH", path, `{"headers":{"X-B":"2"}}`, 200)
	call("GET", path+"/history", "", 200)
	for _, answer := range answers {
		if strings.Contains(answer, credential) {
			t.Errorf("the value of a header is shown: %s", answer)
		}
	}
	kept := w.endpoints[id].Headers[0].Sealed

	// An object that was read can be changed and sent back as a whole: the mask keeps the value.
	whole := strings.Replace(string(read), `"description":""`, `"description":"mine"`, 1)
	if got := call("PATCH", path, whole, 200); in(t, got, "description") != "mine" ||
		string(w.endpoints[id].Headers[0].Sealed) != string(kept) {
		t.Errorf("the mask was taken for a value: %s", got)
	}
	const mask = `{"url":"https://a.example/","headers":{"X-New":"[redacted]"}}`
	wantProblem(t, w.call("POST", "/v1/endpoints", k, mask), 422, "VALIDATION_FAILED")
	wantProblem(t, w.call("PATCH", path, k, mask), 422, "VALIDATION_FAILED")
}

// TestHeadersStayWithTheirOrigin plays a user who may change URLs and wants the credential that is
// sent there, by setting a URL of their own and sending a test. The values must not move with the
// URL unless they are sent again.
func TestHeadersStayWithTheirOrigin(t *testing.T) {
	for name, c := range map[string]struct{ patch, headers, warnings string }{
		"path":          {`{"url":"https://a.example/other"}`, "X-A X-B", "[]"},
		"host":          {`{"url":"https://b.example/"}`, "", "[HEADER_DROPPED:X-A HEADER_DROPPED:X-B]"},
		"longer host":   {`{"url":"https://a.example.b.example/"}`, "", "[HEADER_DROPPED:X-A HEADER_DROPPED:X-B]"},
		"port":          {`{"url":"https://a.example:8443/"}`, "", "[HEADER_DROPPED:X-A HEADER_DROPPED:X-B]"},
		"sent again":    {`{"url":"https://b.example/","headers":{"X-A":"1","X-B":"3"}}`, "X-A X-B", "[]"},
		"one of two":    {`{"url":"https://b.example/","headers":{"X-A":"1"}}`, "X-A", "[HEADER_DROPPED:X-B]"},
		"masks":         {`{"url":"https://b.example/","headers":{"X-A":"[redacted]"}}`, "", "[HEADER_DROPPED:X-A HEADER_DROPPED:X-B]"},
		"taken away":    {`{"url":"https://b.example/","headers":null}`, "", "[]"},
		"and a new one": {`{"url":"https://b.example/","headers":{"X-C":"3","X-A":null}}`, "X-C", "[HEADER_DROPPED:X-B]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			k := w.newKey(account("a"), domain.Permissions()...)
			made := wantStatus(t, w.call("POST", "/v1/endpoints", k,
				`{"url":"https://a.example/","headers":{"X-A":"1","X-B":"2"}}`), 201)
			id := in(t, made.body, "id").(string)
			got := wantStatus(t, w.call("PATCH", "/v1/endpoints/"+id, k, c.patch), 200)
			var names []string
			for _, h := range w.endpoints[id].Headers {
				names = append(names, h.Name)
				if _, err := newSealer(t).Open(h.Sealed, h.SealedFor(id)); err != nil {
					t.Errorf("%s: %v", h.Name, err)
				}
			}
			if kept := strings.Join(names, " "); kept != c.headers ||
				fmt.Sprint(in(t, got.body, "warnings")) != c.warnings {
				t.Errorf("headers %q, %s", kept, got.body)
			}
		})
	}
}
