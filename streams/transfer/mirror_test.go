package transfer_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

type side struct {
	t *testing.T
	kafka.Cluster
}

func newSide(t *testing.T, partitions int32) side {
	t.Helper()
	b := brokertest.Start(t)
	s := side{t, b.Cluster(nil)}
	if partitions > 0 {
		s.must(s.EnsureTopics(t.Context(),
			topology.RequiredTopics(topology.Shape{Partitions: partitions, Replicas: b.Replicas()})))
	}
	return s
}

func (s side) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// transact writes records to partition 0 of a topic in one transaction.
func (s side) transact(how kgo.TransactionEndTry, topic string, keys ...string) {
	s.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...), kgo.TransactionalID(s.Prefix+"writer"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	s.must(err)
	defer client.Close()
	s.must(client.BeginTransaction())
	for _, key := range keys {
		record := &kgo.Record{
			Topic:   s.Prefix + topic,
			Key:     []byte(key),
			Value:   []byte("value of " + key),
			Headers: []kgo.RecordHeader{{Key: "type", Value: []byte("test")}},
		}
		s.must(client.ProduceSync(s.t.Context(), record).FirstErr())
		s.must(kafka.AwaitStored(s.t.Context(), client, []*kgo.Record{record}))
	}
	s.must(client.EndTransaction(s.t.Context(), how))
}

// busy writes records to the topics, including aborted ones.
func (s side) busy() {
	s.t.Helper()
	for round := range 3 {
		for _, topic := range []string{schemas.TopicJournal, schemas.TopicWatches} {
			s.transact(kgo.TryCommit, topic, fmt.Sprint("a", round), fmt.Sprint("b", round))
			s.transact(kgo.TryAbort, topic, "never", "was")
		}
	}
	s.transact(kgo.TryCommit, schemas.TopicLedgers, "network")
}

// takes commits a group's position.
func (s side) takes(group, topic string, offset int64) {
	s.t.Helper()
	s.must(s.WithAdmin(s.t.Context(), func(ctx context.Context, admin *kadm.Client) error {
		offsets := make(kadm.Offsets)
		offsets.Add(kadm.Offset{Topic: s.Prefix + topic, At: offset, LeaderEpoch: -1})
		return admin.CommitAllOffsets(ctx, s.Prefix+group, offsets)
	}))
}

func (s side) taken(group, topic string) (offset int64) {
	s.t.Helper()
	s.must(s.WithAdmin(s.t.Context(), func(ctx context.Context, admin *kadm.Client) error {
		answers, err := admin.FetchOffsets(ctx, s.Prefix+group)
		at, _ := answers.Lookup(s.Prefix+topic, 0)
		offset = at.At
		return err
	}))
	return offset
}

func (s side) ends() map[string]map[int32]int64 {
	s.t.Helper()
	asking, err := s.NewEnds()
	s.must(err)
	defer asking.Close()
	all := make(map[string]map[int32]int64)
	for _, topic := range schemas.Topics() {
		all[topic.Name], err = asking.Of(s.t.Context(), topic.Name)
		s.must(err)
	}
	return all
}

// records returns the records that consumers see as text, with their offsets and timestamps.
func (s side) records() (list []string) {
	s.t.Helper()
	for topic := range s.ends() {
		for _, r := range s.recordsOf(topic) {
			list = append(list,
				fmt.Sprintf("%s/%d@%d %s=%s %q %d", r.Topic, r.Partition, r.Offset, r.Key, r.Value, r.Headers,
					r.Timestamp.UnixMilli()))
		}
	}
	slices.Sort(list)
	return list
}

func (s side) recordsOf(topic string) (list []kafka.Record) {
	s.t.Helper()
	asking, err := s.NewEnds()
	s.must(err)
	defer asking.Close()
	starts, err := asking.Starts(s.t.Context(), topic)
	s.must(err)
	reader, err := s.NewReader(
		kafka.ReaderConfig{From: kafka.Offsets{topic: starts}, SkipExpired: true})
	s.must(err)
	defer reader.Close()
	s.must(reader.ReadTo(s.t.Context(), topic, s.ends()[topic], 100, func(r kafka.Record) error {
		list = append(list, r)
		return nil
	}))
	return list
}

func (s side) isCopyOf(from side) {
	s.t.Helper()
	if have, want := s.records(), from.records(); !slices.Equal(have, want) || len(want) == 0 {
		s.t.Errorf("the copy has\n%s\nof\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	if have, want := s.ends(), from.ends(); !reflect.DeepEqual(have, want) {
		s.t.Errorf("the copy ends at %v in place of %v", have, want)
	}
}

func copied(r transfer.MirrorReport) (records, fillers int64) {
	for _, t := range r.Topics {
		records += t.Records
		fillers += t.Fillers
	}
	return records, fillers
}

// Records, timestamps and positions are the same on both sides. A repeated copy adds the new
// records.
func TestACopyKeepsEveryOffset(t *testing.T) {
	t.Parallel()
	from, to := newSide(t, 2), newSide(t, 2)
	from.busy()
	from.takes("mailer", schemas.TopicJournal, 7)
	var told, total int64
	report, err := transfer.Mirror(t.Context(),
		transfer.MirrorConfig{
			From:     from.Cluster,
			To:       to.Cluster,
			Progress: func(done, all int64) { told, total = done, all },
		})
	from.must(err)
	to.isCopyOf(from)
	records, fillers := copied(report)
	if records != 13 || told != records+fillers || total != told {
		t.Errorf("%d records and %d fillers were copied, %d of %d told", records, fillers, told, total)
	}
	if at := to.taken("mailer", schemas.TopicJournal); at != 7 ||
		!slices.Equal(report.Groups, []string{"mailer"}) {
		t.Errorf("the group is at %d, of %v", at, report.Groups)
	}

	from.transact(kgo.TryCommit, schemas.TopicJournal, "since")
	from.takes("mailer", schemas.TopicJournal, 9)
	report, err = transfer.Mirror(t.Context(),
		transfer.MirrorConfig{From: from.Cluster, To: to.Cluster})
	from.must(err)
	to.isCopyOf(from)
	if records, _ := copied(report); records != 1 || to.taken("mailer", schemas.TopicJournal) != 9 {
		t.Errorf("repeated, %d records were copied", records)
	}
}

// A copy continues wherever it was interrupted.
func TestACopyThatEndedEarlyGoesOn(t *testing.T) {
	t.Parallel()
	from, to := newSide(t, 2), newSide(t, 2)
	from.busy()
	interruptions := 0
	for {
		ctx, interrupt := context.WithCancel(t.Context())
		_, err := transfer.Mirror(ctx, transfer.MirrorConfig{
			From: from.Cluster,
			To:   to.Cluster,
			Progress: func(done, total int64) {
				if done < total {
					interrupt()
				}
			},
		})
		interrupt()
		if err == nil {
			break
		}
		if interruptions++; interruptions > 10 {
			t.Fatal(err)
		}
	}
	if interruptions == 0 {
		t.Error("nothing was interrupted")
	}
	to.isCopyOf(from)
}

// Nothing is added to topics that have other content.
func TestWhatIsNoCopyIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		partitions int32
		before     func(to side)
		says       string
	}{
		"no topics":            {0, func(side) {}, "lumenhook topics create"},
		"other partitions":     {3, func(side) {}, "--partitions 2"},
		"more than the source": {2, func(to side) { to.busy(); to.busy() }, "it is not a copy"},
		"another record": {
			2, func(to side) { to.transact(kgo.TryCommit, schemas.TopicLedgers, "other") },
			"it is not a copy",
		},
		"another record below": {2, func(to side) {
			p, err := to.NewProducer()
			to.must(err)
			defer p.Close()
			to.must(p.Append(t.Context(),
				kafka.Record{Topic: schemas.TopicLedgers, Key: []byte("other"), Value: []byte("record")}))
		}, "something else at offset 0"},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := newSide(t, 2), newSide(t, c.partitions)
			from.busy()
			c.before(to)
			_, err := transfer.Mirror(t.Context(), transfer.MirrorConfig{From: from.Cluster, To: to.Cluster})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("answered %v", err)
			}
		})
	}
}

// A copy begins where its source begins, even if the source begins later than at the first copy.
// Readers use this to determine which records are missing.
func TestWhatRetentionDeletedIsMissingInTheCopyToo(t *testing.T) {
	t.Parallel()
	from, to := newSide(t, 1), newSide(t, 1)
	from.busy()
	from.transact(kgo.TryCommit, schemas.TopicMatches, "match")
	for _, start := range []int64{4, 8} {
		below := map[string]int64{schemas.TopicJournal: start, schemas.TopicMatches: 2} // all matches
		for topic, offset := range below {
			from.deletes(topic, offset)
		}
		_, err := transfer.Mirror(t.Context(), transfer.MirrorConfig{From: from.Cluster, To: to.Cluster})
		to.must(err)
		to.isCopyOf(from)
		ends, err := to.NewEnds()
		to.must(err)
		defer ends.Close()
		for topic, want := range below {
			starts, err := ends.Starts(t.Context(), topic)
			to.must(err)
			if starts[0] != want {
				t.Errorf("%s begins at %d in the copy, want %d", topic, starts[0], want)
			}
		}
	}
}

// A filler has the timestamp of the record after it.
func TestACopyIsSearchedByTimeAsItsSource(t *testing.T) {
	t.Parallel()
	from, to := newSide(t, 1), newSide(t, 1)
	from.transact(kgo.TryAbort, schemas.TopicMatches, "never")
	from.transact(kgo.TryCommit, schemas.TopicMatches, "match")
	var written time.Time
	for _, r := range from.recordsOf(schemas.TopicMatches) {
		written = r.Timestamp
	}
	_, err := transfer.Mirror(t.Context(), transfer.MirrorConfig{From: from.Cluster, To: to.Cluster})
	to.must(err)
	ends, err := to.NewEnds()
	to.must(err)
	defer ends.Close()
	since, err := ends.Since(t.Context(), schemas.TopicMatches, written.UnixMilli()+1)
	to.must(err)
	if since[0] < 3 { // two fillers before the record, and maybe one after it
		t.Errorf("offset %d is later than the record", since[0])
	}
}

// deletes removes the records of a topic's partition 0 before an offset, and retries until they are
// gone. A broker writes a transaction's marker after it has answered, and deletes nothing before an
// offset that it has not reached.
func (s side) deletes(topic string, offset int64) {
	s.t.Helper()
	deleter, err := s.NewDeleter()
	s.must(err)
	defer deleter.Close()
	ends, err := s.NewEnds()
	s.must(err)
	defer ends.Close()
	for {
		s.must(deleter.DeleteBefore(s.t.Context(), kafka.Offsets{topic: {0: offset}}))
		starts, err := ends.Starts(s.t.Context(), topic)
		s.must(err)
		if starts[0] == offset {
			return
		}
	}
}
