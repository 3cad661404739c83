package kafka

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/internal/retry"
)

const warmProtocol = "lumenhook-warm"

// userDataVersion is the version of memberData and assignmentData. Readers ignore other versions.
const userDataVersion = 1

type memberData struct {
	Version  int             `json:"version"`
	Replicas int             `json:"replicas"`
	Folded   map[int32]int64 `json:"folded"`
}

type assignmentData struct {
	Version  int     `json:"version"`
	Standbys []int32 `json:"standbys,omitempty"`
	Warming  []int32 `json:"warming,omitempty"`
}

// warmBalancer translates [Balance] to the consumer group protocol.
type warmBalancer struct {
	topic string
	cfg   StandbyConfig
	// assigned is called with each assignment before the client acts on it.
	assigned func(assignmentData)
}

func (*warmBalancer) ProtocolName() string { return warmProtocol }

func (*warmBalancer) IsCooperative() bool { return true }

func (b *warmBalancer) JoinGroupMetadata(
	topics []string, owned map[string][]int32, generation int32,
) []byte {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version, meta.Topics, meta.Generation = 3, topics, generation
	if b.cfg.Rack != "" {
		meta.Rack = &b.cfg.Rack
	}
	if partitions := owned[b.topic]; len(partitions) > 0 {
		owns := kmsg.NewConsumerMemberMetadataOwnedPartition()
		owns.Topic, owns.Partitions = b.topic, partitions
		meta.OwnedPartitions = append(meta.OwnedPartitions, owns)
	}
	meta.UserData = encodeUserData(memberData{
		Version:  userDataVersion,
		Replicas: b.cfg.Replicas,
		Folded:   b.cfg.Folded(),
	})
	return meta.AppendTo(nil)
}

func encodeUserData(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot fail: the data is numbers and lists of numbers
	}
	return text
}

func (b *warmBalancer) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(assignment); err != nil {
		return nil, fmt.Errorf("streams: reading the assignment of a group: %w", err)
	}
	by := make(map[string][]int32, len(a.Topics))
	for _, t := range a.Topics {
		by[t.Topic] = t.Partitions
	}
	var data assignmentData
	if json.Unmarshal(a.UserData, &data) != nil || data.Version != userDataVersion {
		data = assignmentData{}
	}
	b.assigned(data)
	return by, nil
}

func (b *warmBalancer) MemberBalancer(
	members []kmsg.JoinGroupResponseMember,
) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	balancer, err := kgo.NewConsumerBalancer(b, members)
	if err != nil {
		return nil, nil, fmt.Errorf("streams: reading the metadata of a group's members: %w", err)
	}
	return balancer, balancer.MemberTopics(), nil
}

// Balance implements kgo.ConsumerBalancerBalance.
func (b *warmBalancer) Balance(
	joined *kgo.ConsumerBalancer, topics map[string]int32,
) kgo.IntoSyncAssignment {
	cfg := BalanceConfig{Partitions: topics[b.topic], AcceptableLag: b.cfg.acceptableLag()}
	var members []GroupMember
	plan := &warmPlan{topic: b.topic}
	joined.EachMember(func(m *kmsg.JoinGroupResponseMember, meta *kmsg.ConsumerMemberMetadata) {
		member, replicas := b.readMember(m, meta)
		cfg.Replicas = max(cfg.Replicas, replicas)
		members = append(members, member)
		plan.ids = append(plan.ids, m.MemberID)
		plan.names = append(plan.names, member.ID)
	})
	if cfg.Partitions == 0 {
		joined.SetError(errors.New("streams: the partitions of the group's topic are not known yet"))
		return plan
	}
	plan.by = Balance(members, cfg)
	return plan
}

func (b *warmBalancer) readMember(
	m *kmsg.JoinGroupResponseMember, meta *kmsg.ConsumerMemberMetadata,
) (member GroupMember, replicas int) {
	member = GroupMember{ID: "member " + m.MemberID, Generation: meta.Generation}
	if m.InstanceID != nil {
		member.ID = "instance " + *m.InstanceID // survives a restart of the member
	}
	if meta.Rack != nil {
		member.Rack = *meta.Rack
	}
	for _, owned := range meta.OwnedPartitions {
		if owned.Topic == b.topic {
			member.Owns = owned.Partitions
		}
	}
	var data memberData
	if json.Unmarshal(meta.UserData, &data) == nil && data.Version == userDataVersion {
		member.Folded, replicas = data.Folded, data.Replicas
	}
	return member, replicas
}

type warmPlan struct {
	topic string
	ids   []string
	names []string
	by    map[string]Assignment
}

func (p *warmPlan) IntoSyncAssignment() (all []kmsg.SyncGroupRequestGroupAssignment) {
	for i, id := range p.ids {
		a := p.by[p.names[i]]
		assignment := kmsg.NewConsumerMemberAssignment()
		if len(a.Owns) > 0 {
			topic := kmsg.NewConsumerMemberAssignmentTopic()
			topic.Topic, topic.Partitions = p.topic, a.Owns
			assignment.Topics = append(assignment.Topics, topic)
		}
		assignment.UserData = encodeUserData(assignmentData{
			Version:  userDataVersion,
			Standbys: a.Standbys,
			Warming:  a.Warming,
		})
		sync := kmsg.NewSyncGroupRequestGroupAssignment()
		sync.MemberID, sync.MemberAssignment = id, assignment.AppendTo(nil)
		all = append(all, sync)
	}
	return all
}

// StandbyConfig makes the members of a group stand by for each other's partitions.
type StandbyConfig struct {
	// Replicas is the number of standbys per partition. The largest value of all members applies.
	Replicas int
	Rack     string // may be empty
	// AcceptableLag is BalanceConfig.AcceptableLag. The default is 10,000, a fraction of a second.
	AcceptableLag int64
	// Folded returns the journal offset that each copy in this process has reached.
	Folded func() map[int32]int64
	// StandBy is called at each assignment, with all partitions to stand by for. It must not block.
	StandBy func(partitions []int32)
	// Lag returns how many offsets the copy of a partition is behind its journal, once known.
	Lag func(partition int32) (offsets int64, known bool)
}

const defaultAcceptableLag = 10_000

func (c StandbyConfig) acceptableLag() int64 {
	if c.AcceptableLag == 0 {
		return defaultAcceptableLag
	}
	return c.AcceptableLag
}

// warmed returns the warm copies in waiting. It requires half the acceptable lag, so that they are
// still warm when all members have joined.
func (c StandbyConfig) warmed(waiting []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(waiting), func(p int32) bool {
		lag, known := c.Lag(p)
		return !known || lag > c.acceptableLag()/2
	})
}

const (
	// rejoinInterval is the shortest interval between rebalances that a warm member asks for, because
	// all members rejoin each time.
	rejoinInterval = 5 * time.Second
	// rejoinIntervalMax is the longest interval between requests that have no effect.
	rejoinIntervalMax = 10 * time.Minute
)

// rejoinBackoff decides when a member asks for a rebalance because its copies are warm. It backs
// off while the same copies stay warm, because then the group does not consider them warm: for
// example, another member claims to be ahead of the journal. It must be used by one goroutine.
type rejoinBackoff struct {
	waits  *retry.Backoff
	copies []int32 // at the latest request
	at     int64   // steady clock
	wait   int64
	asked  bool
}

func newRejoinBackoff() *rejoinBackoff {
	waits := retry.Policy{First: 2 * rejoinInterval, Last: rejoinIntervalMax}
	return &rejoinBackoff{waits: waits.Backoff()}
}

func (a *rejoinBackoff) due(warm []int32, steadyMillis int64) bool {
	if len(warm) == 0 {
		return false
	}
	wait := a.wait
	more := func(p int32) bool { return !slices.Contains(a.copies, p) }
	news := slices.ContainsFunc(warm, more)
	if news {
		wait = min(wait, rejoinInterval.Milliseconds())
	}
	if a.asked && steadyMillis-a.at < wait {
		return false
	}
	if news {
		a.waits.Reset()
	}
	a.copies, a.at, a.asked = slices.Clone(warm), steadyMillis, true
	a.wait = a.waits.Next().Milliseconds()
	return true
}
