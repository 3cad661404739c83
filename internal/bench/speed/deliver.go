package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
)

// deliverRun is one run of a deliver line, beside its floors.
type deliverRun struct {
	Line       string `json:"line"`
	Endpoints  int    `json:"endpoints"`
	Sync       bool   `json:"brokerSync"`
	RealKafka  bool   `json:"realKafka"` // three brokers of it, in place of the embedded one
	Repetition int    `json:"repetition"`

	Deliveries int     `json:"deliveries"`
	Seconds    float64 `json:"seconds"` // from the first append until the history had all
	Rate       float64 `json:"deliveriesPerSecond"`
	Arriving   float64 `json:"arrivalsPerSecond"`    // the same until the last arrived
	Behind     float64 `json:"historyBehindSeconds"` // from the last arrival

	NetHTTP floorRun `json:"netHttpClient"`
	Egress  floorRun `json:"egressClient,omitzero"`
	Kafka   floorRun `json:"kafkaConsumeTransactProduce,omitzero"`

	// Processor is the time in microseconds that a delivery took of each process.
	Processor map[string]float64 `json:"processorMicros"`
	Resident  map[string]float64 `json:"residentMiB"` // at the end
	Load      measuring.Load     `json:"load"`
}

// floorRun is one run of a floor.
type floorRun struct {
	N         int                `json:"n"`
	Rate      float64            `json:"perSecond"`
	Processor map[string]float64 `json:"processorMicros"`
	Load      measuring.Load     `json:"load"`
}

// processes, as figures name them
const (
	ofService    = "service"
	ofClickHouse = "ClickHouse"
	ofReceiver   = "receiver"
	ofLoad       = "load"
	ofRelay      = "broker and relay"
	ofBrokers    = "real brokers"
)

func deliverLine(endpoints int, sync bool) string {
	name := "deliver, " + strconv.Itoa(endpoints) + " endpoint"
	if endpoints != 1 {
		name += "s"
	}
	if sync {
		name += ", --broker-sync"
	}
	return name
}

// deliverSteps are a run of each number of endpoints, with fsync and without.
func (l *lab) deliverSteps() (steps []step) {
	for _, sync := range l.opt.syncs {
		for _, endpoints := range l.opt.endpoints {
			steps = append(steps, step{
				name:  deliverLine(endpoints, sync),
				takes: l.deliverTakes(l.opt.Deliveries) + 3*(l.opt.FloorTime+2*time.Second),
				run: func(ctx context.Context, n int) (got record, err error) {
					run, err := l.deliver(ctx, n, endpoints, sync)
					if err == nil {
						got.Deliver = append(got.Deliver, run)
					}
					return got, err
				},
			})
		}
	}
	return steps
}

// usualRate is about what two cores deliver in a second: for what is said of how long it takes.
const usualRate = 6500

// deliverTakes is about how long a run at full speed takes, with the service's start and end.
func (l *lab) deliverTakes(deliveries int) time.Duration {
	const startAndEnd = 12 * time.Second
	ahead := float64(l.opt.Backlog+2*l.opt.Warm) / usualRate
	run := max(l.opt.Time.Seconds()+ahead, float64(deliveries)/usualRate)
	return startAndEnd + time.Duration(run*float64(time.Second))
}

// deliver measures the floors, and then a service of its own.
func (l *lab) deliver(
	ctx context.Context, repetition, endpoints int, sync bool,
) (r deliverRun, err error) {
	r = deliverRun{
		Line:       deliverLine(endpoints, sync),
		Endpoints:  endpoints,
		Sync:       sync,
		Repetition: repetition,
	}
	if r.NetHTTP, err = l.postFloor(ctx, loadPosts); err != nil {
		return r, fmt.Errorf("the floor of net/http: %w", err)
	}
	if r.Egress, err = l.postFloor(ctx, loadEgress); err != nil {
		return r, fmt.Errorf("the floor of egress: %w", err)
	}
	if r.Kafka, err = l.kafkaFloor(ctx, sync); err != nil {
		return r, fmt.Errorf("the floor of Kafka: %w", err)
	}
	return r, l.deliverFresh(ctx, &r, l.full())
}

// full is what is appended in a run at full speed.
func (l *lab) full() task {
	return task{AtLeast: l.opt.Deliveries, Time: l.opt.Time, Backlog: l.opt.Backlog}
}

// deliverFresh measures a service of its own.
func (l *lab) deliverFresh(ctx context.Context, r *deliverRun, t task) error {
	s, err := l.serve(ctx, serving{
		sync:      r.Sync,
		endpoints: r.Endpoints,
		profiled:  l.opt.profiles != "",
	})
	if err != nil {
		return err
	}
	err = l.warm(ctx, s)
	if err == nil {
		err = l.deliverBy(ctx, s, r, t)
	}
	return errors.Join(err, s.stop())
}

// warm makes deliveries that are not counted.
func (l *lab) warm(ctx context.Context, s *service) error {
	_, err := l.deliverAll(ctx, s,
		task{Run: l.ownRun("warm"), AtLeast: l.opt.Warm, Backlog: l.opt.Warm})
	return err
}

// ownRun names a run whose events nobody had before, not even a deployment that is kept.
func (l *lab) ownRun(name string) string {
	l.runs++
	return fmt.Sprintf("%s %s %d", name, filepath.Base(l.dir), l.runs)
}

// delivered is when matches were appended, arrived and were in the history.
type delivered struct {
	loaded
	arrived, inHistory time.Time
}

// deliverAll appends, at full speed unless another load is named, and waits until the history
// has every attempt.
func (l *lab) deliverAll(ctx context.Context, s *service, t task) (d delivered, err error) {
	if t.Kind == "" {
		t.Kind = loadAppends
	}
	t.Counter = l.receiver.Counter
	t.Cluster, t.Payments = s.cluster(), s.payments
	if err := l.arrived().expect(ctx, t.AtLeast); err != nil {
		return d, err
	}
	if d.loaded, err = l.load(ctx, t); err != nil {
		return d, err
	}
	all, err := l.arrived().await(ctx, d.n)
	if err != nil {
		return d, err
	}
	err = s.awaitHistory(ctx, d.n+d.warm)
	d.arrived, d.inHistory = time.Unix(0, all.Last), time.Now()
	return d, err
}

// deliverBy measures a service that is warm.
func (l *lab) deliverBy(ctx context.Context, s *service, r *deliverRun, t task) error {
	during := measuring.Meanwhile()
	before, err := l.used(s)
	if err != nil {
		return err
	}
	t.Run = l.ownRun(r.Line)
	var d delivered
	do := func() error {
		d, err = l.deliverAll(ctx, s, t)
		return err
	}
	if s.profilable {
		_, err = s.profiled(ctx, do)
	} else {
		err = do()
	}
	if err != nil {
		return err
	}
	after, err := l.used(s)
	if err != nil {
		return err
	}
	r.Load = during()
	n := float64(d.n)
	r.Deliveries, r.Seconds = d.n, d.inHistory.Sub(d.began).Seconds()
	r.Rate, r.Arriving = n/r.Seconds, n/d.arrived.Sub(d.began).Seconds()
	r.Behind = d.inHistory.Sub(d.arrived).Seconds()
	r.Processor = map[string]float64{ofLoad: d.processor / n * 1e6}
	for process := range after {
		r.Processor[process] = (after[process] - before[process]) / n * 1e6
	}
	r.Resident, err = s.resident()
	return err
}

// used is what each process has used so far, in seconds.
func (l *lab) used(s *service) (map[string]float64, error) {
	own, children, err := s.used()
	if err != nil {
		return nil, err
	}
	receiver, err := measuring.ProcessorTime(l.receives.PID())
	by := map[string]float64{
		ofService:    own,
		ofClickHouse: children,
		ofReceiver:   receiver.Seconds(),
	}
	for _, pid := range s.brokers {
		time, fault := measuring.ProcessorTime(pid)
		by[ofBrokers], err = by[ofBrokers]+time.Seconds(), errors.Join(err, fault)
	}
	return by, err
}

// resident is the memory in use, in MiB.
func (s *service) resident() (by map[string]float64, err error) {
	by = make(map[string]float64)
	if by[ofService], err = measuring.ResidentMiB(s.process.PID()); err != nil {
		return nil, err
	}
	for _, pid := range s.others() {
		if mib, err := measuring.ResidentMiB(pid); err == nil { // it may have ended
			by[ofClickHouse] += mib
		}
	}
	return by, nil
}

// postFloor posts with a bare client for a while.
func (l *lab) postFloor(ctx context.Context, kind string) (f floorRun, err error) {
	during := measuring.Meanwhile()
	before, err := measuring.ProcessorTime(l.receives.PID())
	if err != nil {
		return f, err
	}
	l.posts++
	done, err := l.load(ctx, task{
		Kind:     kind,
		Run:      "posts" + strconv.Itoa(l.posts),
		Payments: paymentsTo("acc_1", "ep_1"),
		Roots:    l.roots,
		Receiver: l.receiver.URL + "/0",
		Counter:  l.receiver.Counter,
		Warm:     l.opt.Warm,
		AtLeast:  l.opt.Warm,
		Time:     l.opt.FloorTime,
	})
	if err != nil {
		return f, err
	}
	all, err := l.arrived().await(ctx, done.n)
	if err != nil {
		return f, err
	}
	after, err := measuring.ProcessorTime(l.receives.PID())
	each := (after - before).Seconds() / float64(done.n+l.opt.Warm)
	return floorOf(done, all, ofReceiver, each, during()), err
}

// floorOf is what a load did, with the seconds of processor time that one took of the process
// that it did it to.
func floorOf(
	done loaded, all count, process string, seconds float64, during measuring.Load,
) floorRun {
	n := float64(done.n)
	return floorRun{
		N:    done.n,
		Rate: n / time.Unix(0, all.Last).Sub(done.began).Seconds(),
		Processor: map[string]float64{
			ofLoad:  done.processor / n * 1e6,
			process: seconds * 1e6,
		},
		Load: during,
	}
}

// kafkaFloor passes matches on by transactions for a while.
func (l *lab) kafkaFloor(ctx context.Context, sync bool) (f floorRun, err error) {
	during := measuring.Meanwhile()
	l.posts++
	dir := filepath.Join(l.dir, "relay-"+strconv.Itoa(l.posts))
	p, err := l.begin(relayChild, task{Dir: dir, Sync: sync})
	if err != nil {
		return f, err
	}
	defer func() {
		err = errors.Join(err, p.Stop(syscall.SIGTERM), os.RemoveAll(dir)) // #nosec G703 -- made here
	}()
	ready, err := reported(p, eventReady, startMax)
	if err != nil {
		return f, err
	}
	t := task{
		Kind:     loadAppends,
		Run:      "relay warm",
		Counter:  ready.Counter,
		Cluster:  cluster{Broker: ready.Broker, Prefix: relayPrefix},
		Payments: paymentsTo("acc_1", relayEndpoints()...),
		AtLeast:  l.opt.Warm,
		Backlog:  l.opt.Backlog,
	}
	// Its first record comes when its group has settled.
	if _, _, err = l.relayed(ctx, t); err != nil {
		return f, err
	}
	before, err := measuring.ProcessorTime(p.PID())
	if err != nil {
		return f, err
	}
	t.Run, t.Time = "relay", l.opt.FloorTime
	done, all, err := l.relayed(ctx, t)
	if err != nil {
		return f, err
	}
	after, err := measuring.ProcessorTime(p.PID())
	return floorOf(done, all, ofRelay, (after-before).Seconds()/float64(done.n), during()), err
}

// relayed appends for a relay and waits until it has passed on all.
func (l *lab) relayed(ctx context.Context, t task) (done loaded, all count, err error) {
	passed := counter{t.Counter}
	if err := passed.expect(ctx, 0); err != nil {
		return done, all, err
	}
	if done, err = l.load(ctx, t); err != nil {
		return done, all, err
	}
	all, err = passed.await(ctx, done.n)
	return done, all, err
}

// relayEndpoints are enough for every partition.
func relayEndpoints() (list []string) {
	for n := range 64 {
		list = append(list, "ep_"+strconv.Itoa(n))
	}
	return list
}
