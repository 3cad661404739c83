package broker_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

func holding(t *testing.T, log *testkit.Buffer) (addr, file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "hold")
	b, err := broker.Start(broker.Config{
		Dir:      filepath.Join(dir, "broker"),
		Listen:   "127.0.0.1:0",
		HoldFile: file,
		Logger:   slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := kadm.NewClient(newClient(t, b.Addr())).CreateTopics(t.Context(), 1, 1, nil, topic,
		"free"); err != nil {
		t.Fatal(err)
	}
	return b.Addr(), file
}

func order(t *testing.T, file, line string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
}

func endOf(t *testing.T, addr string) int64 {
	t.Helper()
	ends, err := kadm.NewClient(newClient(t, addr)).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	return end.Offset
}

// A held request must not be written while others continue. Each line holds one request.
func TestAHeldAppendIsNotWrittenWhileOthersGoOn(t *testing.T) {
	log := &testkit.Buffer{}
	addr, file := holding(t, log)
	order(t, file, "append "+topic+" 1m\n")
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	held := newClient(t, addr, kgo.DefaultProduceTopic(topic))
	held.Produce(ctx, kgo.StringRecord("held"), nil)
	for !strings.Contains(log.String(), "FAULT: a request is held") {
		if err := ctx.Err(); err != nil {
			t.Fatal(err)
		}
	}
	free := newClient(t, addr, kgo.DefaultProduceTopic("free"))
	if err := free.ProduceSync(ctx, kgo.StringRecord("goes on")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if end := endOf(t, addr); end != 0 {
		t.Errorf("the held record stands: the topic ends at %d", end)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the order is still there: %v", err)
	}
	after := newClient(t, addr, kgo.DefaultProduceTopic(topic))
	if err := after.ProduceSync(ctx, kgo.StringRecord("after")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if end := endOf(t, addr); end != 1 {
		t.Errorf("the topic ends at %d", end)
	}
}

func TestAHeldCommitSucceedsInTheEnd(t *testing.T) {
	log := &testkit.Buffer{}
	addr, file := holding(t, log)
	order(t, file, "commit task 10ms\n")
	if err := write(t, addr, "kept").EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	if got := committed(t, addr); len(got) != 1 ||
		!strings.Contains(log.String(), "kind=EndTxn") {
		t.Errorf("committed: %q, log:\n%s", got, log.String())
	}
}

func TestAnInvalidHoldIsLoggedAndRemoved(t *testing.T) {
	for _, line := range []string{"", "append x", "fly x 1s", "append x 2m", "append x soon"} {
		log := &testkit.Buffer{}
		addr, file := holding(t, log)
		order(t, file, line)
		c := newClient(t, addr, kgo.DefaultProduceTopic(topic))
		if err := c.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) ||
			!strings.Contains(log.String(), "cannot hold a request") {
			t.Errorf("%q: %v, log:\n%s", line, err, log.String())
		}
	}
}
