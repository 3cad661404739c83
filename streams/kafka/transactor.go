package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TransactionTimeout bounds how long the open transaction of a dead owner can block readers if no
// new owner aborts it.
const TransactionTimeout = 10 * time.Second

// Transactor runs the transactions of one task. The latest transactor for a group and partition is
// the owner, and all earlier ones are fenced.
type Transactor struct {
	transactions
	group     string
	partition int32
}

type transactions struct {
	cluster Cluster
	client  *kgo.Client
	txnID   string
	// implied reports whether committing positions also adds their group to the transaction, as with
	// transaction.version 2 (KIP-890).
	implied bool
}

// identity is the producer id and epoch of a transaction's writes. If the client has to request a
// new epoch, writes with the previous one are aborted.
type identity struct {
	id    int64
	epoch int16
}

// NewTransactor takes over the transactional id of a task.
func (c Cluster) NewTransactor(
	ctx context.Context, group string, partition int32,
) (*Transactor, error) {
	t := &Transactor{group: c.fullName(group), partition: partition}
	var err error
	t.transactions, err = c.takeOver(ctx, t.group+"-"+strconv.Itoa(int(partition)),
		kgo.ManualPartitioner())
	if err != nil {
		return nil, err
	}
	return t, nil
}

// takeOver makes the caller the owner of a transactional id. The previous owner's open transaction
// is aborted, or completed if it was being committed.
func (c Cluster) takeOver(
	ctx context.Context, txnID string, partitioner kgo.Partitioner,
) (transactions, error) {
	t := transactions{cluster: c, txnID: txnID, implied: true}
	if err := t.open(ctx, partitioner); err != nil {
		return t, err
	}
	// This fences every earlier owner and aborts its open transaction.
	if _, _, err := t.client.ProducerID(ctx); err != nil {
		t.client.Close()
		return t, fmt.Errorf("streams: taking over transactional id %s: %w", t.txnID, err)
	}
	return t, nil
}

// Fence takes over a transactional id and gives it up, which aborts the open transaction of its
// previous owner and rejects that owner's later writes.
func (c Cluster) Fence(ctx context.Context, id string) error {
	t, err := c.takeOver(ctx, c.fullName(id), kgo.ManualPartitioner())
	if err != nil {
		return err
	}
	t.client.Close()
	return nil
}

// open opens a client that uses the cluster's transaction version. The client chooses its own
// requests, so limiting their versions keeps its choice in line with ours. A client that was opened
// before an upgrade of the feature keeps the old version, which the cluster allows.
func (t *transactions) open(ctx context.Context, partitioner kgo.Partitioner) error {
	var err error
	for {
		t.client, err = t.cluster.client(
			kgo.MaxVersions(positionVersions(t.implied)),
			kgo.TransactionalID(t.txnID),
			kgo.TransactionTimeout(TransactionTimeout),
			kgo.WithLogger(t.cluster.transactionLogger()),
			kgo.RecordPartitioner(partitioner),
			kgo.ProducerBatchMaxBytes(1<<20),
			kgo.MaxBufferedRecords(100_000),
			kgo.ProducerLinger(0),
		)
		if err != nil || !t.implied {
			return err
		}
		levels, err := features(ctx, t.client)
		if err == nil && levels["transaction.version"] >= 2 {
			return nil
		}
		t.client.Close()
		if err != nil {
			return err
		}
		t.implied = false
	}
}

// positionVersions limits requests for positions to versions that identify topics by name, not by
// topic id. Limiting TxnOffsetCommit to below 5 makes the client use pre-KIP-890 transactions in
// all requests.
func positionVersions(implied bool) *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.OffsetFetch), 9)
	v.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), 5)
	if !implied {
		v.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), 4)
	}
	return v
}

// Commit writes records, each to its partition, and the group's input positions in one transaction.
// It returns the offset after the last record in the transactor's own partition, by topic.
func (t *Transactor) Commit(
	ctx context.Context, records []Record, positions Offsets, journalTopic string,
) (ends map[string]int64, err error) {
	for _, r := range records {
		if r.Topic == journalTopic && r.Partition != t.partition {
			return nil, fmt.Errorf("streams: the task of partition %d wrote to partition %d of its journal",
				t.partition, r.Partition)
		}
	}
	batch := t.cluster.toKafka(records)
	err = t.inOne(ctx, batch,
		func(as identity) error { return t.commitPositions(ctx, as, positions) })
	if err != nil {
		return nil, err
	}
	ends = make(map[string]int64)
	for i, k := range batch {
		if topic := records[i].Topic; k.Partition == t.partition && k.Offset >= ends[topic] {
			ends[topic] = k.Offset + 1
		}
	}
	return ends, nil
}

// inOne writes records in one transaction and calls also before it commits. There must be at least
// one record: the client does not commit a transaction without records, but returns nil.
func (t *transactions) inOne(
	ctx context.Context, records []*kgo.Record, also func(identity) error,
) error {
	if len(records) == 0 {
		return errors.New("streams: the client cannot commit a transaction without records")
	}
	if err := t.client.BeginTransaction(); err != nil {
		return fmt.Errorf("streams: beginning a transaction: %w", err)
	}
	as, err := t.identity(ctx)
	if err != nil {
		return t.abort(err)
	}
	if err := t.produce(ctx, records); err != nil {
		return t.abort(err)
	}
	if err := AwaitStored(ctx, t.client, records); err != nil {
		return t.abort(err)
	}
	if err := also(as); err != nil {
		return t.abort(err)
	}
	if now, err := t.identity(ctx); err != nil || now != as {
		return t.abort(errors.Join(err,
			fmt.Errorf("streams: the producer was %v when the transaction began and is now %v: "+
				"earlier records are not part of it", as, now)))
	}
	if err := t.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("streams: committing a transaction: %w", err)
	}
	return nil
}

// AwaitStored waits until the client has stored the partitions of acknowledged records. Without
// this wait, EndTransaction could abort and return nil: the client sends the first records for a
// topic before it stores the topic's partitions, and EndTransaction sees only stored ones
// (docs/decisions/franz-go.md).
func AwaitStored(ctx context.Context, client *kgo.Client, records []*kgo.Record) error {
	for _, k := range records {
		for {
			if leader, _, _ := client.PartitionLeader(k.Topic, k.Partition); leader >= 0 {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("streams: waiting until the client has stored partition %d of %s: %w",
					k.Partition, k.Topic, context.Cause(ctx))
			case <-time.After(time.Millisecond):
			}
		}
	}
	return nil
}

func (t *transactions) produce(ctx context.Context, records []*kgo.Record) error {
	var (
		mu    sync.Mutex
		first error
	)
	for _, k := range records {
		t.client.Produce(ctx, k, func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = err
			}
		})
	}
	if err := t.client.Flush(ctx); err != nil {
		return fmt.Errorf("streams: flushing a transaction: %w", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if first != nil {
		return fmt.Errorf("streams: writing in a transaction: %w", first)
	}
	return nil
}

func (t *transactions) identity(ctx context.Context) (as identity, err error) {
	if as.id, as.epoch, err = t.client.ProducerID(ctx); err != nil {
		return as, fmt.Errorf("streams: getting the producer id: %w", err)
	}
	return as, nil
}

// abort aborts the transaction and returns why. If aborting fails as well, the task stops, and its
// next owner aborts again.
func (t *transactions) abort(why error) error {
	ctx, cancel := context.WithTimeout(context.Background(), TransactionTimeout)
	defer cancel()
	return errors.Join(why, t.client.EndTransaction(ctx, kgo.TryAbort))
}

// commitPositions adds the input positions to the transaction. The request names no group member,
// because fencing is by transactional id.
func (t *Transactor) commitPositions(ctx context.Context, as identity, positions Offsets) error {
	if len(positions) == 0 {
		return nil
	}
	if !t.implied {
		if err := t.addGroup(ctx, as); err != nil {
			return err
		}
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = t.txnID, t.group, as.id,
		as.epoch
	for topic, partitions := range positions {
		rt := kmsg.NewTxnOffsetCommitRequestTopic()
		rt.Topic = t.cluster.fullName(topic)
		for p, at := range partitions {
			rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset = p, at
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	return doWhileTransient(ctx, func() error {
		resp, err := req.RequestWith(ctx, t.client)
		if err != nil {
			return fmt.Errorf("streams: committing input positions: %w", err)
		}
		for _, rt := range resp.Topics {
			for _, rp := range rt.Partitions {
				if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
					return fmt.Errorf("streams: committing the input position of %s/%d: %w", rt.Topic,
						rp.Partition, err)
				}
			}
		}
		return nil
	})
}

// addGroup adds the group's positions to the transaction, which is only necessary if committing
// them does not imply it. It retries while the previous transaction is completing.
func (t *Transactor) addGroup(ctx context.Context, as identity) error {
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = t.txnID, as.id, as.epoch,
		t.group
	err := doWhileTransient(ctx, func() error {
		resp, err := req.RequestWith(ctx, t.client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("streams: adding input positions to a transaction: %w", err)
	}
	return nil
}

// Positions returns the committed input positions of the task's partition. It omits topics without
// a position, which the group may have expired. While a transaction of the group is open, positions
// are unstable, but the transaction's timeout bounds that.
func (t *Transactor) Positions(ctx context.Context, topics []string) (map[string]int64, error) {
	return whileTransient(ctx, func() (map[string]int64, error) {
		at := make(map[string]int64)
		committed, err := kadm.NewClient(t.client).FetchOffsets(kadm.RequireStable(ctx), t.group)
		switch {
		case errors.Is(err, kerr.GroupIDNotFound):
			return at, nil
		case err != nil:
			return nil, fmt.Errorf("streams: fetching input positions: %w", err)
		}
		for _, topic := range topics {
			o, found := committed.Lookup(t.cluster.fullName(topic), t.partition)
			if o.Err != nil {
				return nil, fmt.Errorf("streams: fetching the input position of %s/%d: %w", topic,
					t.partition, o.Err)
			}
			if found && o.At >= 0 {
				at[topic] = o.At
			}
		}
		return at, nil
	})
}

func (t *transactions) Close() { t.client.Close() }
