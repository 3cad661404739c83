package topology

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Fault is a reason not to use a cluster.
type Fault struct {
	// Name is the name of the setting, which is used to accept the fault.
	Name string `json:"name"`
	// What describes the problem and its possible consequences.
	What string `json:"what"`
	// Do describes how to fix it.
	Do string `json:"do"`
}

func (f Fault) String() string { return f.What + "; " + f.Do }

// Names of faults without a topic.
const (
	TransactionVersion = "transaction.version"
	Clock              = "clock"
	Closed             = "closed"
	Rights             = "rights"
)

// CheckOptions configure what to check, and which faults are accepted.
type CheckOptions struct {
	// Partitions is the required partition count of keyed topics. If 0, they must have the same count.
	Partitions int32
	// Replicas is the required number of replicas. The default is LeastReplicas.
	Replicas int16
	// LocalMillis and Shortened are as in Shape.
	LocalMillis int64
	Shortened   bool
	// Roles are the roles whose topics the user must be allowed to read and write.
	Roles []string
	// Accept lists the names of accepted faults.
	Accept []string
	Now    func() time.Time
}

const (
	// leastTransactionVersion is the level of KIP-890. With older levels, a producer that hangs can
	// write into another producer's transaction.
	leastTransactionVersion = 2
	// mostClockSkew is far more than NTP allows. Brokers reject records that are more than an hour in
	// the future, and receivers reject signatures that are five minutes old.
	mostClockSkew = time.Minute
)

// Names returns the names of all faults.
func Names() []string {
	names := []string{
		topicItself, partitions, TransactionVersion, Clock, Closed, Rights, RemoteStorage,
	}
	for name, rule := range rules {
		if rule.harm != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// CheckNames returns an error if a fault is unknown.
func CheckNames(accept []string) error {
	for _, name := range accept {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("unknown fault %q (known: %s)", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// Check returns the faults because of which a cluster could lose acknowledged records or the
// service could stop. It returns an error if something cannot be checked.
func Check(ctx context.Context, c kafka.Cluster, o CheckOptions) (faults []Fault, err error) {
	for _, part := range Parts(c, o) {
		found, err := part.Ask(ctx)
		if err != nil {
			return nil, err
		}
		faults = append(faults, found...)
	}
	return faults, nil
}

// Part is one part of [Check]. It may fail while others do not.
type Part struct {
	// Name is the name of its faults, except that faults of topics have the names of settings.
	Name string
	Ask  func(context.Context) ([]Fault, error)
}

// Topics is the name of the part that checks settings of topics.
const Topics = "topics"

// Parts returns the parts of [Check] in order.
func Parts(c kafka.Cluster, o CheckOptions) []Part {
	want := Shape{
		Partitions:  o.Partitions,
		Replicas:    cmp.Or(o.Replicas, LeastReplicas),
		LocalMillis: o.LocalMillis,
		Shortened:   o.Shortened,
	}
	one := func(ask func(context.Context) (*Fault, error)) func(context.Context) ([]Fault, error) {
		return func(ctx context.Context) ([]Fault, error) {
			fault, err := ask(ctx)
			if err != nil || fault == nil {
				return nil, err
			}
			return []Fault{*fault}, nil
		}
	}
	parts := []Part{
		{Topics, func(ctx context.Context) ([]Fault, error) { return checkTopics(ctx, c, want) }},
		{Topics, func(ctx context.Context) ([]Fault, error) { return checkInternal(ctx, c) }},
		{RemoteStorage, one(func(ctx context.Context) (*Fault, error) { return want.tierable(ctx, c) })},
		{TransactionVersion, one(func(ctx context.Context) (*Fault, error) {
			return checkTransactions(ctx, c)
		})},
		{Clock, one(func(ctx context.Context) (*Fault, error) { return checkClock(ctx, c, o.Now) })},
		{Closed, one(func(ctx context.Context) (*Fault, error) { return checkClosed(ctx, c) })},
		{Rights, one(func(ctx context.Context) (*Fault, error) { return checkRights(ctx, c, o.Roles) })},
	}
	for i, part := range parts {
		parts[i].Ask = func(ctx context.Context) ([]Fault, error) {
			faults, err := part.Ask(ctx)
			if err != nil {
				return nil, fmt.Errorf("topology: %w", err)
			}
			return slices.DeleteFunc(faults, func(f Fault) bool {
				return slices.Contains(o.Accept, f.Name)
			}), nil
		}
	}
	return parts
}

func checkTopics(ctx context.Context, c kafka.Cluster, s Shape) ([]Fault, error) {
	have, err := c.DescribeTopics(ctx, TopicNames()...)
	if err != nil {
		return nil, err
	}
	if s.Partitions == 0 { // the journal cannot be repartitioned
		s.Partitions = int32(have[schemas.TopicJournal].Partitions)
	}
	return faultsOf(compare(c.Prefix, RequiredTopics(s), have)), nil
}

// faultsOf returns the harmful differences. The same difference in several topics is one fault.
func faultsOf(differences []Difference) (faults []Fault) {
	type kind struct{ setting, have, want string }
	topics := make(map[kind][]string)
	var order []Difference
	for _, d := range differences {
		if d.Harm == "" {
			continue
		}
		k := kind{d.Setting, d.Have, d.Want}
		if topics[k] == nil {
			order = append(order, d)
		}
		topics[k] = append(topics[k], d.Topic)
	}
	for _, d := range order {
		of := strings.Join(topics[kind{d.Setting, d.Have, d.Want}], ", ")
		faults = append(faults, Fault{
			Name: d.Setting,
			Do:   d.advice(),
			What: fmt.Sprintf("%s of %s is %s and must be %s: %s", d.Setting, of, d.Have, d.Want, d.Harm),
		})
	}
	return faults
}

func (d Difference) advice() string {
	switch {
	case d.Setting == remoteStorage:
		return "run `lumenhook topics create --topic-tiered`"
	case d.Remedy != RemedyByHand:
		return "run `lumenhook topics create`"
	case d.Setting == partitions:
		return "set --partitions to the count that the topics have, or use another --topic-prefix"
	case isInternal(d.Topic) && d.Setting != Replication:
		return fmt.Sprintf("run `kafka-configs.sh --bootstrap-server … --alter --entity-type topics "+
			"--entity-name %s --add-config %s=%s`", d.Topic, d.Setting, d.value)
	case d.Setting == Replication:
		return "add replicas with kafka-reassign-partitions.sh"
	}
	return "add replicas with kafka-reassign-partitions.sh, then run `lumenhook topics create`"
}

func checkTransactions(ctx context.Context, c kafka.Cluster) (*Fault, error) {
	levels, err := c.Features(ctx)
	if err != nil {
		return nil, err
	}
	return transactionFault(levels[TransactionVersion]), nil
}

func transactionFault(level int16) *Fault {
	if level >= leastTransactionVersion {
		return nil
	}
	return &Fault{
		Name: TransactionVersion,
		What: fmt.Sprintf("%s of the cluster is %d and must be at least %d (KIP-890): "+
			"a transaction can be torn", TransactionVersion, level, leastTransactionVersion),
		Do: fmt.Sprintf("with Kafka 4.1 or newer, run `kafka-features.sh --bootstrap-server … "+
			"upgrade --feature %s=%d`", TransactionVersion, leastTransactionVersion),
	}
}

func checkClock(ctx context.Context, c kafka.Cluster, now func() time.Time) (*Fault, error) {
	asked := now()
	cluster, known, err := c.Clock(ctx)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, nil
	}
	return clockFault(asked, cluster, now()), nil
}

// clockFault compares the cluster's time with this host's before and after the request.
func clockFault(before, cluster, after time.Time) *Fault {
	off, which := cluster.Sub(after), "behind"
	if early := before.Sub(cluster); early > off {
		off, which = early, "ahead of"
	}
	if off <= mostClockSkew {
		return nil
	}
	return &Fault{
		Name: Clock,
		What: fmt.Sprintf("the clock of this host is %s %s the cluster's: brokers reject records that "+
			"are an hour ahead, and receivers reject signatures that are five minutes off",
			off.Round(time.Second), which),
		Do: "synchronize both with NTP",
	}
}

// Refusal returns the error for faults, or nil if there are none.
func Refusal(faults []Fault) error {
	if len(faults) == 0 {
		return nil
	}
	said := "the cluster is not safe to use"
	for _, f := range faults {
		said += "\n  " + f.String()
	}
	return fmt.Errorf("%s\n(to accept this, add --accept-loss %s)",
		said, strings.Join(namesOf(faults), ","))
}

func namesOf(faults []Fault) (names []string) {
	for _, f := range faults {
		if !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
}

// Kafka's own topics on which our writes depend. Kafka creates them on first use.
const (
	transactionState = "__transaction_state"
	groupPositions   = "__consumer_offsets"
)

// checkInternal returns what could make Kafka's own topics lose acknowledged records. A commit is
// acknowledged once transactionState has it, so losing that record loses committed records. Groups'
// positions are also in the journal.
func checkInternal(ctx context.Context, c kafka.Cluster) ([]Fault, error) {
	c.Prefix = ""
	have, err := c.DescribeTopics(ctx, transactionState, groupPositions)
	if err != nil {
		return nil, err
	}
	inSync := map[string]string{MinInSync: fmt.Sprint(LeastInSync)}
	var differences []Difference
	for name, settings := range map[string]map[string]string{
		transactionState: inSync,
		groupPositions:   nil,
	} {
		state, found := have[name]
		if !found {
			continue
		}
		want := kafka.TopicSpec{
			Name:              name,
			Partitions:        int32(state.Partitions), // #nosec G115 -- a count of partitions
			ReplicationFactor: LeastReplicas,
			Configs:           settings,
		}
		differences = append(differences,
			compare("", []kafka.TopicSpec{want}, map[string]kafka.TopicState{name: state})...)
	}
	for i := range differences {
		differences[i].Remedy = RemedyByHand // not ours to change
	}
	return faultsOf(differences), nil
}

func isInternal(topic string) bool { return strings.HasPrefix(topic, "__") }
