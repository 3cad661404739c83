package bench

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
)

var (
	deliveries = flag.Int("deliveries", 200_000, "deliveries of a run at full speed, at least")
	fullTime   = flag.Duration("time", time.Minute, "how long such a run appends, at least")
	floorTime  = flag.Duration("floor-time", 5*time.Second, "how long a floor is measured")
	ahead      = flag.Int("ahead", 50_000, "matches that are appended ahead of the deliveries")
	warm       = flag.Int("warm", 2000, "deliveries and posts that are not counted, before each run")
	past       = flag.Int("past", 10_000_000, "History, Restore: deliveries that were made before")
	deep       = flag.Int("deep", 1_000_000, "Backlog: matches that are appended at once")
	shallow    = flag.Int("shallow", 10_000, "Backlog: what it is compared with")
	cache      = flag.String("cache", "", "where a deployment with a past is kept; empty: the user's cache")
)

// deliverEndpoints is the usual number of endpoints that a service delivers to.
const deliverEndpoints = 8

// BenchmarkDeliver delivers at full speed, from the first append until the history contains every
// attempt.
func BenchmarkDeliver(b *testing.B) {
	for _, sync := range []bool{false, true} {
		for _, endpoints := range []int{1, deliverEndpoints, 100} {
			b.Run(fmt.Sprintf("endpoints=%d/sync=%v", endpoints, sync), measured(deliver(endpoints, sync)))
		}
	}
}

func deliver(endpoints int, sync bool) func(*lab) metrics {
	return func(l *lab) metrics {
		got := l.postFloor()
		s := l.serve(endpoints, "--broker-sync="+strconv.FormatBool(sync))
		return got.and("", s.warmed().fullSpeed(usual()))
	}
}

func usual() full { return full{atLeast: *deliveries, lasts: *fullTime, ahead: *ahead} }

// postFloor measures how many requests a plain net/http client can post to the same receiver.
func (l *lab) postFloor() metrics {
	l.Helper()
	post := l.bare()
	l.warmPosts(post)
	began, before := time.Now(), l.own()
	run := l.ownRun("posts")
	n := l.postUntil(post, run, func(n int) bool {
		return n >= *warm && time.Since(began) >= *floorTime
	})
	return metrics{
		"floor-deliveries/s": float64(n) / time.Since(began).Seconds(),
		"floor-processor-µs": (l.own() - before) / float64(n),
	}
}

// warmPosts opens connections and starts counting.
func (l *lab) warmPosts(post post) {
	l.Helper()
	l.expect(*warm)
	l.postUntil(post, l.ownRun("warm"), func(n int) bool { return n >= *warm })
	l.expect(0)
}

// and adds other metrics with a prefix to their names.
func (m metrics) and(prefix string, others metrics) metrics {
	for name, v := range others {
		m[prefix+name] = v
	}
	return m
}

// warmed makes deliveries that do not count.
func (s *service) warmed() *service {
	s.Helper()
	s.all(s.ownRun("warm"), full{atLeast: *warm, ahead: *warm})
	return s
}

// all delivers events. It returns their number, the time until the history had them, and how much
// of that time passed after the last arrival.
func (s *service) all(run string, how full) (n int, took, behind time.Duration) {
	s.Helper()
	s.expect(how.atLeast)
	began := time.Now()
	n = s.append(run, how)
	arrived := s.awaitArrivals(n)
	s.awaitHistory(n)
	return n, time.Since(began), time.Since(arrived)
}

// fullSpeed measures the rate of a warm service, and the processor time per delivery.
func (s *service) fullSpeed(how full) metrics {
	s.Helper()
	before := s.used()
	n, took, behind := s.all(s.ownRun("full"), how)
	got := metrics{
		"deliveries/s":     float64(n) / took.Seconds(),
		"s-history-behind": behind.Seconds(),
	}
	return got.and("", s.spent(before, n))
}

// spent returns the processor time per delivery since before, in total and by process.
func (s *service) spent(before metrics, n int) metrics {
	s.Helper()
	got := metrics{}
	for process, micros := range s.used() {
		each := (micros - before[process]) / float64(n)
		got[process+"-µs"] = each
		got["processor-µs"] += each
	}
	return got
}

// BenchmarkBacklog delivers many matches that all exist at the beginning. For its floor, only a
// few exist at any time.
func BenchmarkBacklog(b *testing.B) { measured(backlog)(b) }

func backlog(l *lab) metrics {
	how := usual()
	how.ahead = *shallow
	s := l.serve(deliverEndpoints)
	got := metrics{}.and("floor-", s.warmed().fullSpeed(how))
	s.stop()
	s = l.serve(deliverEndpoints)
	return got.and("", s.warmed().fullSpeed(full{atLeast: *deep, ahead: *deep}))
}

// BenchmarkHistory delivers with many past deliveries. Its floor has an empty history.
func BenchmarkHistory(b *testing.B) { measured(afterPast)(b) }

func afterPast(l *lab) metrics {
	s := l.serve(deliverEndpoints)
	got := metrics{}.and("floor-", s.warmed().fullSpeed(usual()))
	s.stop()
	s = l.servePast()
	got.and("", s.warmed().fullSpeed(usual()))
	rows, err := s.rows()
	must(l, err)
	got["past-deliveries"] = float64(rows)
	s.stop()
	return got
}

func pastDir(t testing.TB) string {
	t.Helper()
	if *cache != "" {
		return filepath.Join(*cache, "deployment")
	}
	dir, err := os.UserCacheDir()
	must(t, err)
	return filepath.Join(dir, "lumenhook", "bench-history", "deployment")
}

// servePast starts the service on a folder that is kept, and delivers until there are at least as
// many past deliveries as -past requires. Each run adds its own deliveries.
func (l *lab) servePast() *service {
	l.Helper()
	s := l.startRun(pastDir(l))
	have, err := s.api().ListEndpoints(l.Context(), client.EndpointFilter{}, client.Page{Limit: 100})
	must(l, err)
	s.payments = payments{account: s.run.AccountID}
	for n, e := range have.Data { // the receiver's port differs from that of the previous run
		_, err := s.api().UpdateEndpoint(l.Context(), e.ID,
			client.Patch{"url": s.server.URL + "/" + strconv.Itoa(n)})
		must(l, err)
		s.payments.endpoints = append(s.payments.endpoints, e.ID)
	}
	if len(have.Data) == 0 {
		s.createEndpoints(deliverEndpoints)
	}
	s.settle()
	for s.before < *past {
		s.all(s.ownRun("past"), full{atLeast: min(250_000, *past-s.before), ahead: *ahead})
		s.begin()
		l.Logf("%d of %d past deliveries", s.before, *past)
	}
	return s
}

// settle waits until the service adds nothing to the history, because an interrupted run may have
// left deliveries that are made now.
func (s *service) settle() {
	s.Helper()
	for latest := -1; latest != s.before; {
		latest = s.before
		<-time.After(2 * time.Second)
		s.begin()
	}
}

// BenchmarkMemory measures the memory of the real program, and the time to restart it.
func BenchmarkMemory(b *testing.B) { measured(memory)(b) }

func memory(l *lab) metrics {
	const starts = 3
	s := l.serve(deliverEndpoints)
	<-time.After(5 * time.Second)
	got := metrics{}
	for process, mib := range s.memory("VmRSS") {
		got[process+"-rest-MiB"] = mib
	}
	s.all(s.ownRun("memory"), full{
		atLeast: min(*deliveries, *ahead+2**warm),
		lasts:   min(*fullTime, 2**floorTime),
		ahead:   *ahead,
	})
	for process, mib := range s.memory("VmHWM") {
		got[process+"-most-MiB"] = mib
	}
	s.stop()
	var took []float64
	for range starts {
		s = l.startRun(s.dir)
		took = append(took, time.Since(s.began).Seconds())
		s.stop()
	}
	slices.Sort(took)
	got["s-warm-start"] = took[starts/2]
	return got
}
