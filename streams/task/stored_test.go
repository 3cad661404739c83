package task_test

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

var widened = flag.Bool("streams.widened", false,
	"the client stores partitions late: set by TestCommitsWhileTheClientStoresPartitions")

// The client sends the first records for a topic before it stores the topic's partitions. To widen
// this race, the test builds the client with a pause of 200 ms in between. It runs itself and other
// tests of transactions with that client.
func TestCommitsWhileTheClientStoresPartitions(t *testing.T) {
	t.Parallel()
	if *widened {
		t.Run("the client alone loses the record", theClientAloneLosesTheRecord)
		return
	}
	if out := onWidenedClient(t, "^("+strings.Join([]string{
		t.Name(), "TestFencedProducer", "TestInputsAreTakenOnceWithoutGroupAndState",
		"TestTurnsUnderEachVersionOfTransactions", "TestTheWaitForPartitionsEnds",
	}, "|")+")$"); strings.Contains(out, "FAIL") || strings.Count(out, "\n--- PASS") != 5 {
		t.Errorf("with the window widened:\n%s", out)
	}
}

// theClientAloneLosesTheRecord shows that the race exists in this process, so that the other tests
// prove something. When a release of the client fixes the race, delete AwaitStored.
func theClientAloneLosesTheRecord(t *testing.T) {
	r := newRig(t)
	client := r.transactional("alone")
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	record := &kgo.Record{Topic: r.cluster.Prefix + numbersTopic, Value: []byte("lost")}
	if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := client.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	if got := r.committed(numbersTopic); len(got) > 0 {
		t.Errorf("the client committed %v: it stored the partitions in time", got)
	}
}

// The wait for a partition that the client never learns of ends with the caller's context.
func TestTheWaitForPartitionsEnds(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := kafka.AwaitStored(ctx, r.transactional("waiting"), []*kgo.Record{{Topic: "unknown"}})
	if err == nil || !strings.Contains(err.Error(), "partition 0 of unknown") {
		t.Errorf("the wait ended with %v", err)
	}
}

func (r *rig) transactional(id string) *kgo.Client {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Brokers...),
		kgo.TransactionalID(r.cluster.Prefix+id))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(client.Close)
	return client
}

// onWidenedClient runs tests of this package with a client that pauses before it stores a topic's
// partitions for the first time. It returns their output.
func onWidenedClient(t *testing.T, tests string) string {
	t.Helper()
	const module = "github.com/twmb/franz-go"
	dir := t.TempDir()
	source := strings.TrimSpace(goTool(t, "list", "-m", "-f", "{{.Dir}}", module))
	if err := os.CopyFS(filepath.Join(dir, "client"), os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "client", "pkg", "kgo", "topics_and_partitions.go")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const store, once = "\tdefer l.v.Store(lv)\n", 1
	if strings.Count(string(text), store) != once {
		t.Fatalf("the client stores partitions in another way: read storePartitionsUpdate in %s", source)
	}
	paused := strings.Replace(string(text), store,
		"\tdefer func() { <-time.After(200 * time.Millisecond); l.v.Store(lv) }()\n", once)
	paused = strings.Replace(paused, "\t\"sync/atomic\"\n", "\t\"sync/atomic\"\n\t\"time\"\n", once)
	if err := os.WriteFile(file, []byte(paused), 0o600); err != nil {
		t.Fatal(err)
	}
	mod := filepath.Join(dir, "go.mod")
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	goTool(t, "mod", "edit", "-replace", module+"="+filepath.Join(dir, "client"), mod)
	return goTool(t, "test", "-modfile", mod, "-trimpath", "-count", "1", "-v", "-run", tests,
		"-timeout", testkit.Patience(t).String(), ".", "-args", "-streams.widened")
}

// goTool returns the output of the go command, even if the command fails.
func goTool(t *testing.T, args ...string) string {
	t.Helper()
	out, _ := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	return string(out)
}
