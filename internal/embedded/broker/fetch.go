package broker

import (
	"fmt"
	"math"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kfake omits the list of aborted transactions from the partition at which the size limit
// of a whole response is reached. So no response may reach it: every fetch gets the largest
// limit that the protocol has, and the requested size is divided among its partitions,
// whose own limits are handled correctly.
//
// The sum below is more than kfake can ever count for one fetch: from each partition
// batches up to its limit and one that no longer fits, and the first batch of the response,
// of any size.
const (
	maxBatchBytes      = 4 << 20
	maxFetchBytes      = 64 << 20
	maxFetchPartitions = 400
	wholeFetchBytes    = math.MaxInt32
)

const _ = uint(wholeFetchBytes - (maxFetchBytes + maxFetchPartitions +
	(maxFetchPartitions+1)*maxBatchBytes))

// hookRequests is how many requests a hook handles before it is replaced: kfake remembers
// in each hook every connection that it met.
const hookRequests = 4096

// hook calls look for every request of a kind before kfake handles it. If look returns a response,
// kfake does not handle the request.
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

// hooks makes kfake respect the limits above, compact when possible, and record the data that a
// start needs: where partitions end, and the positions of transactions.
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

// boundFetch divides the limit of a fetch among its partitions. In a session a request names only
// some of them, so sessions are not supported: a client that requests one is answered as if there
// were too many.
func (b *Broker) boundFetch(r kmsg.Request) kmsg.Response {
	b.compactWhenCalm()
	req := r.(*kmsg.FetchRequest)
	if req.SessionEpoch == 0 {
		req.SessionID, req.SessionEpoch = 0, -1
	}
	named := 0
	for _, t := range req.Topics {
		named += len(t.Partitions)
	}
	if named > maxFetchPartitions {
		b.log.Logf(kfake.LogLevelWarn, "a fetch named %d partitions; at most %d are answered at once",
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
	req.MaxBytes = wholeFetchBytes
	return nil
}

// boundBatches lowers a setting that would allow larger batches than assumed.
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
		b.giveUp(fmt.Errorf("forgetting where partitions of other topics ended: %w", err))
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
