package kafka

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/internal/testkit"
)

// Ordinary transactions log nothing above debug level. When the client aborts instead of
// committing, that message is a warning.
func TestMessagesAboutTransactions(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "test.sums"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	at := func(level slog.Level) (Cluster, *testkit.Buffer) {
		log := new(testkit.Buffer)
		return Cluster{
			Brokers: fake.ListenAddrs(), Prefix: "test.", ClientID: "test",
			Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level})),
		}, log
	}
	sum := NewRecord("sums", "1", []byte("1"), func(func(string, string) bool) {})
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		c, log := at(level)
		owner, err := c.NewFencedProducer(t.Context(), "owner")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := owner.Append(t.Context(), sum); err != nil {
				t.Fatal(err)
			}
		}
		owner.Close()
		ended := strings.Count(log.String(), `level=DEBUG msg="ending transaction"`)
		if level == slog.LevelInfo && log.String() != "" || level == slog.LevelDebug && ended != 3 {
			t.Errorf("at %v, %d transactions logged\n%s", level, ended, log)
		}
	}

	// If the broker refuses every record, the client has nothing to commit.
	fake.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		return refused(req.(*kmsg.ProduceRequest)), nil, true
	})
	c, log := at(slog.LevelInfo)
	client, err := c.client(kgo.TransactionalID("test.raw"),
		kgo.WithLogger(c.transactionLogger()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if client.ProduceSync(t.Context(), c.toKafka([]Record{sum})...).FirstErr() == nil {
		t.Fatal("the broker took a record")
	}
	if err := client.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	const want = `level=WARN msg="no produce succeeded in this transaction`
	if !strings.Contains(log.String(), want) {
		t.Errorf("the client's abort is not a warning:\n%s", log)
	}
}

// refused returns the response of a broker that finds every record invalid.
func refused(req *kmsg.ProduceRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, topic := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = topic.Topic, topic.TopicID
		for _, p := range topic.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, kerr.InvalidRecord.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
