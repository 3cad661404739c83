package brokertest

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cut makes a broker report, while it is set, that no earlier leader wrote a record that
// still exists, as after an unclean election that truncated a topic to nothing.
type Cut struct{ atomic.Bool }

// NewCut returns the switch of a broker.
func NewCut(fake *kfake.Cluster) *Cut {
	c := new(Cut)
	answer := func(request kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		return endedAtOnce(request.(*kmsg.OffsetForLeaderEpochRequest)), nil, c.Load()
	}
	fake.ControlKey(int16(kmsg.OffsetForLeaderEpoch), answer)
	return c
}

func endedAtOnce(req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, topic := range req.Topics {
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = topic.Topic
		for _, p := range topic.Partitions {
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition, rp.LeaderEpoch, rp.EndOffset = p.Partition, p.LeaderEpoch, 0
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
