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

// kfake holds the positions of an open transaction only in memory. A start that finds the
// transaction partly committed needs them, so they are written to a file before kfake processes
// them. The file of a transactional id is overwritten by its next transaction, which a producer
// begins after the previous one has ended.
//
// A hook does not see the answer. So positions that kfake refuses, such as those of a member that
// has left its group, are recorded too. A client that gets an error aborts the transaction.

// noteOffsets writes down the positions that a request adds to a transaction.
func (b *Broker) noteOffsets(r kmsg.Request) kmsg.Response {
	req := r.(*kmsg.TxnOffsetCommitRequest)
	if err := b.writeOffsets(req); err != nil {
		b.giveUp(fmt.Errorf("noting the positions of a transaction: %w", err))
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

// add adds a position in place of an earlier one.
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

// refuseOldCommits refuses commits after which the producer would keep its epoch, because a start
// could not distinguish its transactions.
func refuseOldCommits(r kmsg.Request) kmsg.Response {
	req := r.(*kmsg.EndTxnRequest)
	if !req.Commit || req.Version >= leastCommitVersion {
		return nil
	}
	refused := req.ResponseKind().(*kmsg.EndTxnResponse)
	refused.ErrorCode = kerr.UnsupportedVersion.Code
	return refused
}
