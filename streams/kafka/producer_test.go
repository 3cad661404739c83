package kafka_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// A broker that is starting cannot assign producer IDs yet, and the client retries until the
// caller's context ends.
func TestAnAppendThatTimedOutSaysSo(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "test.numbers"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	fake.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		return resp, nil, true
	})
	producer, err := kafka.Cluster{
		Brokers: fake.ListenAddrs(), Prefix: "test.", ClientID: "test",
		Logger: slog.New(slog.DiscardHandler),
	}.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	noHeaders := func(func(string, string) bool) {}
	err = producer.Append(ctx, kafka.NewRecord("numbers", "key", []byte("value"), noHeaders))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an append that timed out returned %v", err)
	}
}
