package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kfake keeps the offsets of an open transaction only in memory. If a start finds a transaction
// partly committed, it needs them, so they are written to a file before kfake handles the request.
// Each transactional id has one file. Its next transaction, which a producer begins only after the
// previous one has ended, overwrites it.
//
// A hook doesn't see kfake's response, so offsets that kfake rejects, such as those of a former
// group member, are recorded as well. The client aborts the transaction in that case.

// noteOffsets records the offsets that a request adds to a transaction.
func (b *Broker) noteOffsets(r kmsg.Request) kmsg.Response {
	req := r.(*kmsg.TxnOffsetCommitRequest)
	if err := b.writeOffsets(req); err != nil {
		b.giveUp(fmt.Errorf("recording the offsets of a transaction: %w", err))
		return refusedOffsets(req)
	}
	return nil
}

func (b *Broker) writeOffsets(req *kmsg.TxnOffsetCommitRequest) error {
	name := sha256.Sum256([]byte(req.TransactionalID))
	file := filepath.Join(b.dir, offsetsFolder, hex.EncodeToString(name[:])+".json")
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var n noted
	if json.Unmarshal(content, &n) != nil || n.Producer != req.ProducerID ||
		n.Epoch != req.ProducerEpoch {
		n = noted{Producer: req.ProducerID, Epoch: req.ProducerEpoch}
	}
	n.AtMillis = time.Now().UnixMilli()
	for _, t := range req.Topics {
		topic := t.Topic
		if info := b.cluster.TopicIDInfo(t.TopicID); topic == "" && info != nil {
			topic = info.Topic
		}
		for _, p := range t.Partitions {
			n.add(position{
				Type: "commit", Group: req.Group, Topic: topic, Partition: p.Partition,
				Offset: p.Offset, Epoch: p.LeaderEpoch, Metadata: p.Metadata,
			})
		}
	}
	if content, err = json.Marshal(n); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}

// add adds a position, replacing an earlier one of the same partition.
func (n *noted) add(p position) {
	n.Offsets = slices.DeleteFunc(n.Offsets, func(was position) bool { return was.key() == p.key() })
	n.Offsets = append(n.Offsets, p)
}

func refusedOffsets(req *kmsg.TxnOffsetCommitRequest) kmsg.Response {
	refused := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	for _, t := range req.Topics {
		topic := kmsg.NewTxnOffsetCommitResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			partition := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			partition.Partition, partition.ErrorCode = p.Partition, kerr.KafkaStorageError.Code
			topic.Partitions = append(topic.Partitions, partition)
		}
		refused.Topics = append(refused.Topics, topic)
	}
	return refused
}

// leastCommitVersion is the first version of EndTxn that increments the epoch.
const leastCommitVersion = 5

// refuseOldCommits rejects commits that don't increment the producer's epoch, because a start
// couldn't tell the producer's transactions apart.
func refuseOldCommits(r kmsg.Request) kmsg.Response {
	req := r.(*kmsg.EndTxnRequest)
	if !req.Commit || req.Version >= leastCommitVersion {
		return nil
	}
	refused := req.ResponseKind().(*kmsg.EndTxnResponse)
	refused.ErrorCode = kerr.UnsupportedVersion.Code
	return refused
}
