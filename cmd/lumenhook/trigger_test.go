package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lumenhook/lumenhook/internal/cli"
)

func invoked(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	line := commandLine(args)
	line.Root.SetOut(&stdout)
	line.Root.SetErr(&stderr)
	line.Stderr = &stderr
	code = cli.Execute(t.Context(), line)
	return code, stdout.String(), stderr.String()
}

// A receiver on this machine is tested without a service, with samples that it must accept and
// samples that it must reject.
func TestSamplesReachAReceiverWithoutAService(t *testing.T) {
	const secret = "whsec_0123456789abcdefghjkmnpqrstvwxyz0123456789abcdefgh"
	laptop := &onLaptop{secret: secret, times: make(map[string]int)}
	server := httptest.NewServer(laptop)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	to := []string{"--to", server.URL, "--secret-file", file}
	for _, c := range []struct {
		args               []string
		code               int
		says               string
		events, posts, bad int // totals at the receiver afterwards
	}{
		{[]string{"trigger"}, 0, "payment.received", 1, 1, 0},
		{[]string{"trigger", "payment.rejected", "--count", "2"}, 0, "payment.rejected", 3, 3, 0},
		{[]string{"trigger", "test.ping", "--repeat", "2"}, 0, "test.ping", 4, 6, 0},
		{[]string{"trigger", "--stale"}, 0, "rejected as expected: 401", 4, 6, 1},
		{[]string{"trigger", "--fail-signature"}, 0, "rejected as expected: 401", 4, 6, 2},
	} {
		code, out, said := invoked(t, append(c.args, to...)...)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%q ended with %d:\n%s%s", c.args, code, out, said)
		}
		if strings.Contains(out+said, secret) {
			t.Errorf("%q prints the secret", c.args)
		}
		if events, posts, bad := laptop.got(); events != c.events || posts != c.posts || bad != c.bad {
			t.Errorf("after %q the receiver has %d events of %d posts, and %d were bad", c.args, events,
				posts, bad)
		}
	}
}

// If the receiver judges a sample wrongly, the command fails and says so.
func TestAReceiverThatJudgesWronglyIsTold(t *testing.T) {
	wrong := &onLaptop{secret: "whsec_another", times: make(map[string]int)}
	server := httptest.NewServer(wrong)
	t.Cleanup(server.Close)
	credulous := httptest.NewServer(nothingChecked{})
	t.Cleanup(credulous.Close)
	for _, c := range []struct {
		url  string
		args []string
		says string
	}{
		{server.URL, nil, "the receiver did not accept 1 of 1"},
		{credulous.URL, []string{"--stale"}, "must reject these events (4xx), but rejected only 0 of 1"},
		{"http://127.0.0.1:1", nil, "nothing listens at http://127.0.0.1:1; start the receiver first"},
	} {
		args := append([]string{"trigger", "--to", c.url, "--secret", "whsec_mine"}, c.args...)
		if code, out, said := invoked(t, args...); code != cli.ExitFailure ||
			!strings.Contains(said, c.says) {
			t.Errorf("%q ended with %d:\n%s%s", args, code, out, said)
		}
	}
}

// The flags determine the payment. Input that could be a secret key is not repeated.
func TestASampleIsWhatWasAskedFor(t *testing.T) {
	seen := &bodies{}
	server := httptest.NewServer(seen)
	t.Cleanup(server.Close)
	line := []string{"trigger", "--to", server.URL, "--secret", "whsec_mine"}
	code, _, said := invoked(t, append(line, "--amount", "7.25", "--memo", "order-9", "--asset",
		"USDC:"+aWallet, "--from", aWallet, "--to-wallet", aWallet)...)
	if code != 0 {
		t.Fatal(said)
	}
	body := string(seen.last())
	for _, want := range []string{
		`"amount":"7.2500000"`, `"memo":"order-9"`, `"code":"USDC"`, `"walletAddress":"` + aWallet + `"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the body lacks %s: %s", want, body)
		}
	}
	if err := checkEvents(t)(seen.last()); err != nil {
		t.Error(err)
	}
	secretKey := "S" + strings.Repeat("A", 55)
	code, out, said := invoked(t, append(line, "--from", secretKey)...)
	if code != cli.ExitUsage || strings.Contains(out+said, secretKey) ||
		!strings.Contains(said, "--from: must be a Stellar address") {
		t.Errorf("%d: %s%s", code, out, said)
	}
}

type nothingChecked struct{}

func (nothingChecked) ServeHTTP(http.ResponseWriter, *http.Request) {}

type bodies struct {
	mu   sync.Mutex
	body []byte
}

func (b *bodies) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.body = body
}

func (b *bodies) last() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.body
}
