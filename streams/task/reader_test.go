package task_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Records behind an open transaction cannot be read. A reader that must reach the end says so in
// its error, and it succeeds once the transaction has ended.
func TestReadToNamesATransactionThatHoldsTheEndBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	writer, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Brokers...),
		kgo.TransactionalID(r.cluster.Prefix+"stranger"), kgo.TransactionTimeout(15*time.Second),
		kgo.DefaultProduceTopic(r.cluster.Prefix+sumsTopic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if err := writer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	record := kgo.StringRecord("1")
	err = writer.ProduceSync(t.Context(), record).FirstErr()
	stored := kafka.AwaitStored(t.Context(), writer, []*kgo.Record{record})
	if err := errors.Join(err, stored); err != nil {
		t.Fatal(err)
	}
	ends, err := r.cluster.NewEnds()
	if err != nil {
		t.Fatal(err)
	}
	defer ends.Close()
	until, err := ends.Of(t.Context(), sumsTopic)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := r.cluster.NewReader(kafka.ReaderConfig{
		From:         kafka.Offsets{sumsTopic: {0: 0, 1: 0}},
		StallTimeout: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var got []string
	take := func(rec kafka.Record) error {
		got = append(got, string(rec.Value))
		return nil
	}
	if err := reader.ReadTo(t.Context(), sumsTopic, until, 10, take); err == nil ||
		!strings.Contains(err.Error(), "partition 0 of sums is read to offset 0 of 1") {
		t.Fatalf("while the transaction was open: %v", err)
	}
	if err := writer.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the end is read",
		func() bool { return reader.ReadTo(t.Context(), sumsTopic, until, 10, take) == nil })
	if len(got) != 1 || got[0] != "1" {
		t.Errorf("read %q", got)
	}
}
