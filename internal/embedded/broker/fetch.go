package broker

import (
	"fmt"
	"math"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// When a response reaches its total size limit, kfake omits the list of aborted transactions from
// the partition at which that happens. So no response may reach the limit: every fetch gets the
// protocol's largest one, and the requested size is divided among the partitions, whose own limits
// kfake handles correctly.
//
// The sum below is an upper bound for one fetch: from each partition, batches up to its limit plus
// one that doesn't fit, and the response's first batch, which may have any size.
const (
	maxBatchBytes      = 4 << 20
	maxFetchBytes      = 64 << 20
	maxFetchPartitions = 400
	responseLimitBytes = math.MaxInt32
)

const _ = uint(responseLimitBytes - (maxFetchBytes + maxFetchPartitions +
	(maxFetchPartitions+1)*maxBatchBytes))

// hookRequests is the number of requests after which a hook is replaced, because every hook in
// kfake remembers all connections that it has seen.
const hookRequests = 4096

// hook calls look for every request of a kind before kfake handles it. If look returns a response,
// kfake doesn't handle the request.
func (b *Broker) hook(kind kmsg.Key, look func(kmsg.Request) kmsg.Response) {
	left := hookRequests
	b.cluster.ControlKey(kind.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if left--; left == 0 {
			b.hook(kind, look)
			b.cluster.DropControl()
		}
		answer := look(req)
		if answer != nil {
			b.cluster.KeepControl()
		}
		return answer, nil, answer != nil
	})
}

// hooks installs the hooks. They enforce the limits above, trigger compaction, and record what a
// start needs: the ends of partitions and the offsets of transactions.
func (b *Broker) hooks() {
	b.hook(kmsg.Fetch, b.boundFetch)
	b.hook(kmsg.CreateTopics, b.boundCreated)
	b.hook(kmsg.DeleteRecords, b.noteDeleted)
	b.hook(kmsg.TxnOffsetCommit, b.noteOffsets)
	b.hook(kmsg.EndTxn, refuseOldCommits)
	b.hook(kmsg.AlterReplicaLogDirs, b.answerSnapshot)
	b.hook(kmsg.AlterConfigs, boundAltered)
	b.hook(kmsg.IncrementalAlterConfigs, boundAlteredOne)
}

// boundFetch divides a fetch's size limit among its partitions. Fetch sessions are not supported,
// because a request in a session names only some of the partitions. A client that requests a
// session gets the same response as when there are too many sessions.
func (b *Broker) boundFetch(r kmsg.Request) kmsg.Response {
	b.compactIfIdle()
	req := r.(*kmsg.FetchRequest)
	if req.SessionEpoch == 0 {
		req.SessionID, req.SessionEpoch = 0, -1
	}
	named := 0
	for _, t := range req.Topics {
		named += len(t.Partitions)
	}
	if named > maxFetchPartitions {
		b.log.Logf(kfake.LogLevelWarn, "rejected a fetch of %d partitions (limit: %d)",
			named, maxFetchPartitions)
		refused := req.ResponseKind().(*kmsg.FetchResponse)
		refused.ErrorCode = kerr.InvalidRequest.Code
		return refused
	}
	share := min(req.MaxBytes, maxFetchBytes) / int32(max(named, 1))
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			p := &req.Topics[i].Partitions[j]
			p.PartitionMaxBytes = max(min(p.PartitionMaxBytes, share), 1)
		}
	}
	req.MaxBytes = responseLimitBytes
	return nil
}

// boundBatches limits the maximum batch size that a topic setting allows.
func boundBatches(name string, value *string) *string {
	if name != "max.message.bytes" && name != "message.max.bytes" || value == nil {
		return value
	}
	if n, err := strconv.Atoi(*value); err == nil && n <= maxBatchBytes {
		return value
	}
	most := strconv.Itoa(maxBatchBytes)
	return &most
}

func (b *Broker) boundCreated(r kmsg.Request) kmsg.Response {
	if err := b.forgetEnds(b.knowCreated(r)...); err != nil {
		b.giveUp(fmt.Errorf("forgetting the ends of former partitions: %w", err))
	}
	for _, t := range r.(*kmsg.CreateTopicsRequest).Topics {
		for i := range t.Configs {
			t.Configs[i].Value = boundBatches(t.Configs[i].Name, t.Configs[i].Value)
		}
	}
	return nil
}

func boundAltered(r kmsg.Request) kmsg.Response {
	for _, of := range r.(*kmsg.AlterConfigsRequest).Resources {
		for i := range of.Configs {
			of.Configs[i].Value = boundBatches(of.Configs[i].Name, of.Configs[i].Value)
		}
	}
	return nil
}

func boundAlteredOne(r kmsg.Request) kmsg.Response {
	for _, of := range r.(*kmsg.IncrementalAlterConfigsRequest).Resources {
		for i := range of.Configs {
			of.Configs[i].Value = boundBatches(of.Configs[i].Name, of.Configs[i].Value)
		}
	}
	return nil
}
