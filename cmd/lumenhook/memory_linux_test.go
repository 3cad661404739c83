package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stellar/go-stellar-sdk/keypair"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

type memoryGroup struct {
	dir                string
	limit, peak, procs string // file names in dir
}

func newMemoryGroup(t *testing.T, limitBytes int) (*memoryGroup, error) {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	g := &memoryGroup{procs: "cgroup.procs"}
	for line := range strings.Lines(string(own)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case part[1] == "memory": // cgroup v1
			g.dir = filepath.Join("/sys/fs/cgroup/memory", part[2])
			g.limit, g.peak = "memory.limit_in_bytes", "memory.max_usage_in_bytes"
		case part[1] == "" && g.dir == "":
			g.dir = filepath.Join("/sys/fs/cgroup", part[2])
			g.limit, g.peak = "memory.max", "memory.peak"
		}
	}
	g.dir = filepath.Join(g.dir, fmt.Sprintf("lumenhook-test-%d", os.Getpid()))
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		testkit.EventuallyNil(t, "the cgroup is removed", func() error { return os.Remove(g.dir) })
	})
	limit := []byte(strconv.Itoa(limitBytes))
	return g, os.WriteFile(filepath.Join(g.dir, g.limit), limit, 0)
}

func (g *memoryGroup) peakBytes(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, g.peak))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func peakOf(t testing.TB, pid int) (bytes int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscanf(after, "%d kB", &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes << 10
}

// TestParallelListsStayInTheirMemory has an account with 600 watches of 1,000 senders each send 100
// requests at once, repeatedly, for every kind of read in the API, and read some of the responses
// slowly. It also requests the console's pages and streams, waits for events, calls the MCP tools,
// and runs SQL. The service, with the embedded ClickHouse, must stay within a cgroup of 1 GiB and
// answer its other clients.
func TestParallelListsStayInTheirMemory(t *testing.T) {
	const limitBytes = 1 << 30
	s := &testService{t: t, dir: t.TempDir()}
	group, err := newMemoryGroup(t, limitBytes)
	if err != nil { // the process's own peak is still checked
		t.Logf("the service runs without a cgroup, as none can be made here: %v", err)
	} else {
		s.group = filepath.Join(group.dir, group.procs)
	}
	t.Setenv("GOMEMLIMIT", strconv.Itoa(limitBytes*3/8)) // as run sets it in a container of this size
	s.start("--no-demo", "--balance-moves")
	var endpoint struct{ ID string }
	s.cli(&endpoint, "endpoints", "create", "--url", "https://127.0.0.1:8443/nobody")
	senders := make([]string, 1000)
	for i := range senders {
		senders[i] = keypair.MustRandom().Address()
	}
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range 150 {
				body, err := json.Marshal(map[string]any{
					"walletAddress": keypair.MustRandom().Address(), "endpointId": endpoint.ID,
					"assets":          []map[string]any{{"code": "XLM", "issuer": nil}},
					"senderAllowlist": senders,
				})
				if err != nil {
					t.Error(err)
				}
				if status, answer, err := s.tryCall("POST", "/v1/watches", body); status != 201 {
					t.Errorf("a watch was answered %d, %v: %s", status, err, answer)
					return
				}
			}
		})
	}
	work.Wait()

	at, err := url.Parse(s.file.APIURL)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 { // these never read the response
		conn, err := net.Dial("tcp", at.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(4096)
		fmt.Fprintf(conn, "GET /v1/watches?limit=250 HTTP/1.1\r\nHost: localhost\r\n"+
			"Authorization: Bearer %s\r\n\r\n", s.file.APIKey)
	}
	for range 100 {
		work.Go(func() {
			for range testkit.Rounds(2, 10) {
				status, _, err := s.tryCall("GET", "/v1/watches?limit=250", nil)
				if status != http.StatusOK && status != http.StatusTooManyRequests {
					t.Errorf("a list was answered %d, %v", status, err)
				}
			}
		})
	}
	work.Wait()
	var watches client.List[client.Watch]
	if status := s.call("GET", "/v1/watches?limit=1", nil, &watches); status != http.StatusOK {
		t.Fatalf("a list was answered %d", status)
	}
	one := watches.Data[0]
	reads := []string{
		"/v1/watches?limit=250", "/v1/endpoints?limit=250", "/v1/events?limit=250",
		"/v1/watches/" + one.ID, "/v1/watches/" + one.ID + "/history?limit=50",
		"/v1/endpoints/" + endpoint.ID + "/history?limit=50",
		"/v1/endpoints/" + endpoint.ID + "/events?limit=250",
		"/v1/wallets/" + one.WalletAddress + "/statement?limit=250", "/v1/attempts/rates",
		"/v1/transactions/" + strings.Repeat("ab", 32), "/v1/coverage", "/v1/account",
	}
	var answered [12]atomic.Int64 // 200 responses by read
	for i := range 100 {
		work.Go(func() {
			for n := range 12 {
				which := (i + n) % len(reads)
				status, answer, err := s.tryCall("GET", reads[which], nil)
				if status == http.StatusOK {
					answered[which].Add(1)
				} else if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
					t.Errorf("%s was answered %d, %v: %s", reads[which], status, err, answer)
				}
			}
		})
	}
	work.Wait()
	for i, read := range reads {
		t.Logf("%s: %d of 100 answered", read, answered[i].Load())
		if answered[i].Load() == 0 {
			t.Errorf("no %s was answered", read)
		}
	}
	s.attackConsole(at.Host, one.ID)
	s.attackWaits(endpoint.ID)
	s.attackMCP()
	s.attackSQL()
	if status, answer, err := s.tryCall("GET", "/v1/endpoints", nil); status != http.StatusOK {
		t.Errorf("after that a list is answered %d, %v: %s", status, err, answer)
	}
	s.stayedWithin(limitBytes, group)
	s.interrupt()
}

// stayedWithin checks the peak of the service's memory. group may be nil.
func (s *testService) stayedWithin(limitBytes int, group *memoryGroup) {
	s.t.Helper()
	peak := peakOf(s.t, s.file.PID)
	s.t.Logf("the service had %d MiB resident at most", peak>>20)
	if peak > limitBytes {
		s.t.Errorf("the service had %d MiB resident", peak>>20)
	}
	if group != nil {
		s.t.Logf("its cgroup had %d MiB at most", group.peakBytes(s.t)>>20)
	}
}

// attackConsole requests a page and the scripts of the API's reference 300 times each, and never
// reads the responses. It then requests 100 streams and 100 times the pages of the console at once.
func (s *testService) attackConsole(host, watchID string) {
	browser := s.signIn()
	base, _ := url.Parse(s.file.APIURL)
	cookie := browser.Jar.Cookies(base)[0]
	for _, path := range []string{
		"/console/watches/" + watchID + "/edit", "/docs/redoc.js", "/docs/openapi.js",
	} {
		for range 300 { // these never read the response
			conn, err := net.Dial("tcp", host)
			if err != nil {
				s.t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.(*net.TCPConn).SetReadBuffer(4096)
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nCookie: %s\r\n\r\n", path, cookie)
		}
	}
	var work sync.WaitGroup
	var pages, streams atomic.Int64
	get := func(path string) int {
		response, err := browser.Get(s.file.APIURL + path)
		if err != nil {
			s.t.Errorf("%s: %v", path, err)
			return 0
		}
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			s.t.Errorf("%s: %v", path, err)
		}
		return response.StatusCode
	}
	for range 100 {
		work.Go(func() {
			if get("/console/events/live") == http.StatusOK {
				streams.Add(1)
			}
		})
	}
	for range 100 {
		work.Go(func() {
			for _, path := range []string{
				"/console/watches", "/console/watches/" + watchID, "/console/watches/" + watchID + "/edit",
				"/console/watches/" + watchID + "/history",
			} {
				switch status := get(path); status {
				case http.StatusOK:
					pages.Add(1)
				case http.StatusTooManyRequests, http.StatusServiceUnavailable:
				default:
					s.t.Errorf("%s was answered %d", path, status)
				}
			}
		})
	}
	work.Wait()
	s.t.Logf("%d pages of the console and %d streams", pages.Load(), streams.Load())
	if pages.Load() == 0 || streams.Load() == 0 {
		s.t.Errorf("%d pages of the console and %d streams", pages.Load(), streams.Load())
	}
}

var signInToken = regexp.MustCompile(`name="token" value="([^"]+)"`)

func (s *testService) signIn() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	at := s.file.APIURL + "/console/sign-in"
	page, err := browser.Get(at)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := io.ReadAll(page.Body)
	if found := signInToken.FindSubmatch(text); err == nil && found != nil {
		page, err = browser.PostForm(at, url.Values{
			"token": {html.UnescapeString(string(found[1]))}, "key": {s.file.APIKey},
		})
	}
	if err != nil || page.Request.URL.Path != "/console" || page.StatusCode != http.StatusOK {
		s.t.Fatalf("signing in led to %v, %v\n%s", page, err, text)
	}
	return browser
}

func (s *testService) attackWaits(endpointID string) {
	var work sync.WaitGroup
	for range 100 {
		work.Go(func() {
			status, answer, err := s.tryCall("GET", "/v1/endpoints/"+endpointID+"/events?waitSeconds=3", nil)
			if status != http.StatusOK && status != http.StatusTooManyRequests {
				s.t.Errorf("a request that waits was answered %d, %v: %s", status, err, answer)
			}
		})
	}
	work.Wait()
}

func (s *testService) attackMCP() {
	a := askAssistant(s.t.(*testing.T), "--data-dir", s.dir)
	var work sync.WaitGroup
	for range 100 {
		work.Go(func() {
			for _, tool := range []string{"list_watches", "list_events", "list_endpoints"} {
				if said, isError := a.ask(tool, map[string]any{"limit": 100}); isError &&
					!regexp.MustCompile("429|503|the limit is 65536").MatchString(said) {
					s.t.Errorf("%s: %s", tool, said)
				}
			}
		})
	}
	work.Wait()
}

// attackSQL runs 20 statements at once that need more memory than there is. ClickHouse must answer
// or reject each.
func (s *testService) attackSQL() {
	var work sync.WaitGroup
	for range 20 {
		work.Go(func() {
			request, err := http.NewRequest("POST", s.file.ClickHouse.HTTP,
				strings.NewReader("SELECT length(groupArray(number)) FROM numbers(300000000)"))
			if err != nil {
				s.t.Error(err)
				return
			}
			login := s.file.ClickHouse.Reader
			request.SetBasicAuth(login.User, login.Password)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				s.t.Errorf("a statement was not answered: %v", err)
				return
			}
			defer response.Body.Close()
			if answer, err := io.ReadAll(response.Body); err != nil ||
				response.StatusCode != http.StatusOK && !regexp.MustCompile(
					"MEMORY_LIMIT|TOO_MANY_SIMULTANEOUS_QUERIES").Match(answer) {
				s.t.Errorf("a statement was answered %d, %v: %s", response.StatusCode, err, answer)
			}
		})
	}
	work.Wait()
	out, stderr, err := s.command("sql", "--format", "csv", "SELECT count() FROM deliveries")
	if err != nil {
		s.t.Errorf("after that a statement is answered %s, %v: %s", out, err, stderr)
	}
}

// tryCall is like call, but for requests that may be rejected, and for any goroutine.
func (s *testService) tryCall(method, path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequest(method, s.file.APIURL+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.file.APIKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, errors.Join(err, resp.Body.Close())
}
