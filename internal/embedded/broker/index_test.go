package broker_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func index(dir string) string { return filepath.Join(dir, "partitions", topic+"-0", "0.idx") }

// A kill may come between a batch and its index entry, which assigns the batch to a transaction.
// The interrupted transaction must not be committed, neither on the next start nor later.
func TestABatchWithoutItsIndexEntryIsOfItsTransaction(t *testing.T) {
	first := filepath.Join(t.TempDir(), "broker")
	addr := start(t, first)
	if _, err := kadm.NewClient(newClient(t, addr)).CreateTopic(t.Context(), 1, 1, nil,
		topic); err != nil {
		t.Fatal(err)
	}
	if err := write(t, addr, "kept").EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	write(t, addr, "cut short")

	dir := killed(t, first)
	entries, err := os.ReadFile(index(dir))
	if err != nil {
		t.Fatal(err)
	}
	const entry = 15
	if err := os.Truncate(index(dir), int64(len(entries)-entry)); err != nil {
		t.Fatal(err)
	}
	want := []string{"kept"}
	for range 3 {
		if got := committed(t, start(t, dir)); !slices.Equal(got, want) {
			t.Fatalf("committed: %q, and %q was", got, want)
		}
		dir = killed(t, dir)
	}
	addr = start(t, dir)
	if err := write(t, addr, "written again").EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	want = append(want, "written again")
	if got := committed(t, start(t, killed(t, dir))); !slices.Equal(got, want) {
		t.Fatalf("committed: %q, and %q was", got, want)
	}
}

// A rebuilt index must equal kfake's, except for a time that kfake doesn't read. An index that
// matches its segment must stay as it is.
func TestAnIndexThatFitsIsLeftAlone(t *testing.T) {
	first := filepath.Join(t.TempDir(), "broker")
	addr := start(t, first)
	if _, err := kadm.NewClient(newClient(t, addr)).CreateTopic(t.Context(), 1, 1, nil,
		topic); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"a", "b"} {
		if err := write(t, addr, value).EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(index(first))
	if err != nil {
		t.Fatal(err)
	}
	dir := killed(t, first)
	start(t, dir)
	if kept, err := os.ReadFile(index(dir)); err != nil || !bytes.Equal(kept, written) {
		t.Errorf("the index was changed (%v):\n%x\n%x", err, written, kept)
	}
	dir = killed(t, first)
	if err := os.Remove(index(dir)); err != nil {
		t.Fatal(err)
	}
	start(t, dir)
	made, err := os.ReadFile(index(dir))
	if err != nil || len(made) != len(written) {
		t.Fatalf("%v: %x where %x was", err, made, written)
	}
	for at := 0; at < len(made); at += 15 {
		if made[at] != written[at] || !bytes.Equal(made[at+2:at+6], written[at+2:at+6]) ||
			made[at+14] != written[at+14] {
			t.Errorf("entry %d is %x where %x was", at/15, made[at:at+15], written[at:at+15])
		}
	}
}
