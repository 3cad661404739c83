package config

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// parsed returns the connection settings from a command line.
func parsed(t *testing.T, args ...string) (kafka.Cluster, error) {
	t.Helper()
	var k Kafka
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	k.Register(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return k.Cluster("test", slog.New(slog.DiscardHandler))
}

// topic is a topic that the brokers of these tests have, with the prefix before its name.
const topic = "reached"

func reached(t *testing.T, args ...string) error {
	t.Helper()
	c, err := parsed(t, args...)
	if err != nil {
		return err
	}
	ends, err := c.NewEnds()
	if err != nil {
		return err
	}
	defer ends.Close()
	_, err = ends.Of(t.Context(), topic)
	return err
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newBroker starts a broker that requires TLS and a password and has one user per mechanism.
func newBroker(t *testing.T) (address, caFile string) {
	t.Helper()
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	ca, err := keys.LoadOrCreateCA(t.TempDir(), caFile, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	b, err := kfake.NewCluster(
		kfake.NumBrokers(1), kfake.SeedTopics(1, "lumenhook."+topic), kfake.EnableSASL(),
		kfake.TLS(&tls.Config{
			GetCertificate: ca.GetCertificate,
			MinVersion:     tls.VersionTLS12,
		}),
		kfake.Superuser("PLAIN", "plain", "p1"),
		kfake.Superuser("SCRAM-SHA-256", "scram256", "p2"),
		kfake.Superuser("SCRAM-SHA-512", "scram512", "p3"),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b.ListenAddrs()[0], caFile
}

// TestFlagsReachABroker covers logins that succeed. Refusals and their messages are tested with a
// real broker (real_test.go), because this one merely hangs up on a wrong password, and clients
// retry.
func TestFlagsReachABroker(t *testing.T) {
	address, caFile := newBroker(t)
	for _, c := range []struct {
		name string
		args []string
	}{
		{"PLAIN", []string{"--kafka-sasl", "PLAIN", "--kafka-user", "plain", "--kafka-password", "p1"}},
		{"SCRAM-SHA-256 by default", []string{"--kafka-user", "scram256", "--kafka-password", "p2"}},
		{
			"SCRAM-SHA-512 from a file",
			[]string{
				"--kafka-sasl", "SCRAM-SHA-512", "--kafka-user", "scram512",
				"--kafka-password-file", write(t, "password", "p3\n"),
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append(c.args, "--kafka-brokers", address, "--kafka-ca-file", caFile)
			if err := reached(t, args...); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAPasswordFileIsReadAtEachLogin(t *testing.T) {
	address, caFile := newBroker(t)
	file := write(t, "password", "not yet known")
	c, err := parsed(t, "--kafka-brokers", address, "--kafka-ca-file", caFile, "--kafka-user",
		"scram256", "--kafka-password-file", file)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := c.NewEnds()
	if err != nil {
		t.Fatal(err)
	}
	defer ends.Close()
	if err := os.WriteFile(file, []byte("p2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ends.Of(t.Context(), topic); err != nil {
		t.Errorf("the new password was not taken: %v", err)
	}
}

// A broker without a port must be refused, because the Kafka client would add a default one.
func TestABrokerNeedsAPort(t *testing.T) {
	for _, bad := range []string{
		"kafka", "127.0.0.1", "::1", "kafka:", ":9092", "kafka:0", "kafka:x", "kafka:70000",
		"http://kafka:9092",
	} {
		want := fmt.Sprintf("--kafka-brokers %q: must be HOST:PORT", bad)
		_, err := parsed(t, "--kafka-brokers", "kafka:9092,"+bad)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := parsed(t, "--kafka-brokers", "kafka:9092,[::1]:9092"); err != nil {
		t.Error(err)
	}
}

func TestFaultsOfFlagsAreToldAtOnce(t *testing.T) {
	_, err := parsed(t, "--kafka-brokers", "127.0.0.1:1", "--kafka-user", "u", "--kafka-cert-file",
		"cert.pem")
	for _, want := range []string{"--kafka-password-file", "--kafka-key-file"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named: %v", want, err)
		}
	}
}

func TestFlagsSayWhichMechanism(t *testing.T) {
	token := write(t, "token", "t")
	for args, want := range map[string]string{
		"":                                  "",
		"--kafka-user=u --kafka-password=p": kafka.SASLScramSHA256,
		"--kafka-token-file=" + token:       kafka.SASLOAuthBearer,
		"--kafka-user=u --kafka-password=p --kafka-sasl=PLAIN": kafka.SASLPlain,
	} {
		c, err := parsed(t, strings.Fields(args)...)
		if err != nil || c.SASL.Mechanism != want || c.TLS.Enabled {
			t.Errorf("%q: %v, %v", args, c.SASL, err)
		}
	}
}
