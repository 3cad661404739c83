package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// kafka asks each broker for its version.
func (cfg *Config) kafka(ctx context.Context, f *findings) {
	if err := cfg.Cluster.Listening(ctx); err != nil {
		f.failed(err, "start the brokers, or correct --kafka-brokers and the login")
		return
	}
	login := "without a login"
	if cfg.Cluster.SASL.Mechanism != "" {
		login = "by " + cfg.Cluster.SASL.Mechanism
	}
	if cfg.Cluster.TLS.Enabled {
		login += ", with TLS"
	}
	err := cfg.Cluster.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		about, err := admin.ApiVersions(ctx)
		if err != nil {
			return err
		}
		for _, broker := range about.Sorted() {
			cfg.broker(broker, login, f)
		}
		return nil
	})
	if err != nil {
		f.unknown(err, seeBrokers)
	}
}

const seeBrokers = "see the log of the brokers"

const (
	// leastRelease is the first without known defects of KIP-890's transactions
	// (docs/decisions/real-kafka.md).
	leastRelease = "4.1"
	// leastEndTxn is the version of the request that ends a transaction by KIP-890: Kafka 4.0 and
	// later answer it.
	leastEndTxn = 5
)

// broker records one broker's version. A broker does not report its release, so it is guessed from
// its supported requests.
func (cfg *Config) broker(b kadm.BrokerApiVersions, login string, f *findings) {
	if b.Err != nil {
		f.add(Problem, "start it, or see its log", "broker %d does not answer: %s", b.NodeID,
			f.explain(b.Err))
		return
	}
	if cfg.Embedded {
		f.ok("the broker of lumenhook run answers, %s", login)
		return
	}
	version := b.VersionGuess()
	endTxn, _ := b.KeyMaxVersion(int16(kmsg.EndTxn))
	if endTxn < leastEndTxn || strings.HasSuffix(version, "v4.0") {
		f.add(Warning, "upgrade it to Kafka "+leastRelease+" or newer",
			"broker %d answers as Kafka %s, whose transactions have known defects", b.NodeID, version)
		return
	}
	f.ok("broker %d answers as Kafka %s, %s", b.NodeID, version, login)
}

// reached notes that nothing can be asked while no broker answers: why, the check of kafka says.
func (cfg *Config) reached(ctx context.Context, f *findings) bool {
	err := cfg.Cluster.Listening(ctx)
	if err != nil {
		f.unknown(errors.New("no broker answers"), "see what the check of kafka found")
	}
	return err == nil
}

// parts asks some questions of a cluster's fitness.
func (cfg *Config) parts(ctx context.Context, f *findings, names ...string) (well bool) {
	well = true
	for _, part := range topology.Parts(cfg.Cluster, cfg.Topology) {
		if !slices.Contains(names, part.Name) {
			continue
		}
		faults, err := part.Ask(ctx)
		if err != nil {
			f.unknown(fmt.Errorf("%s: %w", part.Name, err), "let an administrator grant what `lumenhook "+
				"topics acls` prints, or "+seeBrokers)
			well = false
		}
		for _, fault := range faults {
			f.add(Problem, fault.Do, "%s", fault.What)
			well = false
		}
	}
	return well
}

// topics checks the topics against the requirements, and whether their replicas are in sync.
func (cfg *Config) topics(ctx context.Context, f *findings) {
	if !cfg.reached(ctx, f) {
		return
	}
	well := cfg.parts(ctx, f, topology.Topics, topology.RemoteStorage, topology.Closed)
	err := cfg.Cluster.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		var names []string
		for _, t := range schemas.Topics() {
			names = append(names, cfg.Cluster.Prefix+t.Name)
		}
		details, err := admin.ListTopics(ctx, names...)
		if err != nil {
			return err
		}
		if inStep := cfg.copies(details, f); inStep && well {
			f.ok("%d topics with the prefix %s are as they must be, %d partitions each where they are "+
				"keyed, all copies in step", len(details.Names()), cfg.Cluster.Prefix,
				len(details[cfg.Cluster.Prefix+schemas.TopicJournal].Partitions))
		}
		return nil
	})
	if err != nil {
		f.unknown(err, seeBrokers)
	}
}

// copies notes which partitions have no leader, or copies that are not in step.
func (cfg *Config) copies(topics kadm.TopicDetails, f *findings) (inStep bool) {
	var leaderless, behind, unsafe []string
	for _, topic := range topics.Sorted() {
		for _, p := range topic.Partitions.Sorted() {
			name := fmt.Sprintf("%s/%d", topic.Topic, p.Partition)
			switch {
			case p.Leader < 0:
				leaderless = append(leaderless, name)
			case len(p.ISR) < topology.LeastInSync && len(p.Replicas) >= topology.LeastInSync:
				unsafe = append(unsafe, name)
			case len(p.ISR) < len(p.Replicas):
				behind = append(behind, name)
			}
		}
	}
	for _, fault := range []struct {
		of     []string
		status Status
		what   string
	}{
		{leaderless, Problem, "have no leader: nothing can be written to them"},
		{unsafe, Problem, "have too few copies in step to acknowledge: nothing can be written to them"},
		{behind, Warning, "have copies that are not in step: one more broker that fails may stop writes"},
	} {
		if n := len(fault.of); n > 0 {
			f.add(fault.status, "start the brokers that are down, and wait until their copies are in step",
				"%d partitions %s, such as %s", n, fault.what, fault.of[0])
		}
	}
	return len(leaderless)+len(behind)+len(unsafe) == 0
}

// transactions asks for the kind of transactions that the cluster has.
func (cfg *Config) transactions(ctx context.Context, f *findings) {
	if !cfg.reached(ctx, f) {
		return
	}
	if cfg.parts(ctx, f, topology.TransactionVersion) {
		levels, err := cfg.Cluster.Features(ctx)
		if err != nil {
			f.unknown(err, seeBrokers)
			return
		}
		f.ok("%s is %d (KIP-890)", topology.TransactionVersion, levels[topology.TransactionVersion])
	}
}

// rights checks the user's rights in Kafka.
func (cfg *Config) rights(ctx context.Context, f *findings) {
	if !cfg.reached(ctx, f) {
		return
	}
	if !cfg.parts(ctx, f, topology.Rights) {
		return
	}
	who := cmp.Or(cfg.Cluster.SASL.User, "whoever connects")
	if len(cfg.Topology.Roles) == 0 {
		f.unknown(errors.New("no role is named, so it is not known what the user must be allowed"),
			"name the roles with --roles")
		return
	}
	f.ok("%s may read and write the topics of %s", who, strings.Join(cfg.Topology.Roles, ", "))
}
