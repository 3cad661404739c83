package main

import (
	"crypto/tls"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/keys"
)

// A user who forgets the login or TLS gets an error that names the flags, without any log line
// before it.
func TestABrokerThatHangsUpIsExplained(t *testing.T) {
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	ca, err := keys.LoadOrCreateCA(t.TempDir(), caFile, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	start := func(opts ...kfake.Opt) string {
		b, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1), kfake.EnableSASL(),
			kfake.Superuser("SCRAM-SHA-256", "user", "right"))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b.ListenAddrs()[0]
	}
	plain := start()
	secure := start(kfake.TLS(&tls.Config{
		GetCertificate: ca.GetCertificate,
		MinVersion:     tls.VersionTLS12,
	}))
	for name, c := range map[string]struct {
		says string
		args []string
	}{
		"no login":           {"set --kafka-user", []string{plain}},
		"TLS is not spoken":  {"--kafka-ca-file", []string{secure}},
		"nobody is there":    {"connection refused", []string{"127.0.0.1:1"}},
		"no login behind it": {"set --kafka-user", []string{secure, "--kafka-ca-file", caFile}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, said := exitCode(t, nil,
				append([]string{"topics", "cat", "journal", "--kafka-brokers"}, c.args...)...)
			if code != cli.ExitFailure || !strings.HasPrefix(said, "lumenhook: ") ||
				!strings.Contains(said, c.says) || dialect.MatchString(said) {
				t.Errorf("%d, and should say %q, and nothing before:\n%s", code, c.says, said)
			}
		})
	}
}
