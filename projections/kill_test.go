package projections_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

var (
	kills = flag.Int("kills", testkit.Rounds(8, 50),
		"how often the projector or ClickHouse is killed")
	killSeed = flag.Uint64("kill-seed", 0, "seed of the kills; 0 takes one from the clock")
)

// childVariable turns the test binary into a projector. Its value is "brokers DSN group prefix
// wait rows unasked".
const childVariable = "LUMENHOOK_TEST_PROJECTOR"

func projectorChild() int {
	settings := strings.Fields(os.Getenv(childVariable))
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	wait, unread := time.ParseDuration(settings[4])
	rows, noNumber := strconv.Atoi(settings[5])
	unasked, unreadToo := time.ParseDuration(settings[6])
	db, err := writer.Open(settings[1])
	err = errors.Join(err, unread, noNumber, unreadToo)
	if err == nil {
		var p *writer.Projector
		p, err = writer.NewProjector(writer.ProjectorConfig{
			DB:          db,
			Logger:      logger,
			Now:         time.Now,
			Group:       settings[2],
			BlockWait:   wait,
			BlockRows:   rows,
			UnaskedWait: unasked,
			Cluster: kafka.Cluster{
				Brokers:  strings.Split(settings[0], ","),
				Prefix:   settings[3],
				ClientID: "child",
				Logger:   logger,
			},
		})
		if err == nil {
			err = p.Run(context.Background())
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// killed has a projector in a separate process and a ClickHouse. Both are killed and restarted.
type killed struct {
	*rig
	cfg       clickhouse.Config
	projector *exec.Cmd
	started   int
	blocks    string // BlockWait, BlockRows and UnaskedWait of the projector; small values if empty
}

// startProjector uses a new group each time, because the previous group keeps its partitions for
// seconds after its projector's death, which is too long for this test. Two projectors at the
// same time would not change any answer either.
func (k *killed) startProjector() {
	k.t.Helper()
	k.started++
	k.projector = exec.Command(os.Args[0])
	k.projector.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s projector-%d %s %s", childVariable,
		strings.Join(k.cluster.Brokers, ","), k.dsn, k.started, k.cluster.Prefix,
		cmp.Or(k.blocks, "20ms 2000 20ms")))
	k.projector.Stderr = k.t.Output()
	must(k.t, k.projector.Start())
}

func (k *killed) killProjector() {
	k.t.Helper()
	must(k.t, k.projector.Process.Kill())
	_ = k.projector.Wait() // reports that it was killed
}

// killClickHouse waits until ClickHouse is running. libchdb sometimes crashes when a connection
// is reset in the middle of a query, for example because the projector was killed, and its
// supervisor then restarts it.
func (k *killed) killClickHouse() {
	k.t.Helper()
	pid := 0
	testkit.EventuallyNil(k.t, "ClickHouse is there to be killed", func() error {
		if pid = k.engine.PID(); pid == 0 { // a PID of 0 would be our own process group
			return errors.New("it is being started")
		}
		return nil
	})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		k.t.Fatal(err)
	}
	_ = k.engine.Stop() // reports that the child was killed
	var err error
	k.engine, err = clickhouse.Start(k.t.Context(), k.cfg)
	must(k.t, err)
}

func TestKillsLeaveNoRowMissingOrDoubled(t *testing.T) {
	t.Parallel()
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("the kills are those of -kill-seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	cfg := clickhouse.Config{
		Program: clickhousetest.Program(t),
		DataDir: t.TempDir(),
		Logger:  slog.New(slog.DiscardHandler),
		Grants:  clickhousetest.Grants(),
	}
	first, err := clickhouse.Start(t.Context(), cfg)
	must(t, err)
	cfg.NativeAddr, cfg.HTTPAddr = first.NativeAddr(), strings.TrimPrefix(first.HTTPURL(), "http://")
	cfg.Service, cfg.Reader = first.Service(), first.Reader()
	k := &killed{rig: newRigOf(t, first), cfg: cfg}
	t.Cleanup(func() { must(t, k.engine.Stop()) })
	k.world(5)
	k.startProjector()
	// Keep the projector running until everything is compared, because libchdb may crash when it
	// stops.
	t.Cleanup(k.killProjector)
	stop := k.load()
	answers, stopReading := k.readMeanwhile()

	tick := time.NewTimer(0)
	defer tick.Stop()
	for n := range *kills {
		if n == *kills/2 {
			// On a slow machine the first kills may all come before the tables exist.
			testkit.Eventually(t, "something is read", func() bool { return answers.Load() > 0 })
		}
		tick.Reset(time.Duration(20+chance.IntN(300)) * time.Millisecond)
		<-tick.C
		if chance.IntN(2) == 0 {
			k.killClickHouse()
			continue
		}
		k.killProjector()
		k.startProjector()
	}
	events := stop()
	k.awaitProjected()
	stopReading()
	t.Logf("%d events, and %d answers while they came", events, answers.Load())

	// The API shows every event.
	history := k.history(0)
	stories := []*story{newStory(0), newStory(1), newStory(2), newStory(3), newStory(4)}
	for n := 0; n < events; n += max(1, events/200) {
		var record readmodel.Event
		var found error
		// libchdb may crash once more because of the readers that have stopped.
		testkit.EventuallyNil(t, "ClickHouse answers", func() error {
			record, found = history.Event(t.Context(), testAccount, stories[n%5].eventID(n))
			if errors.Is(found, readmodel.ErrUnavailable) {
				return found
			}
			return nil
		})
		must(t, found)
		if record.State != domain.StateDelivered || len(record.Attempts) != 2 {
			t.Fatalf("event %d is %+v", n, record)
		}
	}
	filter := readmodel.EventFilter{AccountID: testAccount, EndpointID: stories[2].endpointID}
	ids := k.list(filter, 250)
	if len(ids) != (events+2)/5 {
		t.Errorf("a list of an endpoint has %d events, not %d", len(ids), (events+2)/5)
	}
	// The views show every event.
	for query, want := range map[string]int{
		"SELECT count() FROM current_deliveries WHERE state = 'DELIVERED' AND attempts = 2": events,
		"SELECT sum(attempts) FROM attempts_per_minute":                                     2 * events,
		"SELECT attempts FROM retry_ladder WHERE attempt = 1":                               events,
		"SELECT delivered FROM retry_ladder WHERE attempt = 2":                              events,
		"SELECT sum(attempts) FROM error_mix":                                               events,
		"SELECT sum(payments) FROM payments_per_watch":                                      events,
		"SELECT count() FROM payments FINAL":                                                5,
	} {
		if got := k.count(query); got != want {
			t.Errorf("%s gives %d, not %d", query, got, want)
		}
	}
	if got, want := k.checksum(), k.twinChecksum(); got != want {
		t.Errorf("the tables are\n%s\nand those of the undisturbed twin\n%s", got, want)
	}
}

// readMeanwhile reads events until it is stopped. It counts the answers and checks that the parts
// of each belong together.
func (k *killed) readMeanwhile() (answers *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(k.t.Context())
	answers = new(atomic.Int64)
	ended := make(chan struct{})
	history := k.history(50 * time.Millisecond)
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			<-tick.C
			event := n % 400
			record, err := history.Event(ctx, testAccount, newStory(event%5).eventID(event))
			if ctx.Err() != nil {
				return
			}
			switch {
			case err == nil && len(record.Attempts) != record.AttemptsMade:
				k.t.Errorf("event %d has %d attempts and says that %d were made", event, len(record.Attempts),
					record.AttemptsMade)
			case err == nil:
				answers.Add(1)
			case !errors.Is(err, readmodel.ErrUnavailable) && !errors.Is(err, readmodel.ErrBehind) &&
				!errors.Is(err, readmodel.ErrNotFound):
				k.t.Errorf("event %d: %v", event, err)
			}
		}
	}()
	return answers, func() {
		cancel()
		<-ended
	}
}
