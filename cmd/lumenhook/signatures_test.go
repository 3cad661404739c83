//go:build signatures

package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
)

// examples is the folder of the receivers that docs/guides/standard-webhooks.md links. They verify
// with the Standard Webhooks libraries from their registries.
const examples = "../../examples/verify"

// language is a receiver, and how to build and run it in its own folder.
type language struct {
	name    string
	prepare [][]string
	run     []string
}

var languages = []language{
	{"go", [][]string{{"go", "build", "-o", "verify", "."}}, []string{"./verify"}},
	{
		"javascript",
		[][]string{{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"}},
		[]string{"node", "main.mjs"},
	},
	{
		"python",
		[][]string{{
			"python3", "-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:",
			"--target", ".", "--requirement", "requirements.txt",
		}},
		[]string{"python3", "main.py"},
	},
	{
		"java",
		[][]string{
			{"mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"},
			{"javac", "-cp", "lib/*", "Main.java", "Verify.java"},
		},
		[]string{"java", "-cp", "lib/*:.", "Main"},
	},
	{"rust", [][]string{{"cargo", "build", "--quiet"}}, []string{"target/debug/verify"}},
}

// TestLibrariesVerifyWhatIsSent takes a payment's webhook, which was sent to an endpoint that asked
// for both signatures. In five languages, the unmodified Standard Webhooks library and the
// platform's Ed25519 must verify it, with each secret in overlap. They must reject another body, an
// old or early timestamp, another secret, another key, and another account's webhook for the same
// payment.
func TestLibrariesVerifyWhatIsSent(t *testing.T) {
	s := &testService{t: t, dir: t.TempDir()}
	root := filepath.Join(s.dir, "receivers")
	var preparing errgroup.Group
	for _, l := range languages {
		preparing.Go(func() error { return l.install(filepath.Join(root, l.name)) })
	}
	if err := preparing.Wait(); err != nil {
		t.Fatal(err)
	}
	p := s.signedPayment(t)
	files := p.write(t)
	for _, l := range languages {
		dir := filepath.Join(root, l.name)
		for _, secret := range p.secrets {
			l.wants(t, dir, secret, p.keys, files, map[string][2]bool{
				"payment":  {true, true},
				"changed":  {false, false},
				"resigned": {true, true},
				"old":      {false, false},
				"early":    {false, false},
				"mallorys": {false, false},
			})
		}
		other := strings.Replace(p.secrets[0], domain.SecretPrefix, domain.SecretPrefix+"AAAA", 1)
		l.wants(t, dir, other, p.keys[:1], files, map[string][2]bool{
			"payment":  {false, true},
			"resigned": {false, false},
		})
	}
}

func (l language) install(dir string) error {
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(examples, l.name))); err != nil {
		return err
	}
	for _, args := range l.prepare {
		if _, err := command(dir, args...); err != nil {
			return err
		}
	}
	return nil
}

// wants runs a receiver over files, and checks whether v1 and v1a of each verify.
func (l language) wants(
	t *testing.T, dir, secret string, keys []string, files string, want map[string][2]bool,
) {
	t.Helper()
	args := append(l.run[:len(l.run):len(l.run)], secret, strings.Join(keys, ","))
	for name := range want {
		args = append(args, filepath.Join(files, name))
	}
	said, err := command(dir, args...)
	if err != nil {
		t.Error(err)
		return
	}
	for name, verifies := range want {
		for i, version := range []string{"v1", "v1a"} {
			line := filepath.Join(files, name) + " " + version + " refused: "
			if verifies[i] {
				line = filepath.Join(files, name) + " " + version + " verified\n"
			}
			if !strings.Contains(said, line) {
				t.Errorf("%s, %s of %s: want %q in\n%s", l.name, version, name, line, said)
			}
		}
	}
}

type signedPayment struct {
	received
	secrets []string // newest first, both valid
	keys    []string // the endpoint's, and one made by the test
	other   received // another account's webhook for the payment
	own     domain.Secret
}

// signedPayment starts the program, rotates the secret of an endpoint that asks for both
// signatures, and has a payment delivered to it.
func (s *testService) signedPayment(t *testing.T) signedPayment {
	t.Helper()
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms")
	l := startListener(t, s.dir)
	s.createSigningKey()
	var e, rotated client.Endpoint
	s.cli(&e, "endpoints", "create", "--url", l.url, "--signature", "standard-webhooks",
		"--signature", "standard-webhooks-ed25519")
	if status := s.call("POST", "/v1/endpoints/"+e.ID+"/rotate-secret", struct{}{},
		&rotated); status != http.StatusOK {
		t.Fatalf("the rotation was answered %d", status)
	}
	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	var watch client.Watch
	s.cli(&watch, "watches", "create", "--wallet", wallet.Address, "--endpoint", e.ID)
	_, mallorys := s.mallory(l.url, wallet.Address)
	var set struct{ Keys []struct{ X string } }
	if err := json.Unmarshal(s.endpointKeys(e.ID), &set); err != nil || len(set.Keys) != 1 {
		t.Fatalf("%v %v", err, set)
	}
	var paid struct{ ID string }
	s.devnet(&paid, "pay", "--to", wallet.Address, "--amount", "2", "--json")
	s.eventually("the payment arrived", func() bool { return len(l.of(paid.ID)) == 2 })
	got := l.of(paid.ID)
	if strings.Contains(string(got[0].body), mallorys.ID) {
		got[0], got[1] = got[1], got[0]
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signedPayment{
		received: got[0],
		other:    got[1],
		secrets:  []string{rotated.Secret, e.Secret},
		keys:     []string{set.Keys[0].X, base64.RawURLEncoding.EncodeToString(public)},
		own:      domain.Secret(private),
	}
}

func (p signedPayment) write(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write := func(name string, header http.Header, body []byte) {
		header.Set("Content-Length", strconv.Itoa(len(body)))
		text := bytes.NewBufferString("POST / HTTP/1.1\r\nHost: localhost\r\n")
		if err := header.Write(text); err != nil {
			t.Fatal(err)
		}
		text.WriteString("\r\n")
		text.Write(body)
		if err := os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("payment", maps.Clone(p.header), p.body)
	write("mallorys", maps.Clone(p.other.header), p.other.body)
	changed := bytes.Replace(p.body, []byte("2.0000000"), []byte("3.0000000"), 1)
	if bytes.Equal(changed, p.body) {
		t.Fatalf("the body has no amount: %s", p.body)
	}
	write("changed", maps.Clone(p.header), changed)
	// Signed again by the program's own code, so that only the time can be a reason to reject these.
	for name, offset := range map[string]time.Duration{
		"resigned": 0, "old": -6 * time.Minute, "early": 6 * time.Minute,
	} {
		_, unknown, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(offset).Unix()
		again := domain.Attempt{
			EventID:     p.header.Get("Webhook-Id"),
			Body:        p.body,
			Secrets:     []domain.Secret{domain.Secret(p.secrets[0]), domain.Secret(p.secrets[1])},
			Signatures:  domain.StandardWebhooks | domain.StandardWebhooksEd25519,
			SigningKeys: []domain.Secret{domain.Secret(unknown), p.own},
		}
		header := maps.Clone(p.header)
		header.Set("Webhook-Timestamp", strconv.FormatInt(at, 10))
		header.Set("Webhook-Signature", again.SignatureHeader(at))
		write(name, header, p.body)
	}
	return dir
}
