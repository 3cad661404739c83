//go:build kafka

package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/kafkatest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

const (
	doctorsPrefix = "shop."
	doctorsUser   = "lumenhook-projector"
)

// doctorsCluster is three real brokers that require a login, and the rights of the projector role.
type doctorsCluster struct {
	t       *testing.T
	cluster *kafkatest.Cluster
	admin   kafka.Cluster
	rights  []kafka.ACL
}

// TestDoctorOfARealCluster checks that doctor finds no problem with a good cluster. Otherwise it
// must name the topic, the setting, the right, or the login that is wrong, and the remedy.
func TestDoctorOfARealCluster(t *testing.T) {
	c := startDoctorsCluster(t)
	c.says(kafkatest.Admin, "a new cluster", "topics         PROBLEM  topic of shop.commands, ",
		" is missing and must be present with 3 replicas", "→ run `lumenhook topics create`")
	c.create()
	c.isWell()
	c.topicsAreWrong()
	c.rightsAreMissing()
	c.loginsAreWrong()
	c.isWell()
}

func startDoctorsCluster(t *testing.T) *doctorsCluster {
	t.Helper()
	cluster, err := kafkatest.Start(t.Context(), kafkatest.Config{
		Dir: t.TempDir(), Brokers: 3, Secure: true, Users: []string{doctorsUser, "stranger"},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &doctorsCluster{t: t, cluster: cluster, admin: kafka.Cluster{
		Brokers:  cluster.Addrs(),
		Prefix:   doctorsPrefix,
		ClientID: "test",
		Logger:   slog.New(slog.DiscardHandler),
		TLS:      kafka.TLS{Enabled: true, CAFile: cluster.CAFile()},
		SASL: kafka.SASL{
			Mechanism: kafka.SASLPlain, User: kafkatest.Admin,
			Password: kafkatest.Password(kafkatest.Admin),
		},
	}}
	t.Cleanup(func() { c.must(cluster.Close()) })
	return c
}

func (c *doctorsCluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *doctorsCluster) create() {
	c.t.Helper()
	c.createTopics(topology.LeastReplicas)
	var err error
	c.rights, err = topology.Access(c.admin, strings.TrimSuffix(doctorsUser, "projector"), "projector")
	c.must(err)
	c.must(topology.Grant(c.t.Context(), c.admin, c.rights))
}

func (c *doctorsCluster) isWell() {
	c.t.Helper()
	out := c.says(doctorsUser, "a fit cluster", "broker 1 responds: Kafka ",
		"match the required settings: 1 partitions per keyed topic, all copies in step",
		topology.TransactionVersion+" is 2 (KIP-890)",
		doctorsUser+" may read and write the topics of projector")
	if strings.Contains(out, "PROBLEM") || strings.Contains(out, "unknown") {
		c.t.Errorf("a fit cluster is found\n%s", out)
	}
}

func (c *doctorsCluster) topicsAreWrong() {
	c.t.Helper()
	c.must(c.admin.AlterTopic(c.t.Context(), schemas.TopicJournal,
		map[string]string{topology.MinInSync: "1", "unclean.leader.election.enable": "true"}))
	c.says(doctorsUser, "two settings",
		"min.insync.replicas of shop.journal is 1 and must be at least 2: ",
		"unclean.leader.election.enable of shop.journal is true and must be false: ")
	c.createTopics(topology.LeastReplicas)
	c.must(c.admin.DeleteTopic(c.t.Context(), schemas.TopicMatches))
	c.says(doctorsUser, "a topic less",
		"topics         PROBLEM  topic of shop.matches is missing and must be 1 × 3: ")
	c.createTopics(1)
	c.says(doctorsUser, "a topic of one copy",
		"topics         PROBLEM  replication of shop.matches is 1 and must be at least 3: ",
		"→ add replicas with kafka-reassign-partitions.sh")
	c.must(c.admin.DeleteTopic(c.t.Context(), schemas.TopicMatches))
	c.createTopics(topology.LeastReplicas)
}

// createTopics creates missing topics and corrects the settings of the others.
func (c *doctorsCluster) createTopics(replicas int16) {
	c.t.Helper()
	shape := topology.Shape{Partitions: 1, Replicas: replicas}
	_, err := topology.Create(c.t.Context(), c.admin, shape)
	c.must(err)
	c.must(c.cluster.AwaitInSync(c.t.Context()))
}

func (c *doctorsCluster) rightsAreMissing() {
	c.t.Helper()
	at := slices.IndexFunc(c.rights, func(a kafka.ACL) bool {
		return a.Resource == kafka.ResourceTopic && a.Operation == kafka.OpRead
	})
	one := c.rights[at]
	one.Names = one.Names[:1]
	c.must(c.admin.DeleteACLs(c.t.Context(), []kafka.ACL{one}))
	c.says(doctorsUser, "a right less",
		"rights         PROBLEM  the user of this process may not read topic "+one.Names[0])
	c.must(topology.Grant(c.t.Context(), c.admin, c.rights))
	c.says("stranger", "no right",
		"have an administrator grant the ACLs that `lumenhook topics acls` prints")
}

func (c *doctorsCluster) loginsAreWrong() {
	c.t.Helper()
	password := kafkatest.Password(doctorsUser)
	for name, login := range map[string]struct {
		flags []string
		says  string
	}{
		"a wrong password": {[]string{"--kafka-password", "wrong"}, "the brokers rejected the login"},
		"a mechanism of which the brokers have no password": {
			[]string{"--kafka-password", password, "--kafka-sasl", kafka.SASLScramSHA512},
			"the brokers rejected the login",
		},
		"no TLS": {
			[]string{"--kafka-password", password, "--kafka-ca-file", ""},
			"the broker requires TLS: set --kafka-ca-file",
		},
	} {
		out := c.examined(doctorsUser, login.flags...)
		for _, want := range []string{login.says, "topics         unknown  no broker answers"} {
			if !strings.Contains(out, want) || strings.Contains(out, password) {
				c.t.Errorf("%s: it does not say %q:\n%s", name, want, out)
			}
		}
	}
}

// says runs doctor as a user until the output contains each text: brokers apply a change a moment
// after they acknowledge it.
func (c *doctorsCluster) says(user, of string, wants ...string) (out string) {
	c.t.Helper()
	testkit.EventuallyNil(c.t, "the doctor says what is to be said of "+of, func() error {
		out = c.examined(user, "--kafka-password", kafkatest.Password(user))
		for _, want := range wants {
			if !strings.Contains(out, want) {
				return fmt.Errorf("it does not say %q:\n%s", want, out)
			}
		}
		return nil
	})
	return out
}

func (c *doctorsCluster) examined(user string, flags ...string) (out string) {
	c.t.Helper()
	code, out, said := examined(c.t, append([]string{
		"--only", "kafka,topics,transactions,rights", "--roles", "projector", "--data-dir", c.t.TempDir(),
		"--clickhouse-dsn", "clickhouse://127.0.0.1:9/lumenhook", "--topic-prefix", doctorsPrefix,
		"--kafka-brokers", strings.Join(c.cluster.Addrs(), ","), "--kafka-ca-file", c.cluster.CAFile(),
		"--kafka-sasl", kafka.SASLPlain, "--kafka-user", user,
	}, flags...)...)
	if code == cli.ExitUsage {
		c.t.Fatal(said)
	}
	return out
}
