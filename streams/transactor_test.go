package streams_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/streams"
)

// newFakeRig is a rig on a broker in memory, whose answers a test may replace.
func newFakeRig(t *testing.T) (*rig, *kfake.Cluster) {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "test."+numbersTopic, "test."+sumsTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	return &rig{t: t, dir: t.TempDir(), cluster: streams.Cluster{
		Brokers: fake.ListenAddrs(), Prefix: "test.", ClientID: "test", Logger: slog.New(slog.DiscardHandler),
	}}, fake
}

// unstable answers a question for input positions as a broker does while a
// transaction of the group is open.
func unstable(request kmsg.Request) kmsg.Response {
	req := request.(*kmsg.OffsetFetchRequest)
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	for _, g := range req.Groups {
		group := kmsg.NewOffsetFetchResponseGroup()
		group.Group = g.Group
		for _, topic := range g.Topics {
			rt := kmsg.NewOffsetFetchResponseGroupTopic()
			rt.Topic = topic.Topic
			for _, p := range topic.Partitions {
				rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				rp.Partition, rp.Offset, rp.ErrorCode = p, -1, kerr.UnstableOffsetCommit.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			group.Topics = append(group.Topics, rt)
		}
		resp.Groups = append(resp.Groups, group)
	}
	return resp
}

// A transaction of the group that is open while a task starts is waited for.
func TestTaskWaitsForStablePositions(t *testing.T) {
	r, fake := newFakeRig(t)
	const answers = 3
	var asked atomic.Int32
	fake.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if asked.Add(1) > answers {
			return nil, nil, false
		}
		return unstable(req), nil, true
	})
	ended := make(chan error, 1)
	stopping := make(chan struct{})
	go func() { ended <- r.task(r.dir, nil).Run(context.Background(), stopping) }()
	r.feed(1, 50)
	r.wantJournal(r.onPartition(0, 50))
	close(stopping)
	if err := <-ended; err != nil {
		t.Errorf("the task ended: %v", err)
	}
	if n := asked.Load(); n != answers+1 {
		t.Errorf("the positions were asked for %d times, want %d", n, answers+1)
	}
}
