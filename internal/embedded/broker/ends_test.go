package broker_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
)

// Where a partition ends is known after all of its records were deleted, by a request and by
// retention; a topic that is made anew begins at its beginning.
func TestAnEmptyPartitionEndsWhereItEnded(t *testing.T) {
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
	segment := filepath.Join(dir, "partitions", topic+"-0", "0.dat")
	reader := newClient(t, b.Addr(), kgo.ConsumeTopics("other")) // its fetches have it compact
	for {
		if _, err := os.Stat(segment); errors.Is(err, os.ErrNotExist) {
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
			dir = killed(t, dir)
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
	dir = killed(t, dir)
	if _, admin = open(); endOfTopic(admin, "other") != 0 {
		t.Errorf("a topic made anew ends at %d", endOfTopic(admin, "other"))
	}
}
