package task_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// These tests use a handler that sums numbers. Each input record contains one number, which is
// identified by its key. The journal gets one record for each new number.

const (
	numbersTopic = "numbers"
	sumsTopic    = "sums"
	sumGroup     = "summer"
)

var sumKey = []byte{store.FirstKey, 's'}

type summer struct {
	draining bool
	former   bool // uses the format of the previous release, which stores keys of numbers differently
}

func (s *summer) seenKey(number []byte) []byte {
	kind := byte('k')
	if s.former {
		kind = 'n'
	}
	return append([]byte{store.FirstKey, kind}, number...)
}

// summerTask is a task whose effects are its due entries. It has no completions.
type summerTask = task.Task[store.Claimed, none]

type none struct{}

func (s *summer) Fold(batch *store.Batch, r kafka.Record) error {
	sum, err := readSum(batch.Get)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(r.Value))
	if err != nil {
		return err
	}
	if err := batch.Set(s.seenKey(r.Key), nil); err != nil {
		return err
	}
	if err := batch.SetTimer("numbers", int64(n), string(r.Key)); err != nil {
		return err
	}
	return batch.Set(sumKey, binary.BigEndian.AppendUint64(nil, uint64(sum+n)))
}

func readSum(get func([]byte) ([]byte, error)) (int, error) {
	value, err := get(sumKey)
	if err != nil || value == nil {
		return 0, err
	}
	return int(binary.BigEndian.Uint64(value)), nil
}

func (s *summer) Start(*task.Turn) error { return nil }

func (s *summer) Turn(t *task.Turn, _ []none) error {
	for _, r := range t.Inputs {
		for _, r := range r {
			seen, err := t.Batch.Get(s.seenKey(r.Key))
			if err != nil {
				return err
			}
			if seen != nil {
				continue
			}
			out := kafka.Record{Topic: sumsTopic, Key: r.Key, Value: r.Value}
			t.Append(out)
			if err := s.Fold(t.Batch, out); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *summer) AfterCommit(a task.After) (due []store.Claimed, wake int64, err error) {
	err = a.Timers.Claim(a.NowMillis, 1<<20, func(string) int { return 1 << 20 },
		func(c store.Claimed) error {
			due = append(due, c)
			return nil
		})
	return due, a.Timers.NextMillis(), err
}

func (s *summer) Flush(*store.Batch) error { return nil }

func (s *summer) Drain()          { s.draining = true }
func (s *summer) Busy() bool      { return false }
func (s *summer) Unhurried() bool { return false }

type rig struct {
	t       *testing.T
	cluster kafka.Cluster
	dir     string

	replicas int16
	log      *brokertest.Log // nil until the first read
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return rigOn(t, brokertest.Start(t))
}

func rigOn(t *testing.T, b *brokertest.Broker) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), cluster: b.Cluster(nil)}
	r.replicas = b.Replicas()
	r.makeTopics()
	return r
}

func (r *rig) makeTopics() {
	r.t.Helper()
	specs := []kafka.TopicSpec{
		{Name: numbersTopic, Partitions: 2, ReplicationFactor: r.replicas},
		{Name: sumsTopic, Partitions: 2, ReplicationFactor: r.replicas},
	}
	if err := r.cluster.EnsureTopics(r.t.Context(), specs); err != nil {
		r.t.Fatal(err)
	}
}

// elsewhere returns a rig with topics of its own on the same brokers.
func (r *rig) elsewhere(prefix string) *rig {
	r.t.Helper()
	other := &rig{t: r.t, dir: r.t.TempDir(), cluster: r.cluster, replicas: r.replicas}
	other.cluster.Prefix += prefix
	other.makeTopics()
	return other
}

func (r *rig) task(dir string, effects func(store.Claimed)) *summerTask {
	return task.NewTask(r.config(dir, effects))
}

func (r *rig) config(
	dir string, effects func(store.Claimed),
) task.Config[store.Claimed, none] {
	if effects == nil {
		effects = func(store.Claimed) {}
	}
	cfg := summing(r.cluster, dir, 0, func() task.Handler[store.Claimed, none] {
		return &summer{}
	})
	cfg.Perform = effects
	return cfg
}

// summing configures a task whose handler is a summer or wraps one.
func summing(
	cluster kafka.Cluster, dir string, partition int32,
	newHandler func() task.Handler[store.Claimed, none],
) task.Config[store.Claimed, none] {
	return task.Config[store.Claimed, none]{
		CoreConfig: task.CoreConfig[store.Claimed, none]{
			Partition: partition,
			Journal:   sumsTopic,
			Inputs:    []string{numbersTopic},
			Store: store.Config{
				Dir:           dir,
				Identity:      "test",
				CacheBytes:    1 << 20,
				MemTableBytes: 1 << 20,
				Logger:        cluster.Logger,
			},
			NewHandler:   newHandler,
			DrainTimeout: time.Second,
			Logger:       cluster.Logger,
		},
		Cluster:     cluster,
		Group:       sumGroup,
		Perform:     func(store.Claimed) {},
		Completions: 16,
		Now:         time.Now,
	}
}

func (r *rig) run(task *summerTask) (stop func() error) {
	ended := make(chan error, 1)
	stopping := make(chan struct{})
	go func() { ended <- task.Run(context.Background(), stopping) }()
	return func() error {
		close(stopping)
		return <-ended
	}
}

// feed appends the numbers from..to, each of them twice.
func (r *rig) feed(from, to int) {
	r.t.Helper()
	p, err := r.cluster.NewProducer()
	if err != nil {
		r.t.Fatal(err)
	}
	defer p.Close()
	var records []kafka.Record
	for n := from; n <= to; n++ {
		number := kafka.Record{
			Topic: numbersTopic,
			Key:   []byte(r.keyOf(n)),
			Value: []byte(strconv.Itoa(n)),
		}
		records = append(records, number, number) // the second is a repeat
	}
	if err := p.Append(r.t.Context(), records...); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) keyOf(n int) string { return fmt.Sprintf("number-%d", n) }

func (r *rig) read(topic string) []kafka.Record {
	r.t.Helper()
	if r.log == nil {
		r.log = brokertest.NewLog(r.t, r.cluster)
	}
	return r.log.Read(topic)
}

func (r *rig) journal() map[string]int {
	r.t.Helper()
	count := make(map[string]int)
	for _, rec := range r.read(sumsTopic) {
		count[string(rec.Key)]++
	}
	return count
}

// wantJournal waits until the journal has the given number of keys, and checks that each is there
// once.
func (r *rig) wantJournal(total int) {
	r.t.Helper()
	var have map[string]int
	testkit.Eventually(r.t, fmt.Sprintf("%d records in the journal", total), func() bool {
		have = r.journal()
		return len(have) >= total
	})
	for key, n := range have {
		if n != 1 {
			r.t.Errorf("%s is in the journal %d times", key, n)
		}
	}
}

func TestTaskTakesEachInputOnceOverRestarts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	total := 0
	for round := range 3 {
		claimed := make(chan store.Claimed, 10_000)
		stop := r.run(r.task(r.dir, func(c store.Claimed) { claimed <- c }))
		r.feed(round*100+1, round*100+100)
		total = r.onPartition(0)
		r.wantJournal(total)
		// Everything is due, so every start claims each entry once.
		testkit.Eventually(t, "all claimed", func() bool { return len(claimed) == total })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	// A lost state is folded again from the journal.
	claimed := make(chan store.Claimed, 10_000)
	stop := r.run(r.task(t.TempDir(), func(c store.Claimed) { claimed <- c }))
	testkit.Eventually(t, "all claimed from a fresh folder",
		func() bool { return len(claimed) == total })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	r.wantJournal(total)
}

// onPartition reads the numbers topic and counts the keys in a partition.
func (r *rig) onPartition(p int32) int {
	r.t.Helper()
	keys := make(map[string]bool)
	for _, rec := range r.read(numbersTopic) {
		if rec.Partition == p {
			keys[string(rec.Key)] = true
		}
	}
	return len(keys)
}

func TestFormerOwnerIsFenced(t *testing.T) {
	r := newRig(t)
	former := make(chan error, 1)
	stopping := make(chan struct{})
	defer close(stopping)
	first := r.task(r.dir, nil)
	go func() { former <- first.Run(context.Background(), stopping) }()
	r.feed(1, 50)
	r.wantJournal(r.onPartition(0))

	// A new owner takes over while the former owner still believes that it owns the partition. Both
	// see the next inputs, but only one may write.
	claimed := make(chan store.Claimed, 10_000)
	stop := r.run(r.task(t.TempDir(), func(c store.Claimed) { claimed <- c }))
	<-claimed // the new owner has taken over
	r.feed(51, 100)
	r.wantJournal(r.onPartition(0))
	select {
	case err := <-former:
		if err == nil {
			t.Error("the former owner ended without an error")
		}
	case <-time.After(brokertest.Patience):
		t.Error("the former owner was not fenced")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
