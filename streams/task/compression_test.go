package task_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Data that repeats across the records of a batch is stored once, on the brokers' disks as well.
func TestBatchesAreCompressed(t *testing.T) {
	r := newRig(t)
	producer, err := r.cluster.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	const number, each = 200, 1000
	records := make([]kafka.Record, number)
	for i := range records {
		records[i] = kafka.Record{
			Topic: numbersTopic,
			Key:   []byte("alike"),
			Value: bytes.Repeat([]byte("alike"), each/5),
		}
	}
	if err := producer.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	deleter, err := r.cluster.NewDeleter()
	if err != nil {
		t.Fatal(err)
	}
	defer deleter.Close()
	sizes, err := deleter.Sizes(t.Context(), []int32{0, 1}, numbersTopic)
	if err != nil {
		t.Fatal(err)
	}
	stored := sizes[numbersTopic][0] + sizes[numbersTopic][1]
	if stored == 0 || stored > number*each/4 {
		t.Errorf("%d bytes of values take %d", number*each, stored)
	}
}

// A few compressed bytes can expand to gigabytes, so a reader must return an error instead of
// decompressing them.
func TestABatchThatDecompressesToTooMuchIsRefused(t *testing.T) {
	r := newRig(t)
	stranger, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(64<<20),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	large := &kgo.Record{
		Topic: r.cluster.Prefix + numbersTopic,
		Value: make([]byte, 20<<20),
	}
	if err := stranger.ProduceSync(t.Context(), large).FirstErr(); err != nil {
		t.Fatal(err)
	}
	from := kafka.Offsets{numbersTopic: {0: 0}}
	reader, err := r.cluster.NewReader(kafka.ReaderConfig{From: from})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	err = reader.Poll(t.Context(), 10, func(kafka.Record) error { return nil })
	if tooLarge := (*kgo.ErrDecompressTooLarge)(nil); !errors.As(err, &tooLarge) {
		t.Errorf("reading 20 MiB of zeros: %v", err)
	}
}
