package broker

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kfake knows where a partition ends by its last batch. Where that is deleted, by retention or a
// DeleteRecords, the next start has the partition end earlier, and gives offsets again that its
// readers have passed: they never see those records. So the ends are noted before anything is
// deleted, and a partition that a start finds shorter gets a marker before its end, of no producer,
// which readers pass over.
const endsFile = "ends.json"

// ends are the ends of partitions, by the names of their folders.
type ends map[string]int64

func folderOf(topic string, partition int32) string {
	return fmt.Sprintf("%s-%d", url.PathEscape(topic), partition)
}

// noteEnds notes the ends of topics' partitions.
func (b *Broker) noteEnds(topics ...string) error {
	changed := false
	for _, topic := range topics {
		for _, p := range b.cluster.PartitionInfos(topic) {
			folder := folderOf(topic, p.Partition)
			if p.HighWatermark > b.ends[folder] {
				b.ends[folder], changed = p.HighWatermark, true
			}
		}
	}
	if !changed {
		return nil
	}
	return b.writeEnds()
}

// forgetEnds is for topics that are made, perhaps in place of ones that were deleted.
func (b *Broker) forgetEnds(topics ...string) error {
	known := len(b.ends)
	for _, topic := range topics {
		if len(b.cluster.PartitionInfos(topic)) > 0 {
			continue // it exists: nothing will be made
		}
		maps.DeleteFunc(b.ends, func(folder string, _ int64) bool {
			at := strings.LastIndex(folder, "-")
			return at >= 0 && folder[:at] == url.PathEscape(topic)
		})
	}
	if len(b.ends) == known {
		return nil
	}
	return b.writeEnds()
}

func (b *Broker) writeEnds() error {
	content, err := json.Marshal(b.ends)
	if err != nil {
		return err
	}
	path := filepath.Join(b.dir, endsFile)
	draft := path + ".draft"
	if err := os.WriteFile(draft, content, 0o600); err != nil {
		return err
	}
	sync := syncPath // also without Sync: a broken one would be missed
	if b.disk != nil {
		sync = b.disk.sync
	}
	if err := sync(draft); err != nil {
		return err
	}
	return errors.Join(os.Rename(draft, path), b.syncNow(b.dir))
}

// syncNow syncs a path if answers wait for the disk.
func (b *Broker) syncNow(path string) error {
	if b.disk == nil {
		return nil
	}
	return b.disk.sync(path)
}

// noteDeleted notes the ends of partitions that a request may empty.
func (b *Broker) noteDeleted(r kmsg.Request) kmsg.Response {
	req := r.(*kmsg.DeleteRecordsRequest)
	var topics []string
	for _, t := range req.Topics {
		infos := b.cluster.PartitionInfos(t.Topic)
		empties := func(p kmsg.DeleteRecordsRequestTopicPartition) bool {
			if p.Partition < 0 || int(p.Partition) >= len(infos) {
				return false
			}
			is := infos[p.Partition]
			return is.HighWatermark > is.LogStartOffset && // else it is empty, and its end noted
				(p.Offset < 0 || p.Offset >= is.HighWatermark)
		}
		if slices.ContainsFunc(t.Partitions, empties) {
			topics = append(topics, t.Topic)
		}
	}
	err := b.noteEnds(topics...)
	if err == nil {
		return nil
	}
	b.giveUp(fmt.Errorf("noting where partitions end: %w", err))
	refused := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	for _, t := range req.Topics {
		topic := kmsg.NewDeleteRecordsResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			partition := kmsg.NewDeleteRecordsResponseTopicPartition()
			partition.Partition, partition.ErrorCode = p.Partition, kerr.KafkaStorageError.Code
			topic.Partitions = append(topic.Partitions, partition)
		}
		refused.Topics = append(refused.Topics, topic)
	}
	return refused
}

// healEnds reads the noted ends, and makes partitions that are shorter end there.
func healEnds(dir string, found *scan, logger *slog.Logger) (ends, error) {
	noted := make(ends)
	content, err := os.ReadFile(filepath.Join(dir, endsFile))
	if errors.Is(err, os.ErrNotExist) {
		return noted, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &noted); err != nil || noted == nil {
		logger.Warn("the embedded broker does not know any more where partitions without records end",
			"file", filepath.Join(dir, endsFile), "error", err)
		return make(ends), nil
	}
	for folder, end := range noted {
		if p := found.partitions[folder]; p != nil && p.end < end { // nil: its topic was deleted
			if err := p.endAt(end); err != nil {
				return nil, fmt.Errorf("the end of %s: %w", folder, err)
			}
		}
	}
	return noted, nil
}

// endAt puts a marker of no producer before an end.
func (p *partition) endAt(end int64) error {
	p.end = end
	// A separate segment, so that a damaged end of another one stays unchanged.
	return os.WriteFile(filepath.Join(p.folder, strconv.FormatInt(end-1, 10)+segmentExt),
		markerBatch(end-1, -1, -1, true), 0o600)
}

// commitKind is the kind in the key of a commit marker.
const commitKind = 1

// markerBatch is the marker that ends a transaction.
func markerBatch(offset, producer int64, epoch int16, commit bool) []byte {
	const version, ofValue = 0, 6 // KIP-98: key and value of a marker
	var kind uint16
	if commit {
		kind = commitKind
	}
	key := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, version), kind)
	record := kmsg.Record{Key: key, Value: make([]byte, ofValue)}
	record.Length = int32(len(record.AppendTo(nil)) - 1) // without the length itself, of one byte
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{
		FirstOffset:    offset,
		Magic:          2,
		Attributes:     transactional | control,
		FirstTimestamp: now,
		MaxTimestamp:   now,
		ProducerID:     producer,
		ProducerEpoch:  epoch,
		FirstSequence:  -1,
		NumRecords:     1,
		Records:        record.AppendTo(nil),
	}
	raw := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[batchLengthAt:], uint32(len(raw)-batchEpochAt))
	binary.BigEndian.PutUint32(raw[batchSumAt:], sumOfBatch(raw))
	return raw
}
