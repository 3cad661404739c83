package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

func decode[T any](t testing.TB, body []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return v
}

// wantProblem checks the status and code of a response, and that the problem is complete.
func wantProblem(t testing.TB, got answer, status int, code string) problem.Problem {
	t.Helper()
	p := decode[problem.Problem](t, got.body)
	if got.StatusCode != status || p.Status != status || p.Code != code {
		t.Fatalf("got %d %s, want %d %s\n%s", got.StatusCode, p.Code, status, code, got.body)
	}
	if got.Header.Get("Content-Type") != "application/problem+json" ||
		p.RequestID != got.Header.Get("X-Request-Id") || p.RequestID == "" || p.Title == "" ||
		p.Detail == "" {
		t.Fatalf("not a whole problem: %v %s", got.Header, got.body)
	}
	return p
}

func TestWhatHeadersDecideIsDecidedBeforeTheBody(t *testing.T) {
	w := newWorld(t)
	all := w.newKey(account("a"), domain.Permissions()...)
	reader := w.newKey(account("a"), domain.PermissionRead)
	writer := w.newKey(account("a"), domain.PermissionWrite)
	event := "/v1/events/" + domain.EventID("wat_1", "1")
	for _, c := range []struct {
		name         string
		method, path string
		key          string
		header       []string
		status       int
		code         string
	}{
		{"no key", "POST", "/v1/endpoints", "", nil, 401, "UNAUTHENTICATED"},
		{"no key for a read", "GET", event, "", nil, 401, "UNAUTHENTICATED"},
		{"a mistyped key", "POST", "/v1/endpoints", all[:len(all)-1] + "!", nil, 401, "UNAUTHENTICATED"},
		{
			"an unknown key", "POST", "/v1/endpoints", domain.NewAPIKey(false, [32]byte{1}),
			nil, 401, "UNAUTHENTICATED",
		},
		{
			"another scheme", "POST", "/v1/endpoints", "",
			[]string{"Authorization", "Basic " + all}, 401, "UNAUTHENTICATED",
		},
		{"a reader's key", "POST", "/v1/endpoints", reader, nil, 403, "MISSING_PERMISSION"},
		{"a reader's key for a watch", "POST", "/v1/watches", reader, nil, 403, "MISSING_PERMISSION"},
		{"a writer's key", "GET", event, writer, nil, 403, "MISSING_PERMISSION"},
		{"nothing there", "GET", "/v1/nothing", all, nil, 404, "NOT_FOUND"},
		{"a slash too many", "POST", "/v1//watches", all, nil, 404, "NOT_FOUND"},
		{"a slash at the end", "POST", "/v1/watches/", all, nil, 404, "NOT_FOUND"},
		{"no id", "GET", "/v1/events/evt_1", all, nil, 404, "NOT_FOUND"},
		{"an unknown id", "GET", event, all, nil, 404, "NOT_FOUND"},
		{"another method", "PUT", "/v1/endpoints", all, nil, 405, "METHOD_NOT_ALLOWED"},
		{"a write to what is read", "POST", event, all, nil, 405, "METHOD_NOT_ALLOWED"},
		{
			"no content type", "POST", "/v1/endpoints", all, []string{"Content-Type", ""}, 415,
			"UNSUPPORTED_MEDIA_TYPE",
		},
		{
			"a form", "POST", "/v1/watches", all,
			[]string{"Content-Type", "application/x-www-form-urlencoded"}, 415,
			"UNSUPPORTED_MEDIA_TYPE",
		},
		{
			"another charset", "POST", "/v1/watches", all,
			[]string{"Content-Type", "application/json; charset=latin1"}, 415,
			"UNSUPPORTED_MEDIA_TYPE",
		},
		{
			"a packed body", "POST", "/v1/watches", all, []string{"Content-Encoding", "gzip"},
			415, "UNSUPPORTED_MEDIA_TYPE",
		},
		{
			"an odd idempotency key", "POST", "/v1/watches", all,
			[]string{"Idempotency-Key", "schlüssel"}, 400, "INVALID_HEADER",
		},
		{
			"a long idempotency key", "POST", "/v1/watches", all,
			[]string{"Idempotency-Key", strings.Repeat("k", 256)}, 400, "INVALID_HEADER",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			// The body never arrives, so an answer shows that the server did not wait for it.
			never, hold := io.Pipe()
			defer hold.Close()
			request, err := http.NewRequest(c.method, w.server.URL+c.path, never)
			if err != nil {
				t.Fatal(err)
			}
			if c.method == http.MethodGet {
				request.Body = nil
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Expect", "100-continue")
			if c.key != "" {
				request.Header.Set("Authorization", "Bearer "+c.key)
			}
			for i := 0; i+1 < len(c.header); i += 2 {
				request.Header.Set(c.header[i], c.header[i+1])
			}
			if got := request.Header.Get("Content-Type"); got == "" {
				request.Header.Del("Content-Type")
			}
			wantProblem(t, w.send(request, ""), c.status, c.code)
		})
	}
	w.t = t
	if len(w.answers) != 0 {
		t.Fatal("something was written")
	}
}

func TestEveryRefusedKeyGetsTheSameAnswer(t *testing.T) {
	w := newWorld(t)
	var first string
	for _, k := range []string{
		"", "x", "whk_test_", domain.NewAPIKey(true, [32]byte{9}),
		domain.NewAPIKey(false, [32]byte{9}),
	} {
		got := w.call("GET", "/v1/events/"+domain.EventID("w", "p"), k, "", "X-Request-Id", "same")
		wantProblem(t, got, 401, "UNAUTHENTICATED")
		if got.Header.Get("WWW-Authenticate") == "" {
			t.Error("no WWW-Authenticate")
		}
		if first == "" {
			first = string(got.body)
		}
		if string(got.body) != first {
			t.Errorf("%s differs from %s", got.body, first)
		}
	}
}

func TestMethodNotAllowedNamesTheMethods(t *testing.T) {
	w := newWorld(t)
	if got := w.call("DELETE", "/v1/endpoints", "", ""); got.Header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("Allow is %q", got.Header.Get("Allow"))
	}
	if got := w.call("POST", "/healthz", "", ""); got.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow is %q", got.Header.Get("Allow"))
	}
}

func TestADirectoryThatIsBehindLetsNobodyIn(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	w.freshErr = errors.New("the tables were last confirmed 7 s ago")
	got := w.call("POST", "/v1/endpoints", k, `{}`)
	wantProblem(t, got, 503, "DIRECTORY_BEHIND")
	if got.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	ready := w.call("GET", "/readyz", "", "")
	if ready.StatusCode != 503 || !strings.Contains(string(ready.body), "7 s ago") {
		t.Errorf("%d %s", ready.StatusCode, ready.body)
	}
	if health := w.call("GET", "/healthz", "", ""); health.StatusCode != 200 {
		t.Errorf("health is %d", health.StatusCode)
	}
	wantProblem(t, w.call("POST", "/v1/endpoints", "whk_test_x", `{}`), 401, "UNAUTHENTICATED")
}

func TestOperations(t *testing.T) {
	w := newWorld(t, func(c *api.Config) {
		c.Checks = []api.Check{{
			Name:   "broker",
			Run:    func(context.Context) error { return nil },
			Detail: func(context.Context) string { return "3 records behind" },
		}}
	})
	if got := w.call("GET", "/healthz", "", ""); got.StatusCode != 200 ||
		string(got.body) != `{"status":"ok"}` {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	want := `{"status":"ready","checks":[{"name":"directory","status":"ok"},{"name":"broker","status":"ok","detail":"3 records behind"}]}`
	if got := w.call("GET", "/readyz", "", ""); got.StatusCode != 200 || string(got.body) != want {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	wantProblem(t, w.call("GET", "/metrics", "", ""), 404, "NOT_FOUND") // metrics have their own port
	got := w.call("GET", "/v1/openapi.yaml", "", "")
	if got.StatusCode != 200 || got.Header.Get("Content-Type") != "application/yaml" ||
		string(got.body) != string(schemas.OpenAPI) {
		t.Errorf("%d %v", got.StatusCode, got.Header)
	}
	head := w.call("HEAD", "/v1/openapi.yaml", "", "")
	if head.StatusCode != 200 || len(head.body) != 0 ||
		head.Header.Get("Content-Length") != got.Header.Get("Content-Length") {
		t.Errorf("HEAD: %d %v", head.StatusCode, head.Header)
	}
}

func TestEveryAnswerCarriesTheCommonHeaders(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/healthz", "/nothing", "/v1/events/x", "/docs"} {
		h := w.call("GET", path, "", "", "X-Request-Id", "client-1.2:3").Header
		if h.Get("X-Request-Id") != "client-1.2:3" || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Cache-Control") != "no-store" || h.Get("Server") != "" {
			t.Errorf("%s: %v", path, h)
		}
	}
	for _, odd := range []string{
		"", "a b", "<script>", strings.Repeat("x", 129), "whk_test_0123456789",
		"SAV76USXIJOBMEQXPANUOQM6F5LIOTLPDIDVRJBFFE2MDJXG24TAPUU7",
	} {
		got := w.call("GET", "/healthz", "", "", "X-Request-Id", odd).Header.Get("X-Request-Id")
		if !domain.IsID("req_", got) {
			t.Errorf("%q became %q", odd, got)
		}
	}
}

func TestAPanicIsAProblemAndTheServerGoesOn(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	w.panicking = true
	wantProblem(t, w.call("POST", "/v1/endpoints", k, `{"url":"https://a.example"}`), 500, "INTERNAL")
	if !strings.Contains(w.log.String(), "the engine is on fire") {
		t.Error("the log does not tell of the panic")
	}
	w.panicking = false
	got := w.call("POST", "/v1/endpoints", k, `{"url":"https://a.example"}`)
	if got.StatusCode != 201 {
		t.Fatalf("%d %s", got.StatusCode, got.body)
	}
}

func TestTooManyRequestsAtOnceAreRefusedAtOnce(t *testing.T) {
	w := newWorld(t, func(c *api.Config) { c.MaxRequests = 1 })
	k := w.newKey(account("a"), domain.Permissions()...)
	w.gate = make(chan struct{})
	held := make(chan int, 1)
	go func() {
		for { // refused while one of the requests below is in progress
			request, _ := http.NewRequest("POST", w.server.URL+"/v1/endpoints",
				strings.NewReader(`{"url":"https://a.example"}`))
			request.Header.Set("Authorization", "Bearer "+k)
			request.Header.Set("Content-Type", "application/json")
			response, err := w.server.Client().Do(request)
			if err != nil {
				held <- 0
				return
			}
			response.Body.Close()
			if response.StatusCode != http.StatusServiceUnavailable {
				held <- response.StatusCode
				return
			}
		}
	}()
	// Other requests are answered until the held request has arrived.
	for {
		got := w.call("GET", "/v1/events/x", k, "")
		if got.StatusCode == http.StatusServiceUnavailable {
			wantProblem(t, got, 503, "OVERLOADED")
			break
		}
	}
	if health := w.call("GET", "/healthz", "", ""); health.StatusCode != 200 {
		t.Errorf("a full node must still tell that it lives: %d", health.StatusCode)
	}
	close(w.gate)
	if status := <-held; status != 201 {
		t.Errorf("the held request got %d", status)
	}
}

func TestTheLogNamesRoutesAndNeverPaths(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	w.call("GET", "/v1/events/evt_whatever?token=hush", k, "")
	w.call("GET", "/secret/path", k, "")
	text := w.log.String()
	for _, hidden := range []string{k, "evt_whatever", "hush", "secret/path"} {
		if strings.Contains(text, hidden) {
			t.Errorf("the log holds %q:\n%s", hidden, text)
		}
	}
	for _, shown := range []string{
		`"route":"/v1/events/{id}"`, `"status":404`, `"account":"` + account("a"),
		`"code":"NOT_FOUND"`, `"requestId":"req_`,
	} {
		if !strings.Contains(text, shown) {
			t.Errorf("the log lacks %s:\n%s", shown, text)
		}
	}
}

func TestNewNamesEveryMissingPart(t *testing.T) {
	_, err := api.New(api.Config{MaxRequests: -1})
	if err == nil {
		t.Fatal("an empty configuration was taken")
	}
	for _, name := range []string{
		"Commands", "Directory", "History", "Sealer", "Wallets", "URLs", "Entropy", "Now",
		"Log", "MaxRequests",
	} {
		if !strings.Contains(err.Error(), "Config."+name+" ") {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
}

func TestTheServerLimitsWhatAClientCanDragOut(t *testing.T) {
	s := api.NewServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= 0 || s.IdleTimeout <= 0 ||
		s.MaxHeaderBytes <= 0 {
		t.Fatalf("%+v", s)
	}
	w := newWorld(t)
	connection, err := net.Dial("tcp", w.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_, _ = io.WriteString(connection,
		"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: "+strings.Repeat("a", 64<<10)+"\r\n\r\n")
	answer, _ := io.ReadAll(connection)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 431 ") {
		t.Errorf("%.60q", answer)
	}
}

// pointers returns the faults as "pointer CODE", sorted.
func pointers(p problem.Problem) []string {
	var list []string
	for _, f := range p.Errors {
		list = append(list, f.Pointer+" "+f.Code)
	}
	slices.Sort(list)
	return list
}
