//go:build kafka

package kafkatest_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/lumenhook/lumenhook/internal/kafkatest"
)

func start(t *testing.T, cfg kafkatest.Config) *kafkatest.Cluster {
	t.Helper()
	cfg.Dir = t.TempDir()
	c, err := kafkatest.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// attach connects to a cluster like another process.
func attach(t *testing.T, c *kafkatest.Cluster) *kafkatest.Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "kafka-") // short, because a socket's path has at most 104 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { _ = c.Serve(l) }() // until the listener is closed
	attached, err := kafkatest.Attach(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	return attached
}

// A cluster of three must work without one broker, whether that is killed or paused, and readmit
// it, no matter which process started the cluster.
func TestThreeBrokersGoOnWithoutOne(t *testing.T) {
	started := start(t, kafkatest.Config{Brokers: 3})
	c := attach(t, started)
	if !slices.Equal(c.Addrs(), started.Addrs()) {
		t.Fatalf("attached to %v, not %v", c.Addrs(), started.Addrs())
	}
	admin, err := c.AdminClient()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.CreateTopic(t.Context(), 3, 3, nil, "numbers"); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.DefaultProduceTopic("numbers"),
		kgo.DialTimeout(2*time.Second), kgo.RequestTimeoutOverhead(3*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	produce := func(what string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for p := range 9 {
			record := &kgo.Record{Key: []byte{byte(p)}, Value: []byte(what)}
			if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	produce("all")
	for what, away := range map[string][2]func(*kafkatest.Node) error{
		"killed": {(*kafkatest.Node).Kill, (*kafkatest.Node).Start},
		"paused": {(*kafkatest.Node).Pause, (*kafkatest.Node).Resume},
	} {
		if err := away[0](c.Node(2)); err != nil {
			t.Fatal(err)
		}
		if err := c.AwaitBrokers(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		produce(what)
		if err := away[1](c.Node(2)); err != nil {
			t.Fatal(err)
		}
		if err := c.AwaitBrokers(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		produce(what + " and back")
	}
}

// A secure cluster must admit no client without a password, and permit nothing without an ACL.
func TestASecureClusterAuthenticatesAndAuthorizes(t *testing.T) {
	c := start(t, kafkatest.Config{Brokers: 1, Secure: true, Users: []string{"writer"}})
	admin, err := c.AdminClient()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "numbers"); err != nil {
		t.Fatal(err)
	}
	set, err := admin.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{
		User:       "writer",
		Mechanism:  kadm.ScramSha512,
		Iterations: 4096,
		Password:   kafkatest.Password("writer"),
	}})
	if err != nil || set.Error() != nil {
		t.Fatal(err, set.Error())
	}
	client := func(password string) *kgo.Client {
		t.Helper()
		auth := scram.Auth{User: "writer", Pass: password}
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.DefaultProduceTopic("numbers"),
			kgo.DialTLSConfig(c.TLS()), kgo.SASL(auth.AsSha512Mechanism()),
			kgo.RecordDeliveryTimeout(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl
	}
	if err := client("guess").Ping(t.Context()); err == nil {
		t.Error("a wrong password was let in")
	}
	writer := client(kafkatest.Password("writer"))
	record := func() *kgo.Record { return &kgo.Record{Value: []byte("1")} }
	if err := writer.ProduceSync(t.Context(), record()).FirstErr(); err == nil {
		t.Error("a user without an ACL wrote")
	}
	acl := kadm.NewACLs().Topics("numbers").ResourcePatternType(kadm.ACLPatternLiteral).
		Operations(kadm.OpWrite).Allow("User:writer").AllowHosts()
	made, err := admin.CreateACLs(t.Context(), acl)
	if err != nil || made[0].Err != nil {
		t.Fatal(err, made)
	}
	if err := writer.ProduceSync(t.Context(), record()).FirstErr(); err != nil {
		t.Errorf("a user with an ACL could not write: %v", err)
	}
}
