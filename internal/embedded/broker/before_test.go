package broker_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// An interrupted compaction must not lose any of the earlier records.
func TestWhatACompactionThatWasCutShortTookComesBack(t *testing.T) {
	t.Parallel()
	first := filepath.Join(t.TempDir(), "broker")
	addr := start(t, first)
	if _, err := kadm.NewClient(newClient(t, addr)).CreateTopics(t.Context(), 1, 1, nil, topic,
		"other", "table"); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, addr, kgo.TransactionalID("task"), kgo.DefaultProduceTopic(topic))
	if err := produce(t.Context(), c, "kept 1", kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	cut := killed(t, first)
	partitions, before := filepath.Join(cut, "partitions"), filepath.Join(cut, "before-compaction")
	if err := os.CopyFS(before, os.DirFS(partitions)); err != nil {
		t.Fatal(err)
	}
	// One partition has lost its files, and another has some of the new ones.
	err := errors.Join(
		os.Remove(filepath.Join(partitions, topic+"-0", "0.dat")),
		os.Truncate(filepath.Join(partitions, "table-0", "0.dat"), 10),
		os.WriteFile(filepath.Join(partitions, "table-0", "1.dat"), []byte("new"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // and on the next start
		addr = start(t, cut)
		for _, topic := range []string{topic, "table"} {
			if got := committedOf(t, addr, topic); !slices.Equal(got, []string{"kept 1"}) {
				t.Errorf("%s: %q", topic, got)
			}
		}
		cut = killed(t, cut)
	}
}
