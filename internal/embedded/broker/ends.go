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

// kfake derives the end of a partition from its last batch. If retention or DeleteRecords deletes
// that batch, the partition ends earlier after a restart. New records would get offsets that
// readers have already passed, so readers would never see them. To prevent this, the ends are
// recorded before anything is deleted. If a start finds a shorter partition, it writes a marker
// without a producer before the recorded end. Readers skip the marker.
const endsFile = "ends.json"

// ends maps partition directories to their end offsets.
type ends map[string]int64

func folderOf(topic string, partition int32) string {
	return fmt.Sprintf("%s-%d", url.PathEscape(topic), partition)
}

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

// forgetEnds drops the ends of topics that are about to be created, possibly replacing deleted
// topics with the same names.
func (b *Broker) forgetEnds(topics ...string) error {
	known := len(b.ends)
	for _, topic := range topics {
		if len(b.cluster.PartitionInfos(topic)) > 0 {
			continue // exists: the request fails
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
	sync := syncPath // even without Sync, because a corrupt file would lose the ends
	if b.disk != nil {
		sync = b.disk.sync
	}
	if err := sync(draft); err != nil {
		return err
	}
	return errors.Join(os.Rename(draft, path), b.syncNow(b.dir))
}

// syncNow syncs path if Config.Sync is in effect.
func (b *Broker) syncNow(path string) error {
	if b.disk == nil {
		return nil
	}
	return b.disk.sync(path)
}

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
			return is.HighWatermark > is.LogStartOffset && // otherwise it is empty, and its end is recorded
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
	b.giveUp(fmt.Errorf("recording the ends of partitions: %w", err))
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

// healEnds reads the recorded ends and extends shorter partitions.
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
		logger.Warn("ignoring the unreadable ends of the embedded broker's partitions",
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

// endAt extends a partition with a marker that has no producer.
func (p *partition) endAt(end int64) error {
	p.end = end
	// A separate segment leaves a damaged tail of the previous one unchanged.
	return os.WriteFile(filepath.Join(p.folder, strconv.FormatInt(end-1, 10)+segmentExt),
		markerBatch(end-1, -1, -1, true), 0o600)
}

const commitKind = 1

func markerBatch(offset, producer int64, epoch int16, commit bool) []byte {
	const version, ofValue = 0, 6 // KIP-98: version of the key, size of the value
	var kind uint16
	if commit {
		kind = commitKind
	}
	key := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, version), kind)
	record := kmsg.Record{Key: key, Value: make([]byte, ofValue)}
	record.Length = int32(len(record.AppendTo(nil)) - 1) // without the length, of one byte
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
