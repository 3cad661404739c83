package broker_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
)

// The end of a partition must be remembered after all of its records were deleted, by a request
// or by retention. A topic that is recreated starts at 0.
func TestAnEmptyPartitionEndsWhereItEnded(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "broker")
	open := func() (*broker.Broker, *kadm.Client) {
		b, err := broker.Start(broker.Config{
			Dir:          dir,
			Listen:       "127.0.0.1:0",
			Logger:       slog.New(slog.DiscardHandler),
			CompactEvery: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b, kadm.NewClient(newClient(t, b.Addr(), kgo.ConsumeTopics(topic)))
	}
	b, admin := open()
	short := map[string]*string{"retention.ms": kadm.StringPtr("60000")}
	if _, err := admin.CreateTopic(t.Context(), 1, 1, short, topic); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopics(t.Context(), 1, 1, nil, "other"); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, b.Addr())
	for range 3 {
		old := time.Now().Add(-time.Hour)
		err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "other"},
			&kgo.Record{Topic: topic, Timestamp: old}).FirstErr()
		if err != nil {
			t.Fatal(err)
		}
	}
	endOfTopic := func(admin *kadm.Client, topic string) int64 {
		t.Helper()
		ends, err := admin.ListEndOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		end, _ := ends.Lookup(topic, 0)
		return end.Offset
	}
	if err := empty(t.Context(), admin, "other"); err != nil {
		t.Fatal(err)
	}
	reader := newClient(t, b.Addr(), kgo.ConsumeTopics("other")) // its fetches trigger compactions
	for {
		starts, err := admin.ListStartOffsets(t.Context(), topic)
		if start, _ := starts.Lookup(topic, 0); err == nil && start.Offset == 3 {
			break
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		reader.PollFetches(short)
		cancel()
		if t.Context().Err() != nil {
			t.Fatal("nothing was deleted")
		}
	}
	for _, how := range []string{"a kill", "a close"} {
		if how == "a kill" {
			b.BetweenCompactions(func() { dir = killed(t, dir) })
		} else {
			b.Close()
		}
		b, admin = open()
		for _, topic := range []string{topic, "other"} {
			if end := endOfTopic(admin, topic); end != 3 {
				t.Errorf("after %s %s ends at %d", how, topic, end)
			}
		}
	}
	record, err := newClient(t, b.Addr()).ProduceSync(t.Context(), &kgo.Record{Topic: "other"}).First()
	if err != nil || record.Offset != 3 {
		t.Errorf("the next record has offset %d (%v)", record.Offset, err)
	}
	if _, err := admin.DeleteTopics(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopics(t.Context(), 1, 1, nil, "other"); err != nil {
		t.Fatal(err)
	}
	b.BetweenCompactions(func() { dir = killed(t, dir) })
	if _, admin = open(); endOfTopic(admin, "other") != 0 {
		t.Errorf("a topic made anew ends at %d", endOfTopic(admin, "other"))
	}
}

// A deleted topic must lose its end. Otherwise a new topic with the same name would lose records.
func TestATopicOfADeletedOnesNameLosesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a [folder]*", "broker")
	var b *broker.Broker
	open := func() *kadm.Client {
		var err error
		b, err = broker.Start(broker.Config{
			Dir:    dir,
			Listen: "127.0.0.1:0",
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return kadm.NewClient(newClient(t, b.Addr()))
	}
	write := func(n int) {
		t.Helper()
		c := newClient(t, b.Addr(), kgo.DefaultProduceTopic(topic))
		for range n {
			if err := c.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	admin := open()
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	write(10)
	if err := empty(t.Context(), admin, topic); err != nil {
		t.Fatal(err)
	}
	write(5)
	b.Close()
	admin = open()
	if got := len(committed(t, b.Addr())); got != 5 {
		t.Errorf("%d records, and 5 were written since all were deleted", got)
	}
	if _, err := admin.DeleteTopics(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	b.Close()
	admin = open()
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	write(25)
	b.Close()
	open()
	if got := len(committed(t, b.Addr())); got != 25 {
		t.Errorf("%d records, and 25 were written", got)
	}
}

// An unreadable file of ends and requests for invalid partitions must do no harm.
func TestBrokenEndsAndPartitions(t *testing.T) {
	first := filepath.Join(t.TempDir(), "broker")
	addr := start(t, first)
	admin := kadm.NewClient(newClient(t, addr))
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{topic, "unknown"} {
		req := kmsg.NewDeleteRecordsRequest()
		of := kmsg.NewDeleteRecordsRequestTopic()
		of.Topic = name
		of.Partitions = append(of.Partitions, kmsg.DeleteRecordsRequestTopicPartition{Partition: -1})
		req.Topics = append(req.Topics, of)
		if _, err := newClient(t, addr).Broker(0).Request(t.Context(), &req); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, content := range []string{"", "null", "{", `{"facts-0":"x"}`} {
		dir := killed(t, first)
		if err := os.WriteFile(filepath.Join(dir, "ends.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		addr := start(t, dir)
		c := newClient(t, addr, kgo.DefaultProduceTopic(topic))
		if err := c.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := empty(t.Context(), kadm.NewClient(c), topic); err != nil {
			t.Errorf("after %q: %v", content, err)
		}
	}
}
