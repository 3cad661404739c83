package commands_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/commands"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

type rig struct {
	t       testing.TB
	cluster kafka.Cluster
	broker  *brokertest.Broker
}

func TestMain(m *testing.M) { brokertest.Main(m) }

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, broker: brokertest.Start(t)}
	r.cluster = r.broker.Cluster(nil)
	specs := []kafka.TopicSpec{
		{Name: schemas.TopicCommands, Partitions: 3, ReplicationFactor: r.broker.Replicas()},
		{Name: schemas.TopicResults, Partitions: 3, ReplicationFactor: r.broker.Replicas()},
	}
	if err := r.cluster.EnsureTopics(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) open(cfg commands.Config) *commands.Client {
	r.t.Helper()
	cfg.Cluster, cfg.Logger = r.cluster, r.cluster.Logger
	cfg.Wait = cmp.Or(cfg.Wait, brokertest.Patience)
	c, err := commands.Open(r.t.Context(), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(context.Background()) }()
	r.t.Cleanup(func() {
		c.Close()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
	return c
}

// engine is a fake engine. It answers each command with an account that has the ID of the command's
// aggregate, on the command's partition. It answers all commands of one read in one transaction. A
// repeated command gets the same answer. If abort is set, it gets the first command of each
// transaction and decides whether to abort the transaction.
type engine struct {
	seen  sync.Map // number of times by command ID
	abort func(domain.Command) bool
}

func (r *rig) startEngine(e *engine) {
	r.t.Helper()
	from := map[int32]int64{0: 0, 1: 0, 2: 0}
	reader, err := r.cluster.NewReader(
		kafka.ReaderConfig{From: kafka.Offsets{schemas.TopicCommands: from}},
	)
	if err != nil {
		r.t.Fatal(err)
	}
	writer, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Brokers...),
		kgo.TransactionalID(r.cluster.Prefix+"engine"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := e.turn(ctx, r, reader, writer); err != nil && ctx.Err() == nil {
				r.t.Error(err)
				return
			}
		}
	}()
	r.t.Cleanup(func() {
		cancel()
		<-ended
		reader.Close()
		writer.Close()
	})
}

func (e *engine) turn(
	ctx context.Context, r *rig, reader *kafka.Reader, writer *kgo.Client,
) error {
	var results []*kgo.Record
	end := kgo.TryCommit
	err := reader.Poll(ctx, 1000, func(rec kafka.Record) error {
		cmd, err := schemas.DecodeCommand(schemas.Read(rec.Value, rec))
		if err != nil {
			return err
		}
		if len(results) == 0 && e.abort != nil && e.abort(cmd) {
			end = kgo.TryAbort
		}
		result, err := e.answer(cmd, rec)
		if err != nil {
			return err
		}
		result.Topic = r.cluster.Prefix + schemas.TopicResults
		results = append(results, result)
		return nil
	})
	if err != nil || len(results) == 0 {
		return err
	}
	if err := writer.BeginTransaction(); err != nil {
		return err
	}
	if err := writer.ProduceSync(ctx, results...).FirstErr(); err != nil {
		return err
	}
	if err := kafka.AwaitStored(ctx, writer, results); err != nil {
		return err
	}
	return writer.EndTransaction(ctx, end)
}

func (e *engine) answer(cmd domain.Command, rec kafka.Record) (*kgo.Record, error) {
	if string(rec.Key) != cmd.Body.Aggregate() {
		return nil, fmt.Errorf("command %s has the key %q", cmd.ID, rec.Key)
	}
	times, _ := e.seen.LoadOrStore(cmd.ID, new(atomic.Int64))
	nth := times.(*atomic.Int64).Add(1)
	m := schemas.EncodeResult(domain.Result{
		CommandID: cmd.ID,
		BodyHash:  cmd.BodyHash,
		Replayed:  nth > 1,
		Answer:    domain.Answer{Account: &domain.Account{ID: cmd.Body.Aggregate(), Version: 2}},
	})
	k := &kgo.Record{Partition: rec.Partition, Key: []byte(cmd.ID), Value: m.Value}
	for name, value := range m.EachHeader {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return k, nil
}

func command(n int) domain.Command {
	return domain.Command{
		ID:             domain.DeriveID(domain.CommandPrefix, fmt.Sprint(n)),
		AccountID:      "acc_1",
		BodyHash:       []byte{byte(n)},
		IssuedAtMillis: 1,
		Body:           domain.CreateAccount{AccountID: fmt.Sprintf("acc_%d", n), Email: "a@example.org"},
	}
}

func wantAnswer(t testing.TB, c *commands.Client, cmd domain.Command) domain.Result {
	t.Helper()
	r, err := c.Submit(t.Context(), cmd)
	if err != nil {
		t.Error(err)
		return r
	}
	if r.CommandID != cmd.ID || r.Answer.Account == nil ||
		r.Answer.Account.ID != cmd.Body.Aggregate() {
		t.Errorf("command %s of %s was answered with %+v", cmd.ID, cmd.Body.Aggregate(), r)
	}
	return r
}

func TestEachCommandGetsItsAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startEngine(&engine{})
	var all sync.WaitGroup
	// Two clients stand for two nodes.
	for _, c := range []*commands.Client{r.open(commands.Config{}), r.open(commands.Config{})} {
		for n := range 50 {
			all.Go(func() { wantAnswer(t, c, command(n)) })
		}
	}
	all.Wait()
}

func TestACommandAskedAgainIsAnsweredAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startEngine(&engine{})
	c := r.open(commands.Config{})
	if first := wantAnswer(t, c, command(1)); first.Replayed {
		t.Error("the first answer is a repeat")
	}
	if second := wantAnswer(t, c, command(1)); !second.Replayed {
		t.Error("the second answer is not a repeat")
	}
	// Concurrent callers with the same command are all answered.
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { wantAnswer(t, c, command(2)) })
	}
	all.Wait()
}

func TestACommandWithoutAnswerIsNotConfirmedButTakesEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.open(commands.Config{Wait: 100 * time.Millisecond})
	cmd := command(1)
	log := brokertest.NewLog(t, r.cluster)
	// The command is appended before the first caller gives up.
	testkit.Eventually(t, "the command is appended", func() bool {
		_, err := c.Submit(t.Context(), cmd)
		var unconfirmed commands.ErrNotConfirmed
		if !errors.As(err, &unconfirmed) || unconfirmed.CommandID != cmd.ID ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("without an engine Submit gave %v", err)
		}
		return len(log.Read(schemas.TopicCommands)) > 0
	})
	// The engine starts, processes the command, and answers every later caller.
	e := &engine{}
	r.startEngine(e)
	testkit.Eventually(t, "the engine sees what was not confirmed",
		func() bool { _, seen := e.seen.Load(cmd.ID); return seen })
	wantAnswer(t, r.open(commands.Config{}), cmd)
}

func TestTheCallersTimeCounts(t *testing.T) {
	r := newRig(t)
	c := r.open(commands.Config{Wait: time.Minute})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Submit(ctx, command(1)); !errors.As(err, new(commands.ErrNotConfirmed)) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller without time got %v", err)
	}
	if _, err := c.Submit(ctx, command(2)); errors.As(err, new(commands.ErrNotConfirmed)) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller that was late already got %v", err)
	}
}

// A caller that cancels must not cancel other callers' commands.
func TestCallersThatGoAwayHarmNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startEngine(&engine{})
	c := r.open(commands.Config{})
	var all sync.WaitGroup
	for n := range 400 {
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() {
			defer cancel()
			if n%2 == 0 {
				wantAnswer(t, c, command(n))
				return
			}
			if _, err := c.Submit(ctx, command(n)); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		if n%2 == 1 {
			all.Go(cancel)
		}
	}
	all.Wait()
}

// An aborted result is never returned, because only a committed one counts. The answer to a later
// command in the same partition shows that the aborted one was skipped.
func TestAbortedResultsAreNotAnswers(t *testing.T) {
	r := newRig(t)
	var aborted atomic.Int64
	r.startEngine(&engine{abort: func(domain.Command) bool { return aborted.Add(1) == 1 }})
	c := r.open(commands.Config{})
	ctx, giveUp := context.WithCancel(t.Context())
	gave := make(chan error, 1)
	go func() {
		_, err := c.Submit(ctx, command(1))
		gave <- err
	}()
	testkit.Eventually(t, "the engine has aborted", func() bool { return aborted.Load() > 0 })
	later := command(1)
	later.ID = domain.DeriveID(domain.CommandPrefix, "later")
	wantAnswer(t, c, later)
	giveUp()
	if err := <-gave; !errors.As(err, new(commands.ErrNotConfirmed)) {
		t.Errorf("an aborted result gave %v", err)
	}
	wantAnswer(t, c, command(1))
}

func TestCommandsInFlightAreBounded(t *testing.T) {
	r := newRig(t)
	c := r.open(commands.Config{MaxUnderWay: 2, Wait: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 3)
	for n := range 3 {
		go func() {
			_, err := c.Submit(ctx, command(n))
			results <- err
		}()
	}
	if err := <-results; !errors.Is(err, commands.ErrBusy) {
		t.Errorf("one too many gave %v", err)
	}
	cancel()
	for range 2 {
		if err := <-results; !errors.As(err, new(commands.ErrNotConfirmed)) {
			t.Errorf("the others got %v", err)
		}
	}
	r.startEngine(&engine{})
	testkit.Eventually(t, "a free place", func() bool {
		_, err := c.Submit(t.Context(), command(3))
		return err == nil
	})
}

func TestAnswersComeAfterTheClusterWasAway(t *testing.T) {
	brokertest.Exclusive(t)
	r := newRig(t)
	c := r.open(commands.Config{Wait: brokertest.Patience / 100})
	r.startEngine(&engine{})
	testkit.Eventually(t, "an answer",
		func() bool { _, err := c.Submit(t.Context(), command(1)); return err == nil })
	r.broker.Outage(func() {
		if _, err := c.Submit(t.Context(), command(2)); !errors.As(err, new(commands.ErrNotConfirmed)) {
			t.Errorf("without a cluster Submit gave %v", err)
		}
	})
	testkit.Eventually(t, "an answer after the cluster came back",
		func() bool { _, err := c.Submit(t.Context(), command(3)); return err == nil })
}

func TestAClosedClientRefuses(t *testing.T) {
	r := newRig(t)
	c, err := commands.Open(t.Context(), commands.Config{Cluster: r.cluster, Logger: r.cluster.Logger})
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Submit(t.Context(), command(1))
		waiting <- err
	}()
	c.Close()
	if err := <-waiting; !errors.Is(err, commands.ErrClosed) {
		t.Errorf("who was waiting got %v", err)
	}
	if _, err := c.Submit(t.Context(), command(2)); !errors.Is(err, commands.ErrClosed) {
		t.Errorf("after Close Submit gave %v", err)
	}
	c.Close()
}

func BenchmarkSubmit(b *testing.B) {
	r := newRig(b)
	r.startEngine(&engine{})
	c := r.open(commands.Config{})
	n := 0
	for b.Loop() {
		wantAnswer(b, c, command(n))
		n++
	}
}
