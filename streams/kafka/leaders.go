package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type leader struct{ broker, epoch int32 }

const answerTimeout = 5 * time.Second

// leadersOf queries all brokers and returns, for each partition, the leader with the highest epoch
// in all responses but the slowest. An acknowledged record is on at least min.insync.replicas
// replicas, which all knew the epoch of the write. If that is at least 2, as for our topics in a
// cluster, leaving one broker out cannot miss the epoch. So a hung broker delays no request, and a
// broker that has recovered cannot mislead one.
func (e *Ends) leadersOf(ctx context.Context, topic string) (map[int32]leader, error) {
	brokers, err := e.brokers(ctx)
	if err != nil {
		return nil, err
	}
	answers := make(chan answer[*kmsg.MetadataResponse], len(brokers))
	for id := range brokers {
		// Not cancelled after enough responses: that would close the connection.
		go func() {
			answers <- requestBroker[*kmsg.MetadataResponse](ctx, e.client, id,
				e.cluster.metadataRequest([]string{topic}))
		}()
	}
	v := view{leaders: make(map[int32]leader), brokers: make(map[int32]bool)}
	quorum := max(1, len(brokers)-1)
	for range brokers {
		v.take(e.cluster.fullName(topic), <-answers)
		if v.answers == quorum {
			break
		}
	}
	if len(v.brokers) > 0 {
		e.known.Store(&v.brokers)
	}
	return v.verdict(quorum, brokers)
}

func (e *Ends) brokers(ctx context.Context) (map[int32]bool, error) {
	if known := e.known.Load(); known != nil {
		return *known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := req.RequestWith(ctx, e.client)
	if err != nil { // the next call picks another broker
		return nil, fmt.Errorf("asking for the brokers: %w", unlessFinal(err))
	}
	if len(resp.Brokers) == 0 {
		return nil, fmt.Errorf("%w: the cluster reports no brokers", errRetry)
	}
	ids := make(map[int32]bool)
	for _, b := range resp.Brokers {
		ids[b.NodeID] = true
	}
	return ids, nil
}

type view struct {
	leaders map[int32]leader
	brokers map[int32]bool
	answers int
	topic   error
	failed  error
}

func (v *view) take(name string, a answer[*kmsg.MetadataResponse]) {
	if a.err != nil {
		v.failed = errors.Join(v.failed, a.err)
		return
	}
	v.answers++
	for _, b := range a.resp.Brokers {
		v.brokers[b.NodeID] = true
	}
	for _, t := range a.resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			v.topic = fmt.Errorf("describing topic %s (`lumenhook topics create` creates it): %w",
				name, err)
		}
		for _, p := range t.Partitions {
			if l, known := v.leaders[p.Partition]; !known || l.epoch < p.LeaderEpoch {
				v.leaders[p.Partition] = leader{p.Leader, p.LeaderEpoch}
			}
		}
	}
}

func (v *view) verdict(quorum int, asked map[int32]bool) (map[int32]leader, error) {
	if v.answers < quorum {
		return nil, fmt.Errorf("%d of %d brokers answered, but %d must: %w",
			v.answers, len(asked), quorum, v.failed)
	}
	for id := range v.brokers {
		if !asked[id] {
			return nil, fmt.Errorf("%w: broker %d is new", errRetry, id)
		}
	}
	if v.topic != nil {
		return nil, v.topic
	}
	if len(v.leaders) == 0 {
		return nil, errors.New("the topic has no partitions: run `lumenhook topics create` first")
	}
	for p, l := range v.leaders {
		if l.broker < 0 {
			return nil, fmt.Errorf("partition %d: %w", p, kerr.LeaderNotAvailable)
		}
	}
	return v.leaders, nil
}

type answer[R kmsg.Response] struct {
	resp R
	err  error
}

func requestBroker[R kmsg.Response](
	ctx context.Context, client *kgo.Client, broker int32, req kmsg.Request,
) (a answer[R]) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	resp, err := client.Broker(int(broker)).Request(ctx, req)
	if err != nil {
		a.err = fmt.Errorf("querying broker %d: %w", broker, unlessFinal(err))
		return a
	}
	a.resp = resp.(R)
	return a
}

// unlessFinal makes an error retriable unless it came from a broker, or the client is closed.
func unlessFinal(err error) error {
	if _, refused := errors.AsType[*kerr.Error](err); refused || errors.Is(err, kgo.ErrClientClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", errRetry, err)
}
