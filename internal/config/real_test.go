//go:build kafka

package config

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/lumenhook/lumenhook/internal/kafkatest"
)

const user = "client"

// newSecureCluster starts a real broker with a user who may do everything with topics.
func newSecureCluster(t *testing.T) *kafkatest.Cluster {
	t.Helper()
	c, err := kafkatest.Start(t.Context(), kafkatest.Config{
		Dir:     t.TempDir(),
		Brokers: 1,
		Secure:  true,
		Users:   []string{user},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	admin, err := c.AdminClient()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "lumenhook."+topic); err != nil {
		t.Fatal(err)
	}
	allowed := kadm.NewACLs().Topics("*").ResourcePatternType(kadm.ACLPatternLiteral).
		Operations(kadm.OpAll).Allow("User:"+user, "User:CN="+user).AllowHosts()
	made, err := admin.CreateACLs(t.Context(), allowed)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range made {
		if m.Err != nil {
			t.Fatal(m.Err)
		}
	}
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		set, err := admin.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{
			{User: user, Mechanism: mechanism, Iterations: 4096, Password: kafkatest.Password(user)},
		})
		if err != nil || set.Error() != nil {
			t.Fatal(err, set.Error())
		}
	}
	return c
}

func TestEveryMechanismReachesARealBroker(t *testing.T) {
	c := newSecureCluster(t)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := c.IssueClient(user, cert, key); err != nil {
		t.Fatal(err)
	}
	known, unknown := kafkatest.Token(user, time.Now()), kafkatest.Token("nobody", time.Now())
	old := kafkatest.Token(user, time.Now().Add(-48*time.Hour))
	login, mutual := c.Addrs()[0], c.MutualAddrs()[0]
	password := []string{"--kafka-user", user, "--kafka-password", kafkatest.Password(user)}
	for _, of := range []struct {
		name, address string
		args          []string
		fails         string
	}{
		{"PLAIN", login, append(password, "--kafka-sasl", "PLAIN"), ""},
		{"SCRAM-SHA-256", login, password, ""},
		{"SCRAM-SHA-512", login, append(password, "--kafka-sasl", "SCRAM-SHA-512"), ""},
		{"OAUTHBEARER", login, []string{"--kafka-token-file", write(t, "token", known)}, ""},
		{"mutual TLS", mutual, []string{"--kafka-cert-file", cert, "--kafka-key-file", key}, ""},
		{
			"a wrong password", login,
			[]string{"--kafka-user", user, "--kafka-password", "guess"},
			"SASL_AUTHENTICATION_FAILED",
		},
		{
			"a token of the past", login,
			[]string{"--kafka-token-file", write(t, "token", old)}, "refuses the token",
		},
		{
			"a token of a user without rights", login,
			[]string{"--kafka-token-file", write(t, "token", unknown)}, "AUTHORIZATION",
		},
		{"no certificate", mutual, nil, "tls"},
		{"no login", login, nil, "SASL"},
	} {
		t.Run(of.name, func(t *testing.T) {
			args := []string{"--kafka-brokers", of.address, "--kafka-ca-file", c.CAFile()}
			err := reached(t, append(args, of.args...)...)
			if (err == nil) != (of.fails == "") || err != nil && !strings.Contains(err.Error(), of.fails) {
				t.Error(err)
			}
		})
	}
}
