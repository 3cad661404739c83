package broker_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const storyPartitions = 3

// story is a log in which several producers interleave committed and aborted transactions.
type story struct {
	addr      string
	committed [storyPartitions][]string
	ends      [storyPartitions]int64
	sizes     []int32 // of the batches, in the order in which they were written
}

type teller struct {
	client *kgo.Client
	open   [storyPartitions][]string
}

func (s *story) write(t *testing.T, w *teller, partition int32, name string, size int) {
	t.Helper()
	value := name + strings.Repeat(".", size)
	r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
	if err := acknowledged(t.Context(), w.client, r); err != nil {
		t.Fatal(err)
	}
	w.open[partition] = append(w.open[partition], name)
	s.sizes = append(s.sizes, int32(len(value)))
}

func (s *story) end(t *testing.T, w *teller, how kgo.TransactionEndTry) {
	t.Helper()
	if err := w.client.EndTransaction(t.Context(), how); err != nil {
		t.Fatal(err)
	}
	for p, names := range w.open {
		if how == kgo.TryCommit {
			s.committed[p] = append(s.committed[p], names...)
		}
		w.open[p] = nil
	}
}

// writeStory writes the story. In each round, three producers write in turn to three partitions,
// and every second transaction is aborted.
func writeStory(t *testing.T) *story {
	t.Helper()
	s := &story{addr: start(t, filepath.Join(t.TempDir(), "broker"))}
	if _, err := kadm.NewClient(newClient(t, s.addr)).CreateTopic(t.Context(), storyPartitions, 1, nil,
		topic); err != nil {
		t.Fatal(err)
	}
	var tellers [3]*teller
	for i := range tellers {
		tellers[i] = &teller{client: newClient(t, s.addr, kgo.TransactionalID(fmt.Sprint("teller-", i)),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(3<<20),
			kgo.ProducerBatchCompression(kgo.NoCompression()))}
	}
	sizes := []int{1, 700, 40_000, 90, 300_000, 5_000}
	for round := range 8 {
		for _, w := range tellers {
			if err := w.client.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
		}
		for turn := range 4 {
			for i, w := range tellers {
				size := sizes[(round+turn*2+i)%len(sizes)]
				if round == 5 && turn == 2 && i == 1 {
					size = 2 << 20
				}
				s.write(t, w, int32((turn+i+round)%storyPartitions), fmt.Sprintf("%d/%d/%d ", round, turn, i),
					size)
			}
		}
		for k := range tellers {
			i := (k + round) % len(tellers)
			how := kgo.TryCommit
			if (round+i)%2 == 1 {
				how = kgo.TryAbort
			}
			s.end(t, tellers[i], how)
		}
	}
	ends, err := kadm.NewClient(tellers[0].client).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(end kadm.ListedOffset) { s.ends[end.Partition] = end.Offset })
	// Sort, because partitions are ordered by offset, not by the end of transactions.
	for p := range s.committed {
		slices.Sort(s.committed[p])
	}
	return s
}

func (s *story) check(t *testing.T, how string, read [storyPartitions][]string) {
	t.Helper()
	for p := range read {
		slices.Sort(read[p])
		if !slices.Equal(read[p], s.committed[p]) {
			t.Errorf("%s: partition %d holds %d committed records and %d were read: %q",
				how, p, len(s.committed[p]), len(read[p]), extra(read[p], s.committed[p]))
		}
	}
}

// extra returns the values that were read more often than they were committed.
func extra(read, committed []string) (more []string) {
	left := slices.Clone(committed)
	for _, v := range read {
		if i := slices.Index(left, v); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else {
			more = append(more, v)
		}
	}
	return more
}

func nameOf(value []byte) string {
	name, _, _ := bytes.Cut(value, []byte("."))
	return string(name)
}

// bounds returns the sizes at which responses are cut: every power of two, and sizes around sums
// of the first batches.
func (s *story) bounds() (all []int32) {
	for b := int32(1); b <= 8<<20; b *= 2 {
		all = append(all, b)
	}
	var sum int32
	for i, size := range s.sizes {
		sum += size + 70 // approximate overhead of a batch with one record
		if i%5 == 0 {
			all = append(all, sum-1, sum+40)
		}
	}
	return all
}

// A client recognizes an aborted record only by the list in the response, so the list must be
// there wherever a limit cuts the response.
func TestNoBoundOfAFetchHandsOutAbortedRecords(t *testing.T) {
	t.Parallel()
	s := writeStory(t)
	client := newClient(t, s.addr, kgo.DisableFetchSessions())
	topicID := topicIDOf(t, client)
	for _, whole := range s.bounds() {
		for _, each := range []int32{1, whole, 8 << 20} {
			s.check(t, fmt.Sprintf("MaxBytes %d, MaxPartitionBytes %d", whole, each),
				s.fetchAll(t, client, topicID, whole, each))
		}
	}
}

func topicIDOf(t *testing.T, client *kgo.Client) [16]byte {
	t.Helper()
	details, err := kadm.NewClient(client).ListTopics(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return details[topic].ID
}

// fetchAll reads all partitions with explicit requests instead of a consumer.
func (s *story) fetchAll(
	t *testing.T, client *kgo.Client, topicID [16]byte, whole, each int32,
) (read [storyPartitions][]string) {
	t.Helper()
	var next [storyPartitions]int64
	for first := int32(0); next != s.ends; first++ {
		req := kmsg.NewPtrFetchRequest()
		req.IsolationLevel, req.MaxBytes, req.MaxWaitMillis = 1, whole, 1
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic, rt.TopicID = topic, topicID
		for i := range int32(storyPartitions) {
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition = (first + i) % storyPartitions
			rp.FetchOffset, rp.PartitionMaxBytes = next[rp.Partition], each
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		before := next
		for _, rt := range resp.Topics {
			for i := range rt.Partitions {
				rp := &rt.Partitions[i]
				o := kgo.ProcessFetchPartitionOpts{
					Offset:         next[rp.Partition],
					IsolationLevel: kgo.ReadCommitted(),
					Topic:          topic,
					Partition:      rp.Partition,
				}
				got, after := kgo.ProcessFetchPartition(o, rp, kgo.DefaultDecompressor(), nil)
				if got.Err != nil {
					t.Fatal(got.Err)
				}
				for _, r := range got.Records {
					read[rp.Partition] = append(read[rp.Partition], nameOf(r.Value))
				}
				next[rp.Partition] = max(after, next[rp.Partition])
			}
		}
		if next == before {
			t.Fatalf("MaxBytes %d, MaxPartitionBytes %d: nothing comes at %v of %v", whole, each, next,
				s.ends)
		}
	}
	return read
}

// Every client must read exactly the committed records, with and without fetch sessions.
func TestNoClientIsHandedAbortedRecords(t *testing.T) {
	t.Parallel()
	s := writeStory(t)
	for _, whole := range []int32{1, 4096, 1 << 20, 50 << 20} {
		for _, each := range []int32{1, 10_000, 50 << 20} {
			for how, opts := range map[string][]kgo.Opt{
				"in sessions":      nil,
				"without sessions": {kgo.DisableFetchSessions()},
				"by topic name":    {kgo.MaxVersions(oldVersions())},
			} {
				opts = append(opts, kgo.FetchMaxBytes(whole), kgo.FetchMaxPartitionBytes(each),
					kgo.MaxConcurrentFetches(1))
				s.check(t, fmt.Sprintf("%s, MaxBytes %d, MaxPartitionBytes %d", how, whole, each),
					s.consumeAll(t, opts))
			}
		}
	}
}

// oldVersions makes fetches use topic names and no sessions.
func oldVersions() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(kmsg.Fetch.Int16(), 6)
	return v
}

func (s *story) consumeAll(t *testing.T, opts []kgo.Opt) (read [storyPartitions][]string) {
	t.Helper()
	from := make(map[int32]kgo.Offset)
	for p := range int32(storyPartitions) {
		from[p] = kgo.NewOffset().AtStart()
	}
	c := newClient(t, s.addr, append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))...)
	defer c.Close()
	for next := [storyPartitions]int64{}; next != s.ends; {
		fetches := c.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				read[r.Partition] = append(read[r.Partition], nameOf(r.Value))
			}
		})
	}
	return read
}

// A fetch of more partitions than the limits were proven for must be rejected.
func TestAFetchOfTooManyPartitionsIsRefused(t *testing.T) {
	client := newClient(t, start(t, filepath.Join(t.TempDir(), "broker")))
	for named, want := range map[int]error{400: nil, 401: kerr.InvalidRequest} {
		req := kmsg.NewPtrFetchRequest()
		rt := kmsg.NewFetchRequestTopic()
		rt.Partitions = make([]kmsg.FetchRequestTopicPartition, named)
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		if got := kerr.ErrorForCode(resp.ErrorCode); got != want {
			t.Errorf("%d partitions: %v", named, got)
		}
	}
}

// No topic setting may allow batches for which the limits were not proven.
func TestNoTopicTakesLargerBatches(t *testing.T) {
	admin := kadm.NewClient(newClient(t, start(t, filepath.Join(t.TempDir(), "broker"))))
	large := map[string]*string{"max.message.bytes": kadm.StringPtr("100000000")}
	if _, err := admin.CreateTopic(t.Context(), 1, 1, large, topic); err != nil {
		t.Fatal(err)
	}
	alter := []kadm.AlterConfig{{
		Op:    kadm.SetConfig,
		Name:  "max.message.bytes",
		Value: kadm.StringPtr("50000000"),
	}}
	for how, change := range map[string]func() error{
		"created": func() error { return nil },
		"altered": func() error {
			responses, err := admin.AlterTopicConfigsState(t.Context(), alter, topic)
			return errors.Join(err, responses[0].Err)
		},
		"altered one": func() error {
			responses, err := admin.AlterTopicConfigs(t.Context(), alter, topic)
			return errors.Join(err, responses[0].Err)
		},
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		configs, err := admin.DescribeTopicConfigs(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range configs[0].Configs {
			if c.Key == "max.message.bytes" && *c.Value != "4194304" {
				t.Errorf("%s: %s", how, *c.Value)
			}
		}
	}
}
