package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// attack is a request that a browser can be made to send by a web page, or by a page whose name was
// rebound to this machine. A page can't set these headers in any other way.
type attack struct {
	name, method, path string
	header             map[string]string
	host               string // replaces the host of the address
	body               string
}

// attacks returns the attacks on one HTTP port, at a path where a request would have an effect.
func attacks(method, path, contentType, body string) []attack {
	page := func(more map[string]string) map[string]string {
		h := map[string]string{
			"Content-Type":   contentType,
			"Sec-Fetch-Site": "cross-site",
			"Sec-Fetch-Mode": "no-cors",
			"Sec-Fetch-Dest": "empty",
		}
		for name, value := range more {
			h[name] = value
		}
		return h
	}
	form := "application/x-www-form-urlencoded"
	return []attack{
		{
			"a page's fetch", method, path,
			page(map[string]string{"Origin": "https://evil.test"}), "", body,
		},
		{
			"a neighbour port's fetch", method, path,
			page(map[string]string{"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "same-site"}),
			"", body,
		},
		{"a sandboxed frame's fetch", method, path, page(map[string]string{"Origin": "null"}), "", body},
		{
			"a form", "POST", path,
			page(map[string]string{
				"Origin":         "https://evil.test",
				"Content-Type":   form,
				"Sec-Fetch-Mode": "navigate",
				"Sec-Fetch-Dest": "document",
			}),
			"", body,
		},
		{
			"a preflight", "OPTIONS", path,
			map[string]string{
				"Origin":                         "https://evil.test",
				"Access-Control-Request-Method":  "POST",
				"Access-Control-Request-Headers": "authorization",
				"Sec-Fetch-Site":                 "cross-site",
			},
			"", "",
		},
		{"an image", "GET", path, page(map[string]string{"Sec-Fetch-Dest": "image"}), "", ""},
		{
			"a WebSocket", "GET", path,
			map[string]string{
				"Origin":                "https://evil.test",
				"Upgrade":               "websocket",
				"Connection":            "Upgrade",
				"Sec-WebSocket-Version": "13",
				"Sec-WebSocket-Key":     "AAAAAAAAAAAAAAAAAAAAAA==",
			},
			"", "",
		},
		{
			"a rebound name", method, path,
			map[string]string{"Content-Type": contentType, "Sec-Fetch-Site": "same-origin"},
			"evil.test", body,
		},
		{
			"a rebound name with its origin", "POST", path,
			map[string]string{
				"Content-Type":   contentType,
				"Origin":         "http://evil.test",
				"Sec-Fetch-Site": "same-origin",
			},
			"evil.test", body,
		},
	}
}

// send sends the request of an attack and returns the status and the response. The status is 0 if
// the connection was cut.
func (a attack) send(t testing.TB, base string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), a.method, base+a.path,
		strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range a.header {
		req.Header.Set(name, value)
	}
	if a.host != "" {
		req.Host = a.host + ":" + req.URL.Port()
	}
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		// #nosec G402 -- the attacker's browser, which has been told to trust everything.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	if given := resp.Header.Get("Access-Control-Allow-Origin"); given != "" {
		t.Errorf("%s: the answer is shared with %q", a.name, given)
	}
	return resp.StatusCode, string(text)
}

const strangerWallet = "GBRPYHIL2CI3FNQ4BXLFMNDLFJUNPU2HY3ZMFSHONUCEOASW7QC7OX2H"

// A web page must not read from any HTTP port or change anything through it. Every attack is
// refused, and afterwards nothing has changed. Programs are served.
func TestNoWebPageReachesAPort(t *testing.T) {
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--ledger-interval", "200ms", "--demo-interval", "1h")
	defer s.interrupt()
	friendbot, err := url.Parse(s.file.Stellar.FriendbotURL)
	if err != nil {
		t.Fatal(err)
	}
	receiver := strings.TrimSuffix(s.file.Receiver.URL, "/webhooks")
	health := `{"jsonrpc":"2.0","id":1,"method":"getHealth"}`
	for _, port := range []struct {
		name, base string
		attacks    []attack
	}{
		{"the API", s.file.APIURL, attacks("GET", "/v1/endpoints", "text/plain", "")},
		{"the API's health", s.file.APIURL, attacks("GET", "/healthz", "text/plain", "")},
		{
			"friendbot", s.file.Stellar.RPCURL,
			attacks("GET", friendbot.Path+"?addr="+strangerWallet, "text/plain", ""),
		},
		{"the RPC", s.file.Stellar.RPCURL, attacks("POST", "/", "text/plain", health)},
		{
			"the metrics", strings.TrimSuffix(s.file.MetricsURL, "/metrics"),
			attacks("GET", "/metrics", "text/plain", ""),
		},
		{"the receiver", receiver, attacks("POST", "/webhooks", "text/plain", "{}")},
	} {
		for _, a := range port.attacks {
			status, answer := a.send(t, port.base)
			if status != http.StatusForbidden && status != http.StatusMisdirectedRequest {
				t.Errorf("%s: %s is answered %d: %s", port.name, a.name, status, answer)
			}
		}
	}
	accounts, err := rpc.NewAccounts(s.file.Stellar.NetworkPassphrase, s.file.Stellar.RPCURL)
	if err != nil {
		t.Fatal(err)
	}
	if held, err := accounts.Holdings(t.Context(), strangerWallet, nil); err != nil || held.Exists {
		t.Errorf("the attacks created an account: %+v, %v", held, err)
	}
	if status := s.call("GET", "/v1/endpoints", nil, nil); status != http.StatusOK {
		t.Errorf("a program with the key is answered %d", status)
	}
	if status, _ := (attack{
		method: "GET",
		path:   "/docs",
		header: map[string]string{
			"Sec-Fetch-Site": "cross-site",
			"Sec-Fetch-Mode": "navigate",
			"Sec-Fetch-Dest": "document",
		},
	}).send(t, s.file.APIURL); status != http.StatusOK {
		t.Errorf("a link to the documentation is answered %d", status)
	}
	s.clickhouseIsClosed()
}

// clickhouseIsClosed sends a page's attacks to ClickHouse's HTTP port, which checks neither Host
// nor Origin. Only the password protects it.
func (s *testService) clickhouseIsClosed() {
	s.t.Helper()
	outside := filepath.Join(s.t.TempDir(), "written-by-a-page")
	statements := []string{
		"SELECT 1", "INSERT INTO FUNCTION file('" + outside + "', 'TSV', 'x String') SELECT 'x'",
		"SELECT * FROM file('/etc/passwd', 'LineAsString')", "SELECT file('/etc/passwd')",
		"DROP TABLE lumenhook.events",
	}
	for _, statement := range statements {
		query := "/?query=" + url.QueryEscape(statement)
		for _, a := range slices.Concat(attacks("POST", "/", "text/plain", statement),
			attacks("GET", query, "text/plain", ""),
			attacks("POST", query+"&user=default&password=", "text/plain", "")) {
			status, answer := a.send(s.t, s.file.ClickHouse.HTTP)
			// ClickHouse's response to a GET without a query.
			greeting := a.method == http.MethodOptions || answer == "Ok.\n"
			if status == http.StatusOK && !greeting || strings.Contains(answer, "root:") {
				s.t.Errorf("ClickHouse: %s: %s is answered %d: %s", statement, a.name, status, answer)
			}
		}
	}
	if _, err := os.Stat(outside); !os.IsNotExist(err) {
		s.t.Errorf("a page wrote a file (%v)", err)
	}
	for who, login := range map[string]runfile.Login{
		"the service": s.file.ClickHouse.Login,
		"the reader":  s.file.ClickHouse.Reader,
	} {
		a := attack{
			method: "GET",
			header: map[string]string{"X-ClickHouse-User": login.User, "X-ClickHouse-Key": login.Password},
			path:   "/?query=" + url.QueryEscape("SELECT count() > 0 FROM lumenhook.schema_versions"),
		}
		if status, answer := a.send(s.t, s.file.ClickHouse.HTTP); status != http.StatusOK ||
			answer != "1\n" {
			s.t.Errorf("%s with its password is answered %d: %s", who, status, answer)
		}
	}
}

func (s *testService) topicsAs(login kafka.SASL) ([]string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	client, err := kgo.NewClient(append(login.Option(), kgo.SeedBrokers(s.file.KafkaBrokers...),
		kgo.RequestRetries(1))...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(ctx)
	return topics.Names(), err
}

// Passwords are generated for a data folder, kept across restarts, generated again if their file is
// removed, and readable only by their owner.
func TestARunHasPasswordsOfItsOwn(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	path := filepath.Join(s.dir, "secrets", "logins.json")
	var before runfile.File
	for round := range 3 {
		s.start("--no-demo")
		for name, file := range map[string]string{
			"logins.json": path,
			"run.json":    filepath.Join(s.dir, runfile.Name),
		} {
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
		now := s.file
		passwords := []string{now.Kafka.Password, now.ClickHouse.Password, now.ClickHouse.Reader.Password}
		slices.Sort(passwords)
		if len(slices.Compact(passwords)) != 3 || len(passwords[0]) < 26 {
			t.Errorf("round %d: the passwords are %q", round, passwords)
		}
		if same := now.Kafka == before.Kafka; round > 0 && same != (round == 1) {
			t.Errorf("round %d: kept: %v", round, same)
		}
		if got, err := s.topicsAs(now.Kafka.SASL()); err != nil || len(got) == 0 {
			t.Errorf("round %d: with the password: %v, %v", round, got, err)
		}
		for name, login := range map[string]kafka.SASL{
			"nobody": {},
			"another": {
				Mechanism: now.Kafka.Mechanism,
				User:      now.Kafka.User,
				Password:  now.ClickHouse.Password,
			},
		} {
			if got, err := s.topicsAs(login); err == nil {
				t.Errorf("round %d: %s is served: %v", round, name, got)
			}
		}
		broker := []string{"topics", "cat", "journal", "--limit", "1", "--kafka-brokers",
			now.KafkaBrokers[0]}
		if out, err := program(append(broker, "--kafka-user", now.Kafka.User, "--kafka-password",
			now.Kafka.Password)...).CombinedOutput(); err != nil ||
			!strings.Contains(string(out), "AccountCreated") {
			t.Errorf("round %d: topics cat: %v\n%s", round, err, out)
		}
		out, err := program("sql", "--data-dir", s.dir, "SELECT currentUser() AS who").CombinedOutput()
		if err != nil || !strings.Contains(string(out), now.ClickHouse.Reader.User) {
			t.Errorf("round %d: sql: %v\n%s", round, err, out)
		}
		s.interrupt()
		if before = now; round == 1 {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(path, []byte(`{"kafka":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := program(anyPorts(s.dir, "--no-demo")...).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "logins.json") {
		t.Errorf("a broken file: %v\n%s", err, fmt.Sprint(string(out)))
	}
}
