package topology

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Difference is one requirement that a topic does not meet.
type Difference struct {
	Topic   string `json:"topic"` // with the prefix
	Setting string `json:"setting"`
	Have    string `json:"have"`
	Want    string `json:"want"`
	Remedy  Remedy `json:"remedy"`
	// Harm describes what can happen if it is not fixed. Empty means nothing important.
	Harm string `json:"harm,omitempty"`

	name, value string // the topic without the prefix, and the value to set
}

// Remedy is how a difference can be fixed.
type Remedy string

// Remedies. Create performs the first two.
const (
	RemedyCreate Remedy = "create"
	RemedyAlter  Remedy = "alter"
	RemedyByHand Remedy = "by hand"
)

type suits int

const (
	exactly suits = iota
	atLeast       // -1 is unlimited
	atMost
)

var rules = map[string]struct {
	suits suits
	harm  string
}{
	Replication:      {atLeast, "losing that many brokers loses acknowledged records"},
	MinInSync:        {atLeast, "a record is acknowledged before a second broker has it"},
	uncleanElections: {exactly, "a broker that lags may lead, and what it lacks is lost"},
	cleanupPolicy: {
		exactly, "records are deleted while they are still needed, or a table grows without bound",
	},
	retentionMillis: {atLeast, "records are deleted while they are still needed"},
	retentionBytes:  {exactly, "records are deleted while they are still needed"},
	deleteRetention: {atLeast, "a reader that was offline may miss that a row was deleted"},
	maxMessageBytes: {atLeast, "a large record is rejected, and its task cannot continue"},
	timestampType:   {exactly, "records have the time of their arrival"},
	remoteStorage:   {exactly, "all of it stays on the brokers' own disks"},
	localRetention:  {exactly, ""}, // only disk usage on the brokers
	segmentMillis:   {atMost, ""},  // the topic only takes more space
	segmentBytes:    {atMost, ""},
}

// Plan compares the topics of a cluster with the required ones, and returns all differences in
// topic order. Without a partition count it uses the journal's.
func Plan(ctx context.Context, c kafka.Cluster, want Shape) ([]Difference, error) {
	want, err := want.withCount(ctx, c)
	if err == nil {
		err = want.refuseUntierable(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	specs := RequiredTopics(want)
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
	}
	have, err := c.DescribeTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	return compare(c.Prefix, specs, have), nil
}

func compare(
	prefix string, want []kafka.TopicSpec, have map[string]kafka.TopicState,
) (all []Difference) {
	for _, spec := range want {
		state, found := have[spec.Name]
		for _, d := range compareTopic(spec, state, found) {
			d.name, d.Topic = spec.Name, prefix+spec.Name
			all = append(all, d)
		}
	}
	return all
}

func compareTopic(want kafka.TopicSpec, have kafka.TopicState, found bool) (all []Difference) {
	if !found {
		shape := fmt.Sprintf("%d × %d", want.Partitions, want.ReplicationFactor)
		if want.Partitions == 0 { // no partition count was given, and no topic has one
			shape = fmt.Sprintf("present with %d replicas", want.ReplicationFactor)
		}
		return []Difference{{
			Setting: topicItself,
			Have:    "missing",
			Want:    shape,
			Remedy:  RemedyCreate,
			Harm:    "nothing can be written to it",
		}}
	}
	if have.Partitions != int(want.Partitions) {
		all = append(all, Difference{
			Setting: partitions,
			Have:    strconv.Itoa(have.Partitions),
			Want:    strconv.Itoa(int(want.Partitions)),
			Remedy:  RemedyByHand,
			Harm:    "records were partitioned by this count, so it cannot change",
		})
	}
	replicas := strconv.Itoa(int(want.ReplicationFactor))
	if d, differs := compareValue(Replication, strconv.Itoa(have.Replicas), replicas); differs {
		d.Remedy = RemedyByHand
		all = append(all, d)
	}
	for _, name := range slices.Sorted(maps.Keys(want.Configs)) {
		d, differs := compareValue(name, have.Configs[name], want.Configs[name])
		if !differs {
			continue
		}
		if d.Remedy = RemedyAlter; name == MinInSync && have.Replicas < LeastInSync {
			d.Remedy = RemedyByHand // add replicas first, or all writes fail
		}
		all = append(all, d)
	}
	return all
}

func compareValue(name, have, want string) (d Difference, differs bool) {
	rule := rules[name]
	d = Difference{Setting: name, Have: have, Want: want, Harm: rule.harm, value: want}
	switch rule.suits {
	case atLeast:
		differs = below(have, want)
		d.Want = "at least " + want
		if want == "-1" {
			d.Want = want
		}
	case atMost:
		differs = below(want, have)
		d.Want = "at most " + want
	default:
		differs = have != want
	}
	return d, differs
}

// below reports whether a number is less than another. A value that is not a number is less than
// all, and -1 (unlimited) is greater than all.
func below(a, b string) bool {
	x, err := strconv.ParseInt(a, 10, 64)
	if err != nil {
		return true
	}
	y, err := strconv.ParseInt(b, 10, 64)
	switch {
	case err != nil, x < 0:
		return false
	case y < 0:
		return true
	}
	return x < y
}
