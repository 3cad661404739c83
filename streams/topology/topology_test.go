package topology_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

func TestCreateMakesWhatPlanMisses(t *testing.T) {
	t.Parallel()
	c, shape := newCluster(t)
	missing := mustPlan(t, c, shape)
	if len(missing) != len(schemas.Topics()) {
		t.Errorf("of an empty cluster, %d topics differ: %v", len(missing), missing)
	}
	for _, d := range missing {
		if d.Remedy != topology.RemedyCreate {
			t.Errorf("%+v is not to be created", d)
		}
	}
	if created := mustCreate(t, c, shape); len(created.Done) != len(missing) || len(created.Left) > 0 {
		t.Errorf("%+v", created)
	}
	if left := mustPlan(t, c, shape); len(left) > 0 {
		t.Errorf("what was just created differs: %+v", left)
	}
	if again := mustCreate(t, c, shape); len(again.Done) > 0 || len(again.Left) > 0 {
		t.Errorf("there was something to do again: %+v", again)
	}
}

func TestTwoCreateAtOnce(t *testing.T) {
	t.Parallel()
	c, shape := newCluster(t)
	ended := make(chan error)
	for range 2 {
		go func() {
			_, err := topology.Create(t.Context(), c, shape)
			ended <- err
		}()
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if left := mustPlan(t, c, shape); len(left) > 0 {
		t.Errorf("%+v", left)
	}
}

// wrong lists a wrong value for each setting, and the topic that gets it.
var wrong = []struct {
	topic, setting, value string
	harmless              bool
}{
	{schemas.TopicJournal, "cleanup.policy", "compact", false},
	{schemas.TopicWatches, "cleanup.policy", "delete", false},
	{schemas.TopicJournal, "retention.ms", "604800000", false},
	{schemas.TopicCommands, "retention.ms", "3600000", false},
	{schemas.TopicMatches, "retention.bytes", "1000000000", false},
	{schemas.TopicEndpoints, "delete.retention.ms", "3600000", false},
	{schemas.TopicPayments, "max.message.bytes", "100000", false},
	{schemas.TopicLedgers, "message.timestamp.type", "LogAppendTime", false},
	{schemas.TopicResults, "segment.ms", "604800000", true},
	{schemas.TopicSnapshots, "segment.bytes", "1073741824", true},
	{schemas.TopicSnapshots, "retention.ms", "604800000", false},
}

func TestEachWrongSettingIsNamedRefusedAndPutRight(t *testing.T) {
	t.Parallel()
	c, shape := newCluster(t)
	mustCreate(t, c, shape)
	for _, w := range wrong {
		t.Run(w.topic+" "+w.setting, func(t *testing.T) {
			must(t, c.AlterTopic(t.Context(), w.topic, map[string]string{w.setting: w.value}))
			awaitSetting(t, c, w.topic, w.setting, w.value)
			d := mustPlan(t, c, shape)
			if len(d) != 1 || d[0].Topic != c.Prefix+w.topic || d[0].Setting != w.setting ||
				d[0].Have != w.value {
				t.Fatalf("the plan is %+v", d)
			}
			names := refused(t, c)
			if slices.Contains(names, w.setting) == w.harmless {
				t.Errorf("refused for %v", names)
			}
			if slices.Contains(refused(t, c, w.setting), w.setting) {
				t.Error("refused for what was accepted")
			}
			if created := mustCreate(t, c, shape); !slices.Equal(created.Done, d) {
				t.Errorf("%+v was done", created.Done)
			}
		})
	}
}

// awaitSetting waits until ten descriptions in a row have the setting, so that every broker knows
// it.
func awaitSetting(t *testing.T, c kafka.Cluster, topic, setting, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(t))
	defer cancel()
	for in := 0; in < 10; in++ {
		state, err := c.DescribeTopics(ctx, topic)
		must(t, err)
		if state[topic].Configs[setting] != value {
			in = -1
		}
	}
}

// refused returns the names of the faults, except those of a topic with one replica.
func refused(t *testing.T, c kafka.Cluster, accept ...string) (names []string) {
	t.Helper()
	faults, err := topology.Check(t.Context(), c, topology.CheckOptions{
		Accept: append(accept, ofOneReplica...),
		Now:    time.Now,
	})
	must(t, err)
	for _, f := range faults {
		names = append(names, f.Name)
	}
	return names
}

// ofOneReplica lists the faults of topics with one replica.
var ofOneReplica = []string{"replication", "min.insync.replicas", "unclean.leader.election.enable"}

func TestMoreThanWantedIsNoDifference(t *testing.T) {
	t.Parallel()
	c, shape := newCluster(t)
	mustCreate(t, c, shape)
	more := map[string]string{
		"retention.ms":      "-1",
		"max.message.bytes": "2000000",
		"segment.ms":        "60000",
	}
	must(t, c.AlterTopic(t.Context(), schemas.TopicCommands, more))
	for setting, value := range more {
		awaitSetting(t, c, schemas.TopicCommands, setting, value)
	}
	if d := mustPlan(t, c, shape); len(d) > 0 {
		t.Errorf("%+v", d)
	}
}

func TestAnotherPartitionCountIsRefused(t *testing.T) {
	t.Parallel()
	c, shape := newCluster(t)
	mustCreate(t, c, shape)
	shape.Partitions++
	created, err := topology.Create(t.Context(), c, shape)
	if !errors.Is(err, kafka.ErrPartitionCount) || len(created.Done) > 0 {
		t.Errorf("%+v, %v", created, err)
	}
	faults, err := topology.Check(t.Context(), c, topology.CheckOptions{
		Partitions: shape.Partitions,
		Accept:     ofOneReplica,
		Now:        time.Now,
	})
	if err != nil || len(faults) != 1 || faults[0].Name != "partitions" {
		t.Errorf("%+v, %v", faults, err)
	}
	if names := refused(t, c); len(names) > 0 {
		t.Errorf("without a count that is asked for, refused for %v", names)
	}
}

func TestAMissingTopicIsRefused(t *testing.T) {
	t.Parallel()
	c, shape := newCluster(t)
	if names := refused(t, c); !slices.Contains(names, "topic") {
		t.Errorf("of an empty cluster: refused for %v", names)
	}
	mustCreate(t, c, shape)
	if names := refused(t, c); len(names) > 0 {
		t.Errorf("refused for %v", names)
	}
}

func TestARefusalSaysWhatToDo(t *testing.T) {
	c, _ := newCluster(t)
	faults, err := topology.Check(t.Context(), c, topology.CheckOptions{Now: time.Now})
	must(t, err)
	said := topology.Refusal(faults).Error()
	for _, want := range []string{
		c.Prefix + "journal", "lumenhook topics create", "--accept-loss topic",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q: %s", want, said)
		}
	}
	if err := topology.Refusal(nil); err != nil {
		t.Error(err)
	}
}

// The topics of `lumenhook run` have one replica, and must otherwise be right.
func TestACheckOfOneCopyNamesAllElse(t *testing.T) {
	t.Parallel()
	c, shape := newCluster(t)
	mustCreate(t, c, shape)
	check := func() []topology.Fault {
		faults, err := topology.Check(t.Context(), c, topology.CheckOptions{Replicas: 1, Now: time.Now})
		must(t, err)
		return faults
	}
	if faults := check(); len(faults) > 0 {
		t.Errorf("%+v", faults)
	}
	must(t,
		c.AlterTopic(t.Context(), schemas.TopicJournal, map[string]string{"retention.ms": "3600000"}))
	awaitSetting(t, c, schemas.TopicJournal, "retention.ms", "3600000")
	if faults := check(); len(faults) != 1 || faults[0].Name != "retention.ms" {
		t.Errorf("%+v", faults)
	}
}

func TestFaultsHaveNames(t *testing.T) {
	must(t, topology.CheckNames(topology.Names()))
	for _, w := range wrong {
		if slices.Contains(topology.Names(), w.setting) == w.harmless {
			t.Errorf("%s: is its name known?", w.setting)
		}
	}
	if err := topology.CheckNames([]string{"min.insync.replica"}); err == nil {
		t.Error("a name of no fault was taken")
	}
}
