package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/kafkatest"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/subprocess"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const realBrokers = 3

// BenchmarkKafka delivers with `lumenhook serve` on three Apache Kafka brokers on this machine,
// which write each record three times before they acknowledge it. It needs Java.
func BenchmarkKafka(b *testing.B) {
	b.Run("rate=100", measured(func(l *lab) metrics { return l.serveOnKafka().kafkaAtRate(100) }))
	b.Run("rate=500", measured(func(l *lab) metrics { return l.serveOnKafka().kafkaAtRate(500) }))
	b.Run("full", measured(func(l *lab) metrics {
		got := l.postFloor()
		return got.and("", l.serveOnKafka().warmed().fullSpeed(usual()))
	}))
}

// kafkaAtRate measures a service at a rate, and separately the transactions for the same matches.
func (s *service) kafkaAtRate(rate float64) metrics {
	s.Helper()
	got := s.warmed().atRate(rate)
	got["transactions-p50-ms"], got["transactions-p99-ms"] = s.commits(rate)
	return got
}

// serveOnKafka starts the parts of `lumenhook run` on real brokers.
func (l *lab) serveOnKafka() *service {
	l.Helper()
	before := descendants(os.Getpid())
	brokers, err := kafkatest.Start(l.Context(), kafkatest.Config{
		Dir:     filepath.Join(l.dir, l.ownName("kafka")),
		Brokers: realBrokers,
	})
	must(l, err)
	l.Cleanup(func() { _ = brokers.Close() })
	kafka := slices.DeleteFunc(descendants(os.Getpid()),
		func(pid int) bool { return slices.Contains(before, pid) })
	dir := filepath.Join(l.dir, l.ownName("service"))
	must(l, os.Mkdir(dir, 0o700))
	at := []string{"--kafka-brokers", strings.Join(brokers.Addrs(), ",")}
	l.command(append(at, "topics", "create", "--partitions", strconv.Itoa(partitions))...)
	key := filepath.Join(dir, "master-key")
	l.command("secrets", "create", "--master-key-file", key)
	engine := l.startClickHouse(dir)
	api := l.freeAddress()
	s := l.start(dir, []string{"LUMENHOOK_CLICKHOUSE_DSN=" + engine.DSN()}, append(at, "serve",
		"--roles", "engine,projector,api", "--master-key-file", key,
		"--data-dir", filepath.Join(dir, "state"), "--api-listen", api,
		"--metrics-listen", "127.0.0.1:0", "--network", "nobody follows one here",
		"--stellar-rpc-url", "http://127.0.0.1:1", "--egress-allow", "127.0.0.0/8",
		"--egress-ports", "1-65535", "--egress-ca", l.roots, "--log-level", "warn")...)
	s.others = func() map[string][]int {
		return map[string][]int{"ClickHouse": {engine.PID()}, "brokers": kafka}
	}
	s.run = runfile.File{
		APIURL:       "http://" + api,
		KafkaBrokers: brokers.Addrs(),
		ClickHouse: &runfile.ClickHouse{
			HTTP:     engine.HTTPURL(),
			Database: engine.Database(),
			Reader:   runfile.Login(engine.Reader()),
		},
	}
	s.await(func() error { // until the engine has its partitions
		var made apicli.MadeKey
		out, err := l.try(append(at, "accounts", "create", "--email", "bench@shop.example",
			"--json", "--data-dir", filepath.Join(dir, "none"))...)
		if err == nil {
			err = json.Unmarshal(out, &made)
		}
		s.run.APIKey, s.run.AccountID = made.Key, made.AccountID
		return err
	})
	s.await(func() error {
		_, asked := s.api().ListKeys(l.Context(), client.Page{})
		_, read := s.rows()
		return errors.Join(asked, read)
	})
	s.createEndpoints(deliverEndpoints)
	s.begin()
	return s
}

func (l *lab) command(args ...string) {
	l.Helper()
	_, err := l.try(args...)
	must(l, err)
}

func (l *lab) try(args ...string) ([]byte, error) {
	c := exec.CommandContext(l.Context(), *program, args...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("%v: %w\n%s%s", args, err, out, &stderr)
	}
	return out, err
}

func (l *lab) freeAddress() string {
	l.Helper()
	listener, err := subprocess.ListenFree("127.0.0.1")
	must(l, err)
	defer func(c net.Listener) { _ = c.Close() }(listener)
	return listener.Addr().String()
}

// startClickHouse starts the engine of the history as `lumenhook run` does.
func (l *lab) startClickHouse(dir string) *clickhouse.Engine {
	l.Helper()
	found, err := clickhouse.Find(l.Context(),
		clickhouse.Options{InstalledOnly: true, Logger: discarded})
	must(l, err)
	e, err := clickhouse.Start(l.Context(), clickhouse.Config{
		Program:    found,
		DataDir:    filepath.Join(dir, "clickhouse"),
		Grants:     writer.Grants("lumenhook"),
		Logger:     discarded,
		NativeAddr: "127.0.0.1:0",
		HTTPAddr:   "127.0.0.1:0",
	})
	must(l, err)
	l.Cleanup(func() { _ = e.Stop() })
	return e
}

// commits writes matches in transactions at a rate, one transaction at a time per partition, each
// with all matches that are due by then. It returns how long the matches took since they were
// due. A service that neither loses nor duplicates anything has to wait for such a transaction
// before each request.
func (s *service) commits(rate float64) (p50, p99 float64) {
	s.Helper()
	const prefix = "floor."
	must(s, s.cluster(prefix).EnsureTopics(s.Context(), []kafka.TopicSpec{{
		Name:              schemas.TopicJournal,
		Partitions:        partitions,
		ReplicationFactor: realBrokers,
	}}))
	var all sync.WaitGroup
	due, took := make([]chan time.Time, partitions), make([][]time.Duration, partitions)
	errs := make([]error, partitions)
	for p := range due {
		writer, err := kgo.NewClient(
			kgo.SeedBrokers(s.run.KafkaBrokers...),
			kgo.TransactionalID(prefix+strconv.Itoa(p)),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()),
			kgo.ProducerLinger(0),
		)
		must(s, err)
		defer writer.Close()
		match := s.payments.match("commits", p)
		record := kgo.Record{
			Topic:     prefix + schemas.TopicJournal,
			Partition: int32(p),
			Key:       match.Key,
			Value:     match.Value,
		}
		must(s, s.commit(writer, record, 1)) // the first transaction of a writer does not count
		due[p] = make(chan time.Time, 4096)
		all.Go(func() {
			for first := range due[p] {
				batch := []time.Time{first}
				for len(due[p]) > 0 {
					batch = append(batch, <-due[p])
				}
				errs[p] = errors.Join(errs[p], s.commit(writer, record, len(batch)))
				for _, at := range batch {
					took[p] = append(took[p], time.Since(at))
				}
			}
		})
	}
	s.pace(rate, func(n int) func() error {
		return func() error {
			due[n%partitions] <- time.Now()
			return nil
		}
	})
	for p := range due {
		close(due[p])
	}
	all.Wait()
	must(s, errors.Join(errs...))
	return percentiles(slices.Concat(took...))
}

// commit writes n copies of a record in one transaction.
func (s *service) commit(writer *kgo.Client, record kgo.Record, n int) error {
	if err := writer.BeginTransaction(); err != nil {
		return err
	}
	batch := make([]*kgo.Record, n)
	for i := range batch {
		one := record
		batch[i] = &one
	}
	if err := writer.ProduceSync(s.Context(), batch...).FirstErr(); err != nil {
		return err
	}
	if err := kafka.AwaitStored(s.Context(), writer, batch); err != nil {
		return err
	}
	return writer.EndTransaction(s.Context(), kgo.TryCommit)
}
