package topology_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/topology"
)

const dayMillis = 24 * 60 * 60 * 1000

// Topics from which records are deleted have small files. Topics that keep everything have the
// cluster's default file size.
func TestWhatIsShortenedIsInSmallFiles(t *testing.T) {
	small := func(shape topology.Shape) (names []string) {
		for _, spec := range topology.RequiredTopics(shape) {
			switch spec.Configs["segment.bytes"] {
			case "16777216":
				names = append(names, spec.Name)
			case "":
			default:
				t.Errorf("%s has files of %s", spec.Name, spec.Configs["segment.bytes"])
			}
		}
		return names
	}
	shape := topology.Shape{Partitions: 1, Replicas: 1}
	if names := small(shape); !slices.Equal(names, []string{schemas.TopicSnapshots}) {
		t.Errorf("in small files are %v", names)
	}
	shape.Shortened = true
	want := make(map[string]bool)
	for _, topic := range topology.Retained() {
		want[topic.Name] = true
	}
	for _, name := range small(shape) {
		if !want[name] {
			t.Errorf("%s is in small files, and nothing of it is deleted", name)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("deleted of, and in large files: %v", want)
	}
}

// Tiered topics are those from which retention deletes, except snapshots. No compacted topic is
// tiered. A topic that is kept for a week does not have a longer local retention.
func TestWhatGrowsIsTiered(t *testing.T) {
	shape := topology.Shape{Partitions: 1, Replicas: 1, LocalMillis: 30 * dayMillis}
	var tiered []string
	for _, spec := range topology.RequiredTopics(shape) {
		local, remote := spec.Configs["local.retention.ms"], spec.Configs["remote.storage.enable"]
		if (remote == "true") != (local != "") {
			t.Errorf("%s has remote storage %q and local retention %q", spec.Name, remote, local)
		}
		if remote == "" {
			continue
		}
		tiered = append(tiered, spec.Name)
		want := "2592000000"
		if spec.Name == schemas.TopicCommands {
			want = spec.Configs["retention.ms"]
		}
		if local != want || spec.Configs["cleanup.policy"] != "delete" {
			t.Errorf("%s is kept for %s ms on brokers, not for %s", spec.Name, local, want)
		}
	}
	want := []string{
		schemas.TopicCommands, schemas.TopicPayments, schemas.TopicMatches, schemas.TopicJournal,
	}
	if !slices.Equal(tiered, want) {
		t.Errorf("tiered are %v, not %v", tiered, want)
	}
	shape.LocalMillis = 0
	for _, spec := range topology.RequiredTopics(shape) {
		if spec.Configs["remote.storage.enable"] != "" {
			t.Errorf("%s is tiered without being asked for", spec.Name)
		}
	}
}

// Plan and Create refuse brokers that cannot tier topics before they change anything.
func TestBrokersThatCannotTierAreRefused(t *testing.T) {
	t.Parallel()
	c, shape := newCluster(t)
	shape.LocalMillis = dayMillis
	_, planned := topology.Plan(t.Context(), c, shape)
	_, created := topology.Create(t.Context(), c, shape)
	for _, err := range []error{planned, created} {
		if err == nil || !strings.Contains(err.Error(), topology.RemoteStorage) ||
			!strings.Contains(err.Error(), "--topic-tiered") {
			t.Errorf("it was answered with %v", err)
		}
	}
	have, err := c.DescribeTopics(t.Context(), schemas.TopicJournal)
	if err != nil || len(have) > 0 {
		t.Errorf("topics were made: %v, %v", have, err)
	}
	shape.LocalMillis = 0
	mustCreate(t, c, shape)
	faults, err := topology.Check(t.Context(), c, topology.CheckOptions{
		Replicas:    shape.Replicas,
		LocalMillis: dayMillis,
		Accept:      []string{topology.MinInSync, topology.TransactionVersion, topology.Replication},
		Now:         time.Now,
	})
	must(t, err)
	var names []string
	for _, f := range faults {
		names = append(names, f.Name)
	}
	if !slices.Equal(names, []string{"remote.storage.enable", topology.RemoteStorage}) {
		t.Errorf("refused for %v", names)
	}
}
