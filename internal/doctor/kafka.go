package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

func (cfg *Config) kafka(ctx context.Context, f *findings) {
	if err := cfg.Cluster.Listening(ctx); err != nil {
		f.failed(err, "start the brokers, or correct --kafka-brokers and the login")
		return
	}
	login := "without a login"
	if cfg.Cluster.SASL.Mechanism != "" {
		login = "with " + cfg.Cluster.SASL.Mechanism
	}
	if cfg.Cluster.TLS.Enabled {
		login += " and TLS"
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
	cfg.configuredBrokers(ctx, f)
}

// configuredBrokers warns about addresses that don't respond. Kafka doesn't list a dead broker.
func (cfg *Config) configuredBrokers(ctx context.Context, f *findings) {
	errs := make([]error, len(cfg.Cluster.Brokers))
	var all sync.WaitGroup
	for i, address := range cfg.Cluster.Brokers {
		one := cfg.Cluster
		one.Brokers = []string{address}
		all.Go(func() { errs[i] = one.Listening(ctx) })
	}
	all.Wait()
	for i, err := range errs {
		if failed, is := errors.AsType[*kafka.UnreachableError](err); is {
			f.add(Warning, "start the broker, or correct --kafka-brokers", "%s does not respond: %s",
				cfg.Cluster.Brokers[i], f.explain(failed.Causes[0]))
		}
	}
}

const seeBrokers = "check the brokers' logs"

const (
	// leastRelease is the first release without known defects in the transactions of KIP-890
	// (docs/decisions/real-kafka.md).
	leastRelease = "4.1"
	// leastEndTxn is the version of the request that ends a KIP-890 transaction. Kafka supports it
	// since 4.0.
	leastEndTxn = 5
)

// broker reports a broker's version. Brokers don't report their release, so it is inferred from the
// requests that they support.
func (cfg *Config) broker(b kadm.BrokerApiVersions, login string, f *findings) {
	if b.Err != nil {
		f.add(Problem, "start it, or check its log", "broker %d does not respond: %s", b.NodeID,
			f.explain(b.Err))
		return
	}
	if cfg.Embedded {
		f.ok("the broker of lumenhook run responds, %s", login)
		return
	}
	version := b.VersionGuess()
	endTxn, _ := b.KeyMaxVersion(int16(kmsg.EndTxn))
	if endTxn < leastEndTxn || strings.HasSuffix(version, "v4.0") {
		f.add(Warning, "upgrade it to Kafka "+leastRelease+" or newer",
			"broker %d runs Kafka %s, whose transactions have known defects", b.NodeID, version)
		return
	}
	f.ok("broker %d responds: Kafka %s, %s", b.NodeID, version, login)
}

// reached reports whether a broker responds. If not, it adds an unknown finding and leaves the
// reason to the check of Kafka.
func (cfg *Config) reached(ctx context.Context, f *findings) bool {
	err := cfg.Cluster.Listening(ctx)
	if err != nil {
		f.unknown(errors.New("no broker answers"), "see the result of the kafka check")
	}
	return err == nil
}

func (cfg *Config) parts(ctx context.Context, f *findings, names ...string) (well bool) {
	well = true
	for _, part := range topology.Parts(cfg.Cluster, cfg.Topology) {
		if !slices.Contains(names, part.Name) {
			continue
		}
		faults, err := part.Ask(ctx)
		if err != nil {
			f.unknown(fmt.Errorf("%s: %w", part.Name, err), "have an administrator grant the ACLs that "+
				"`lumenhook topics acls` prints, or "+seeBrokers)
			well = false
		}
		for _, fault := range faults {
			f.add(Problem, fault.Do, "%s", fault.What)
			well = false
		}
	}
	return well
}

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
			f.ok("%d topics with the prefix %s match the required settings: %d partitions per keyed "+
				"topic, all copies in step", len(details.Names()), cfg.Cluster.Prefix,
				len(details[cfg.Cluster.Prefix+schemas.TopicJournal].Partitions))
		}
		return nil
	})
	if err != nil {
		f.unknown(err, seeBrokers)
	}
}

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
		{leaderless, Problem, "have no leader, so they cannot be written to"},
		{unsafe, Problem, "have too few copies in step, so they cannot be written to"},
		{behind, Warning, "have copies that are not in step, so another broker failure may stop writes"},
	} {
		if n := len(fault.of); n > 0 {
			f.add(fault.status, "start the brokers that are down, and wait until their copies are in step",
				"%d partitions %s, such as %s", n, fault.what, fault.of[0])
		}
	}
	return len(leaderless)+len(behind)+len(unsafe) == 0
}

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

func (cfg *Config) rights(ctx context.Context, f *findings) {
	if !cfg.reached(ctx, f) {
		return
	}
	if !cfg.parts(ctx, f, topology.Rights) {
		return
	}
	who := cmp.Or(cfg.Cluster.SASL.User, "any client")
	if len(cfg.Topology.Roles) == 0 {
		f.unknown(errors.New("no role is given, so the permissions that the user needs are unknown"),
			"set --roles")
		return
	}
	f.ok("%s may read and write the topics of %s", who, strings.Join(cfg.Topology.Roles, ", "))
}
