//go:build !kafka

package brokertest

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
)

// LedgerInterval is how often a test's network closes a ledger. The follower commits each one.
const LedgerInterval = 100 * time.Millisecond

// Broker is a test's Kafka.
type Broker struct {
	t   testing.TB
	dir string
	b   *broker.Broker
	low *kfake.Cluster // set instead of b by StartLowered
}

// Main runs a package's tests.
func Main(m interface{ Run() int }) { os.Exit(m.Run()) }

// Start starts a broker that stops when the test ends.
func Start(t testing.TB) *Broker {
	t.Helper()
	k := &Broker{t: t, dir: t.TempDir()}
	k.start("127.0.0.1:0")
	t.Cleanup(func() { k.b.Close() })
	return k
}

// Exclusive marks a test that stops or changes its brokers. With a broker per test, it runs next to
// others.
func Exclusive(t *testing.T) { t.Parallel() }

// StartLowered starts a broker whose transaction.version can be lowered. The embedded broker can't
// be used, because it rejects commits of lower versions.
func StartLowered(t testing.TB) *Broker {
	t.Helper()
	low, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(low.Close)
	return &Broker{t: t, low: low}
}

func (k *Broker) start(listen string) {
	k.t.Helper()
	b, err := broker.Start(broker.Config{
		Dir:    k.dir,
		Listen: listen,
		Logger: slog.New(slog.DiscardHandler),
		Failed: func(err error) { k.t.Error(err) },
	})
	if err != nil {
		k.t.Fatal(err)
	}
	k.b = b
}

// Addrs returns the brokers' addresses.
func (k *Broker) Addrs() []string {
	if k.low != nil {
		return k.low.ListenAddrs()
	}
	return []string{k.b.Addr()}
}

// Prefix returns the prefix for the names of all topics, groups and transactional ids.
func (k *Broker) Prefix() string { return "test." }

// Replicas returns the replication factor for topics.
func (k *Broker) Replicas() int16 { return 1 }

// Outage stops all brokers, calls during, and restarts them on the same data.
func (k *Broker) Outage(during func()) {
	k.t.Helper()
	addr := k.b.Addr()
	k.b.Close()
	during()
	k.start(addr)
}
