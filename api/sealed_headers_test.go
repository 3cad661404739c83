package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// TestHeaderValuesAreSealed: values leave the API sealed, bound to their endpoint and name,
// and the API shows them as they were given.
func TestHeaderValuesAreSealed(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	// The credential is longer than what ids, ports or ciphers hold by chance.
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
	all := "map[Authorization:" + token + " X-Empty:]"
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

	// Setting the same value changes nothing, and keeps the seal.
	same := wantStatus(t, w.call("PATCH", path, k, `{"headers":{"authorization":"`+token+`"}}`), 200)
	if same.Header.Get("ETag") != `"1"` ||
		string(w.endpoints[id].Headers[0].Sealed) != string(kept[0].Sealed) {
		t.Errorf("%s: the same value was taken for another", same.Header.Get("ETag"))
	}
	changed := wantStatus(t, w.call("PATCH", path, k, `{"headers":{"X-Empty":"full"}}`), 200)
	shown("changed", changed.body, "map[Authorization:"+token+" X-Empty:full]")
	if got := w.endpoints[id].Headers; string(got[0].Sealed) != string(kept[0].Sealed) ||
		string(got[1].Sealed) == string(kept[1].Sealed) {
		t.Error("not only the header that changed was sealed anew")
	}
	// A header that was resealed between the read and the decision stays resealed.
	resealed := reseal(t, w, id)
	shown("resealed",
		wantStatus(t,
			w.call("PATCH", path, k, `{"headers":{"X-Empty":null}}`, "If-Match", changed.Header.Get("ETag")),
			200).body,
		"map[Authorization:"+token+"]")
	if got := w.endpoints[id].Headers; len(got) != 1 ||
		string(got[0].Sealed) != string(resealed[0].Sealed) {
		t.Error("a change put the former seal back")
	}
	if strings.Contains(w.log.String(), credential) {
		t.Error("the value is in the log")
	}
}

// reseal does what `lumenhook secrets rewrap` does, unknown to this node.
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

// TestWhatDoesNotOpen: a repeat is told that its answer is forgotten; other requests get
// the endpoint, with the names of its lost headers. A change of another header leaves a
// lost one as it is; it can be set again.
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
	const lost = "map[X-B:2] [X-A]"
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
	repeated := w.call("POST", "/v1/endpoints", k, create, "Idempotency-Key", "one")
	wantProblem(t, repeated, 409, "ALREADY_EXISTS")
	if repeated.Header.Get("Idempotent-Replayed") != "true" {
		t.Error("the repeat is not told that it is one")
	}
	if got := wantStatus(t, w.call("PATCH", path, k, `{"headers":{"X-B":"3"}}`), 200); headersOf(
		got.body,
	) != "map[X-B:3] [X-A]" {
		t.Errorf("%s", got.body)
	}
	got := wantStatus(t, w.call("PATCH", path, k, `{"headers":{"X-A":"new","X-B":"2"}}`), 200)
	if strings.Contains(string(got.body), "lostHeaders") ||
		fmt.Sprint(in(t, got.body, "headers")) != "map[X-A:new X-B:2]" {
		t.Errorf("%s", got.body)
	}
}
