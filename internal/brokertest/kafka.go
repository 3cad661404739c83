//go:build kafka

package brokertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/kafkatest"
)

const brokers = 3

// LedgerInterval is how often a test's network closes a ledger. The follower commits each one. On
// three brokers that several tests share, it would fall behind if ledgers closed more often.
const LedgerInterval = 250 * time.Millisecond

// shared is the cluster of this process. The first test that needs it starts it.
var shared struct {
	once    sync.Once
	cluster *kafkatest.Cluster
	dir     string
	err     error
	tests   atomic.Int64
}

// Main runs a package's tests and then stops the cluster.
func Main(m interface{ Run() int }) {
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	if shared.dir != "" {
		os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// Broker is a test's Kafka.
type Broker struct {
	t      testing.TB
	prefix string
}

// Start gives a test its own prefix in the shared cluster.
func Start(t testing.TB) *Broker {
	t.Helper()
	shared.once.Do(func() {
		if socket := os.Getenv(kafkatest.SocketVariable); socket != "" {
			shared.cluster, shared.err = kafkatest.Attach(context.Background(), socket)
			return
		}
		if shared.dir, shared.err = os.MkdirTemp("", "lumenhook-kafka-"); shared.err != nil {
			return
		}
		shared.cluster, shared.err = kafkatest.Start(context.Background(), kafkatest.Config{
			Dir:     shared.dir,
			Brokers: brokers,
		})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	k := &Broker{t: t, prefix: fmt.Sprintf("test%d-%d.", os.Getpid(), shared.tests.Add(1))}
	t.Cleanup(k.deleteTopics)
	return k
}

// Exclusive marks a test that stops or changes the shared brokers. It runs alone, before all
// parallel tests of its package.
func Exclusive(*testing.T) {}

// StartLowered starts a broker whose transaction.version can be lowered.
func StartLowered(t testing.TB) *Broker {
	t.Helper()
	return Start(t)
}

// deleteTopics deletes the test's topics, because even unused partitions cost the brokers work.
func (k *Broker) deleteTopics() {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	admin, err := shared.cluster.AdminClient()
	if err != nil {
		k.t.Error(err)
		return
	}
	defer admin.Close()
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		k.t.Error(err)
		return
	}
	topics.FilterInternal()
	names := slices.DeleteFunc(topics.Names(), func(name string) bool {
		return !strings.HasPrefix(name, k.prefix)
	})
	if len(names) == 0 {
		return
	}
	deleted, err := admin.DeleteTopics(ctx, names...)
	if err := errors.Join(err, deleted.Error()); err != nil {
		k.t.Error(err)
	}
}

// Addrs returns the brokers' addresses.
func (k *Broker) Addrs() []string { return shared.cluster.Addrs() }

// Prefix returns the prefix for the names of all topics, groups and transactional ids.
func (k *Broker) Prefix() string { return k.prefix }

// Replicas returns the replication factor for topics.
func (k *Broker) Replicas() int16 { return brokers }

// Outage kills all brokers, calls during, and restarts them. No other test of the package may use
// the cluster in the meantime.
func (k *Broker) Outage(during func()) {
	k.t.Helper()
	for _, n := range shared.cluster.Nodes() {
		if err := n.Kill(); err != nil {
			k.t.Fatal(err)
		}
	}
	during()
	for _, n := range shared.cluster.Nodes() {
		if err := n.Start(); err != nil {
			k.t.Fatal(err)
		}
	}
	if err := shared.cluster.AwaitBrokers(k.t.Context(), brokers); err != nil {
		k.t.Fatal(err)
	}
}

// Nodes returns the brokers of the shared cluster. A test must have started it. A test that kills
// or pauses a broker must restore it.
func Nodes() []*kafkatest.Node { return shared.cluster.Nodes() }

// AwaitNodes waits until the cluster reports n live brokers.
func AwaitNodes(t testing.TB, n int) {
	t.Helper()
	if err := shared.cluster.AwaitBrokers(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}
