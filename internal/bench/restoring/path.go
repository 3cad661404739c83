package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// receiver answers 200 and counts what it gets.
type receiver struct {
	server *httptest.Server
	roots  string
	got    atomic.Int64
}

func (l *lab) receive() (*receiver, error) {
	r := &receiver{roots: filepath.Join(l.dir, "receiver.pem")}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(
		func(_ http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			r.got.Add(1)
		}))
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.server.StartTLS()
	return r, os.WriteFile(r.roots, pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE",
		Bytes: r.server.Certificate().Raw,
	}), 0o600)
}

// readAll says for who else reads the topics that they have everything.
func (l *lab) readAll(ctx context.Context) error {
	asking, err := l.cluster.NewEnds()
	if err != nil {
		return err
	}
	defer asking.Close()
	ends := make(map[string]streams.Offsets) // by group
	for _, topic := range topology.Retained() {
		of, err := asking.Of(ctx, topic.Name)
		if err != nil {
			return err
		}
		for _, group := range topic.Readers {
			if group == "engine" {
				continue
			}
			if ends[group] == nil {
				ends[group] = make(streams.Offsets)
			}
			ends[group][topic.Name] = of
		}
	}
	for group, offsets := range ends {
		if err := l.cluster.Hold(ctx, group, offsets); err != nil {
			return err
		}
	}
	return nil
}

// snapshotBytes returns what the newest whole snapshots hold, and what they take in the topic.
func (l *lab) snapshotBytes(ctx context.Context) (live, compressed int64, err error) {
	asking, err := l.cluster.NewEnds()
	if err != nil {
		return 0, 0, err
	}
	defer asking.Close()
	starts, err := asking.Starts(ctx, schemas.TopicSnapshots)
	if err != nil {
		return 0, 0, err
	}
	ends, err := asking.Of(ctx, schemas.TopicSnapshots)
	if err != nil {
		return 0, 0, err
	}
	reader, err := l.cluster.NewReader(streams.ReaderConfig{
		From:        streams.Offsets{schemas.TopicSnapshots: starts},
		SkipExpired: true,
	})
	if err != nil {
		return 0, 0, err
	}
	defer reader.Close()
	size, newest := make(map[string]int64), make(map[int32][2]int64)
	err = reader.ReadTo(ctx, schemas.TopicSnapshots, ends, 64, func(r streams.Record) error {
		size[string(r.Key)] += int64(len(r.Value))
		if r.Header(streams.HeaderManifest) == "" {
			return nil
		}
		var m struct {
			Bytes int64 `json:"bytes"`
		}
		err := json.Unmarshal(r.Value, &m)
		newest[r.Partition] = [2]int64{m.Bytes, size[string(r.Key)]}
		return err
	})
	for _, s := range newest {
		live, compressed = live+s[0], compressed+s[1]
	}
	return live, compressed, err
}

// cycle is how many deliveries are made while every partition writes a snapshot or so.
func (l *lab) cycle() int { return l.opt.partitions * 40_000 }

// topics makes deliveries while retention deletes, and looks every second what the topics
// take, once each partition has deleted the beginning of its journal.
func (l *lab) topics(ctx context.Context) error {
	r, err := l.receive()
	if err != nil {
		return err
	}
	defer r.server.Close()
	p, err := l.begin(childFlags{
		kind:      "engine",
		dir:       filepath.Join(l.dir, "path"),
		snapshots: true,
		retain:    true,
		receiver:  r.server.URL,
		roots:     r.roots,
	})
	if err != nil {
		return err
	}
	during := measuring.Meanwhile()
	var samples []map[string]int64
	// Until two snapshots are written, the journal still has its beginning.
	err = l.delivering(ctx, p, r, 2*l.cycle(), func() error { return nil })
	if err == nil {
		err = l.delivering(ctx, p, r, 3*l.cycle(), func() error {
			by, err := topicBytes(filepath.Join(l.dir, "broker"))
			samples = append(samples, by)
			return err
		})
	}
	if err := errors.Join(err, p.Stop(syscall.SIGTERM)); err != nil {
		return err
	}
	live, compressed, err := l.snapshotBytes(ctx)
	if err != nil {
		return err
	}
	l.reportTopics(during(), samples, float64(live), float64(compressed))
	return nil
}

func (l *lab) reportTopics(
	during measuring.Load, samples []map[string]int64, live, compressed float64,
) {
	l.results.add(during, "live state by the newest snapshots", "MB", 0, live/1e6)
	l.results.add(during, "these snapshots in their topic", "MB", 0, compressed/1e6)
	of := make(map[string][]float64)
	var all, ratios []float64
	for _, by := range samples {
		sum := 0.0
		for topic, bytes := range by {
			sum += float64(bytes)
			of[topic] = append(of[topic], float64(bytes)/1e6)
		}
		all, ratios = append(all, sum/1e6), append(ratios, sum/live)
	}
	for _, topic := range slices.Sorted(maps.Keys(of)) {
		if slices.Max(of[topic]) >= 1 {
			l.results.add(during, "topic "+topic, "MB", 0, of[topic]...)
		}
	}
	l.results.add(during, "all topics", "MB", 0, all...)
	l.results.add(during, "all topics, of the live state", "times", aimTopics, ratios...)
}

// delivering makes so many deliveries, and looks every second.
func (l *lab) delivering(
	ctx context.Context, p *child, r *receiver, n int, look func() error,
) error {
	feeding, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	from := l.appended
	l.appended += n
	go func() {
		_, err := l.feed(feeding, "more", from, n, r.got.Load)
		ended <- err
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-p.Ended:
			return errors.New("the engine ended; see " + p.Log())
		case <-tick.C:
		}
		if err := errors.Join(l.readAll(ctx), look()); err != nil {
			return err
		}
	}
}

// pathRun is what a run of the deliver path took.
type pathRun struct{ rate, engine, others, chunks float64 }

// cost measures the deliver path with snapshots and without, one after the other, in turns.
func (l *lab) cost(ctx context.Context) error {
	r, err := l.receive()
	if err != nil {
		return err
	}
	defer r.server.Close()
	n := l.opt.cycles * l.cycle()
	if _, err := l.path(ctx, r, true, l.cycle()); err != nil { // its first is not counted
		return err
	}
	during := measuring.Meanwhile()
	var with, without []pathRun
	for pair := range l.opt.pairs {
		for _, on := range []bool{pair%2 == 0, pair%2 != 0} {
			run, err := l.path(ctx, r, on, n)
			if err != nil {
				return err
			}
			if on {
				with = append(with, run)
			} else {
				without = append(without, run)
			}
		}
	}
	l.reportCost(during(), with, without)
	return nil
}

func (l *lab) reportCost(during measuring.Load, with, without []pathRun) {
	each := func(runs []pathRun, what func(pathRun) float64) (list []float64) {
		for _, r := range runs {
			list = append(list, what(r))
		}
		return list
	}
	rate := func(r pathRun) float64 { return r.rate }
	own := func(r pathRun) float64 { return r.engine }
	all := func(r pathRun) float64 { return r.engine + r.others }
	for name, runs := range map[string][]pathRun{"with": with, "without": without} {
		l.results.add(during, name+" snapshots: deliveries", "1/s", 0, each(runs, rate)...)
		l.results.add(during, name+" snapshots: processor, engine", "µs", 0, each(runs, own)...)
		l.results.add(during, name+" snapshots: processor, all", "µs", 0, each(runs, all)...)
	}
	l.results.add(during, "chunks of snapshots written in a run", "", 0,
		each(with, func(r pathRun) float64 { return r.chunks })...)
	var slower, dearer, dearerAll []float64
	for i := range with {
		slower = append(slower, 100*(without[i].rate/with[i].rate-1))
		dearer = append(dearer, 100*(own(with[i])/own(without[i])-1))
		dearerAll = append(dearerAll, 100*(all(with[i])/all(without[i])-1))
	}
	l.results.add(during, "snapshots: time a delivery, more than without", "%", aimCost, slower...)
	l.results.add(during, "snapshots: processor of the engine, more than without", "%", 0, dearer...)
	l.results.add(during, "snapshots: processor of the whole path, more than without", "%", aimCost,
		dearerAll...)
}

// path delivers n webhooks over HTTP.
func (l *lab) path(
	ctx context.Context, r *receiver, snapshots bool, n int,
) (run pathRun, err error) {
	p, err := l.begin(childFlags{
		kind:      "engine",
		dir:       filepath.Join(l.dir, "path"),
		snapshots: snapshots,
		receiver:  r.server.URL,
		roots:     r.roots,
	})
	if err != nil {
		return run, err
	}
	err = p.Await("every partition", restoreMax, func(events []event) bool {
		return len(latest(events).Owned) == l.opt.partitions
	})
	defer func() { err = errors.Join(err, p.Stop(syscall.SIGTERM)) }()
	if err != nil {
		return run, err
	}
	const warm = 5000
	if _, err := l.feed(ctx, "more", l.appended, warm, r.got.Load); err != nil {
		return run, err
	}
	l.appended += warm
	before, err := l.used(ctx, p)
	if err != nil {
		return run, err
	}
	began := time.Now()
	if _, err := l.feed(ctx, "more", l.appended, n, r.got.Load); err != nil {
		return run, err
	}
	l.appended += n
	took := time.Since(began)
	after, err := l.used(ctx, p)
	each := 1e6 / float64(n)
	return pathRun{
		rate:   float64(n) / took.Seconds(),
		engine: each * (after[0] - before[0]),
		others: each * (after[1] - before[1]),
		chunks: after[2] - before[2],
	}, err
}

// used returns the processor time of an engine and of this process, in seconds, and how many
// records the topic of snapshots has had.
func (l *lab) used(ctx context.Context, p *child) (list [3]float64, err error) {
	for i, pid := range []int{p.PID(), os.Getpid()} {
		time, err := measuring.ProcessorTime(pid)
		if err != nil {
			return list, err
		}
		list[i] = time.Seconds()
	}
	asking, err := l.cluster.NewEnds()
	if err != nil {
		return list, err
	}
	defer asking.Close()
	ends, err := asking.Of(ctx, schemas.TopicSnapshots)
	for _, end := range ends {
		list[2] += float64(end)
	}
	return list, err
}
