package node

import (
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

type clientIDs struct {
	mu  sync.Mutex
	ids []string
}

func (c *clientIDs) OnNewClient(client *kgo.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids = append(c.ids, client.OptValue(kgo.ClientID).(string))
}

// Kafka quotas apply per client id. A quota that throttles the engine must not throttle the other
// parts of its process.
func TestEachPartOfANodeHasAClientIDOfItsOwn(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	b, err := broker.Start(broker.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	cluster := kafka.Cluster{
		Brokers:  []string{b.Addr()},
		Prefix:   "test.",
		ClientID: "lumenhook",
		Logger:   logger,
	}
	wanted := topology.RequiredTopics(topology.Shape{Partitions: 1, Replicas: 1})
	if err := cluster.EnsureTopics(t.Context(), wanted); err != nil {
		t.Fatal(err)
	}
	seen := new(clientIDs)
	cluster.Hooks = []kgo.Hook{seen}
	stack := &Stack{Failed: func(err error) { t.Error(err) }, Logger: logger}
	defer stack.Stop()
	n := New(Config{
		Cluster:        cluster,
		StateDir:       t.TempDir(),
		Metrics:        NewMetrics(),
		Now:            time.Now,
		Logger:         logger,
		Policy:         domain.DefaultPolicy(),
		AttemptTimeout: time.Second,
		Egress:         egress.Config{},
		Engine:         EngineConfig{AttemptsInFlight: 1, AttemptsPerEndpoint: 1},
	}, stack)
	if err := n.Start(t.Context(), RoleEngine, RoleMailer); err != nil {
		t.Fatal(err)
	}
	want := []string{"lumenhook-directory", "lumenhook-engine", "lumenhook-mailer"}
	deadline := time.Now().Add(time.Minute)
	for !slices.Equal(seen.all(), want) {
		if time.Now().After(deadline) {
			t.Fatalf("%v, not %v", seen.all(), want)
		}
		runtime.Gosched()
	}
}

func (c *clientIDs) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.ids)
	return slices.Compact(slices.Clone(c.ids))
}
