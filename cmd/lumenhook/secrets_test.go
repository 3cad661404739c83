package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

func TestSecretsRewrap(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(wantErr string, args ...string) string {
		t.Helper()
		c := program(append([]string{"secrets"}, args...)...)
		var stdout, stderr bytes.Buffer
		c.Stdout, c.Stderr = &stdout, &stderr
		err := c.Run()
		if (err == nil) != (wantErr == "") || !strings.Contains(stderr.String(), wantErr) {
			t.Fatalf("secrets %v: %v\n%s", args, err, &stderr)
		}
		return stdout.String()
	}
	run("no such file", "rewrap", "--key-only", "--data-dir", dir)
	if _, err := os.Stat(keys.MasterKeyPath(dir) + ".new"); !os.IsNotExist(err) {
		t.Errorf("a failed rewrap leaves something behind: %v", err)
	}
	s := newSealerAt(t, keys.MasterKeyPath(dir))
	sealed, err := s.Seal([]byte("whsec_x"), "ep_1")
	if err != nil {
		t.Fatal(err)
	}
	if out := run("", "rewrap", "--key-only", "--data-dir", dir); strings.Count(out, "key ") != 2 ||
		strings.Count(out, "active: encrypts and decrypts") != 1 {
		t.Errorf("rewrap printed %q", out)
	}
	run("", "rewrap", "--stage", "--master-key-file", keys.MasterKeyPath(dir))
	run("staged already", "rewrap", "--stage", "--data-dir", dir)
	if out := run("", "list", "--data-dir", dir); strings.Count(out, "key ") != 3 ||
		!strings.Contains(out, "staged") {
		t.Errorf("list printed %q", out)
	}
	if opened, err := newSealerAt(t, keys.MasterKeyPath(dir)).Open(sealed, "ep_1"); err != nil ||
		string(opened) != "whsec_x" {
		t.Errorf("opened %q, %v", opened, err)
	}
	text, err := os.ReadFile(keys.MasterKeyPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(keys.MasterKeyVariable, string(text))
	rotated := run("", "rewrap")
	t.Setenv(keys.MasterKeyVariable, rotated)
	if out := run("", "list"); strings.Count(out, "key ") != 3 || strings.Contains(out, "staged") {
		t.Errorf("list of the variable printed %q", out)
	}
}

// TestNoSecretIsLeftBehind runs the whole service, uses each kind of secret, and then searches
// every record of every topic, every table of ClickHouse, every key and value of Pebble, the log at
// its most verbose level, and every file of the data folder except run.json and secrets/ (G8).
func TestNoSecretIsLeftBehind(t *testing.T) {
	s := &testService{t: t, dir: t.TempDir()}
	stderr := &testkit.Buffer{}
	s.stderr = stderr
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms", "--log-level",
		"debug", "--retry-schedule", "50ms,1h")
	h := startHooks(t, s.dir)
	hunt := &hunt{secrets: map[string]string{
		"the API key": s.file.APIKey, "the broker's password": s.file.Kafka.Password,
		"ClickHouse's password": s.file.ClickHouse.Password,
		"the reader's password": s.file.ClickHouse.Reader.Password,
	}}

	var wallet struct{ Address, Secret string }
	s.devnet(&wallet, "account", "--json")
	hunt.secrets["the wallet's secret key"] = wallet.Secret
	var endpoints []string
	for i, url := range []string{h.url, "https://127.0.0.1:1024/refuses"} {
		var endpoint struct{ ID, Secret string }
		tokens := []string{
			fmt.Sprint("bearer-token-of-receiver-", i),
			fmt.Sprint("later-token-of-receiver-", i),
		}
		if status := s.call("POST", "/v1/endpoints",
			map[string]any{"url": url, "headers": map[string]string{"X-Token": tokens[0]}},
			&endpoint); status != http.StatusCreated {
			t.Fatalf("the endpoint was answered %d", status)
		}
		if status := s.call("PATCH", "/v1/endpoints/"+endpoint.ID,
			map[string]any{"headers": map[string]string{"X-Token": tokens[1]}},
			nil); status != http.StatusOK {
			t.Fatalf("the change was answered %d", status)
		}
		for n, token := range tokens {
			hunt.secrets[fmt.Sprintf("header value %d of endpoint %d", n+1, i+1)] = token
		}
		hunt.secrets[fmt.Sprintf("the signing secret of endpoint %d", i+1)] = endpoint.Secret
		endpoints = append(endpoints, endpoint.ID)
		if status := s.call("POST", "/v1/watches", watchOf(wallet.Address,
			endpoint.ID), nil); status != http.StatusCreated {
			t.Fatalf("the watch was answered %d", status)
		}
		if i == 0 {
			h.secret = endpoint.Secret
		}
	}
	s.misuse(wallet.Secret, h.secret, endpoints[0])

	// The key is rotated while the service runs and continues with both.
	if out, err := program("secrets", "rewrap", "--data-dir", s.dir).CombinedOutput(); err != nil {
		t.Fatalf("rewrap: %v\n%s", err, out)
	}
	var paid struct{ ID string }
	s.devnet(&paid, "pay", "--to", wallet.Address, "--amount", "1", "--json")
	s.eventually("the webhook", func() bool { return h.has(paid.ID) })
	for id, w := range h.events() {
		if !w.Verified {
			t.Errorf("%s: %s", id, w.Reason)
		}
		s.eventually("the history", func() bool {
			var event struct{ Delivery struct{ State string } }
			return s.call("GET", "/v1/events/"+id, nil, &event) == http.StatusOK &&
				event.Delivery.State == "DELIVERED"
		})
	}
	hunt.topics(t, s.file.KafkaBrokers, s.file.Kafka.SASL())
	hunt.tables(t, s.file.ClickHouse)
	s.interrupt()
	hunt.stores(t, filepath.Join(s.dir, "state"))
	hunt.files(t, s.dir)
	hunt.in(t, "the log", []byte(stderr.String()))
	hunt.secrets["a sign-in link"] = "/link?to="
	hunt.in(t, "standard output", []byte(s.output.String()))
	t.Logf("%d bytes in %d places were searched", hunt.searchedBytes, len(hunt.places))
	if hunt.searchedBytes < 100_000 || len(hunt.places) < 20 {
		t.Errorf("only %d bytes in %d places were searched", hunt.searchedBytes, len(hunt.places))
	}
}

func newSealerAt(t *testing.T, path string) *keys.Sealer {
	t.Helper()
	s, err := keys.LoadOrCreateSealer(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func watchOf(wallet, endpoint string) map[string]any {
	return map[string]any{
		"walletAddress": wallet,
		"endpointId":    endpoint,
		"assets":        []map[string]any{{"code": "XLM", "issuer": nil}},
	}
}

// misuse sends secrets where they do not belong: in fields, names, paths, queries, headers, and
// bodies that are not JSON.
func (s *testService) misuse(secretKey, signingSecret, endpointID string) {
	s.t.Helper()
	for _, body := range []map[string]any{
		watchOf(secretKey, endpointID), watchOf(strings.ToLower(secretKey), endpointID),
		watchOf(" "+secretKey, endpointID),
		{
			"walletAddress":   "G",
			"endpointId":      endpointID,
			"assets":          []any{},
			"senderAllowlist": []string{secretKey},
		},
		{"url": "https://" + secretKey + ":" + signingSecret + "@example.com/"}, {"url": secretKey},
		{secretKey: true},
		{"walletAddress": map[string]any{secretKey: signingSecret}},
	} {
		for _, path := range []string{"/v1/watches", "/v1/endpoints"} {
			if status := s.call("POST", path, body, nil); status < 400 || status > 499 {
				s.t.Errorf("%s with %d fields was answered %d", path, len(body), status)
			}
		}
	}
	client := &http.Client{Timeout: 10 * time.Second}
	for path, body := range map[string]string{
		"/v1/events/" + secretKey:             "",
		"/" + secretKey + "/" + signingSecret: "",
		"/v1/endpoints?key=" + secretKey:      "{}", "/v1/watches": secretKey,
	} {
		method := http.MethodPost
		if body == "" {
			method = http.MethodGet
		}
		req, err := http.NewRequest(method, s.file.APIURL+path, strings.NewReader(body))
		if err != nil {
			s.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.file.APIKey)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Request-Id", secretKey)
		req.Header.Set("Idempotency-Key", signingSecret)
		req.Header.Set("User-Agent", secretKey)
		req.Header.Set("X-"+secretKey, signingSecret)
		resp, err := client.Do(req)
		if err != nil {
			s.t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || bytes.Contains(answer, []byte(secretKey)) ||
			bytes.Contains(answer, []byte(signingSecret)) {
			s.t.Errorf("%s %s answered %s (%v)", method, path, answer, err)
		}
	}
}

type hunt struct {
	secrets       map[string]string
	searchedBytes int
	places        map[string]bool
}

func (h *hunt) in(t *testing.T, place string, data []byte) {
	t.Helper()
	if h.places == nil {
		h.places = make(map[string]bool)
	}
	h.searchedBytes += len(data)
	h.places[place] = true
	lower := bytes.ToLower(data)
	for what, secret := range h.secrets {
		for _, form := range formsOf(secret) {
			if bytes.Contains(lower, []byte(strings.ToLower(form))) {
				t.Errorf("%s is in %s", what, place)
			}
		}
	}
}

// formsOf returns a secret as it is, in hex, and in base64 at each alignment.
func formsOf(secret string) []string {
	forms := []string{secret, hex.EncodeToString([]byte(secret))}
	for shift := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat(" ", shift) + secret))
		forms = append(forms, encoded[4:len(encoded)-4])
	}
	return forms
}

func (h *hunt) topics(t *testing.T, brokers []string, sasl kafka.SASL) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client, err := kgo.NewClient(append(sasl.Option(), kgo.SeedBrokers(brokers...), kgo.ConsumeRegex(),
		kgo.ConsumeTopics("^.*$"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	left := make(map[string]int64) // end offset by topic and partition
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[fmt.Sprint(o.Topic, "/", o.Partition)] = o.Offset
		}
	})
	if len(left) < len([]string{
		"commands", "results", "journal", "endpoints", "watches", "accounts", "matches",
	}) {
		t.Fatalf("the topics hold only %v", left)
	}
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("reading the topics, %v left: %v", left, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			place := fmt.Sprint("topic ", r.Topic)
			h.in(t, place, r.Key)
			h.in(t, place, r.Value)
			for _, header := range r.Headers {
				h.in(t, place, []byte(header.Key))
				h.in(t, place, header.Value)
			}
			name := fmt.Sprint(r.Topic, "/", r.Partition)
			if r.Offset+2 >= left[name] { // the last offset may be a transaction's marker
				delete(left, name)
			}
		})
	}
}

func (h *hunt) tables(t *testing.T, of *runfile.ClickHouse) {
	t.Helper()
	if of == nil {
		t.Fatal("there is no ClickHouse in this run")
	}
	get := func(query string) string {
		req, err := http.NewRequest(http.MethodPost, of.HTTP+"/?database="+of.Database,
			strings.NewReader(query))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(of.User, of.Password)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s (%v)", query, resp.StatusCode, text, err)
		}
		return string(text)
	}
	tables := strings.Fields(get("SELECT name FROM system.tables WHERE database = currentDatabase()"))
	if len(tables) < 2 {
		t.Fatalf("the database has the tables %v", tables)
	}
	for _, table := range tables {
		h.in(t, "table "+table, []byte(get("SELECT * FROM `"+table+"` FORMAT JSONEachRow")))
	}
}

// stores searches every key and value of every Pebble store below a folder, because the stores'
// files are compressed.
func (h *hunt) stores(t *testing.T, dir string) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasPrefix(entry.Name(), "MANIFEST-") {
			return err
		}
		found++
		db, err := pebble.Open(filepath.Dir(path), &pebble.Options{ReadOnly: true})
		if err != nil {
			return err
		}
		defer db.Close()
		rows, err := db.NewIter(nil)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.First(); rows.Valid(); rows.Next() {
			h.in(t, "store "+filepath.Dir(path), rows.Key())
			h.in(t, "store "+filepath.Dir(path), rows.Value())
		}
		return rows.Error()
	})
	if err != nil || found == 0 {
		t.Fatalf("%d stores were read: %v", found, err)
	}
}

func (h *hunt) files(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "secrets" && filepath.Dir(path) == dir:
			return filepath.SkipDir
		case !entry.Type().IsRegular() || path == filepath.Join(dir, runfile.Name):
			return nil
		}
		data, err := os.ReadFile(path)
		if err == nil {
			h.in(t, "file "+path, append([]byte(path+"\n"), data...))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTheHuntFindsWhatIsThere checks that the search above finds secrets at all.
func TestTheHuntFindsWhatIsThere(t *testing.T) {
	secret := string(domain.NewSecret([32]byte{1, 2, 3}))
	for _, text := range []string{
		secret, strings.ToUpper(secret), hex.EncodeToString([]byte(secret)),
		base64.StdEncoding.EncodeToString([]byte(secret)),
		base64.StdEncoding.EncodeToString([]byte("a" + secret + "b")),
	} {
		found := &testing.T{}
		(&hunt{secrets: map[string]string{"it": secret}}).in(found, "a text",
			[]byte("before "+text+" after"))
		if !found.Failed() {
			t.Errorf("%q was not found", text)
		}
	}
}
