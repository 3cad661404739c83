package node

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/task"
	"github.com/lumenhook/lumenhook/streams/topology"
)

type projectionLag struct {
	projector *writer.Projector
	records   *prometheus.Desc
	seconds   *prometheus.Desc
}

// lagWaitMax bounds how long a scrape waits for its values.
const lagWaitMax = 2 * time.Second

func newProjectionLag(p *writer.Projector) projectionLag {
	return projectionLag{
		projector: p,
		records: prometheus.NewDesc("lumenhook_projection_lag_records",
			"Records, including control records, in this projector's partitions that are not in the "+
				"history yet, by topic.",
			[]string{"topic"}, nil),
		seconds: prometheus.NewDesc("lumenhook_projection_lag_seconds",
			"Age of the oldest fact in the last written block when it became readable.", nil, nil),
	}
}

func (l projectionLag) Describe(to chan<- *prometheus.Desc) {
	to <- l.records
	to <- l.seconds
}

// Collect omits unknown values, because the broker may be unavailable.
func (l projectionLag) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(l.seconds, prometheus.GaugeValue,
		l.projector.Status().Delay.Seconds())
	ctx, cancel := context.WithTimeout(context.Background(), lagWaitMax)
	defer cancel()
	by, err := l.projector.LagByTopic(ctx)
	if err != nil {
		return
	}
	for topic, records := range by {
		to <- prometheus.MustNewConstMetric(l.records, prometheus.GaugeValue, float64(records), topic)
	}
}

// endpointsDown exports the number of endpoints that are down, counted at each scrape. It is
// omitted while the history cannot be read.
type endpointsDown struct {
	history *History
	now     func() time.Time
}

var endpointsDownDesc = prometheus.NewDesc("lumenhook_endpoints_down",
	"Active endpoints of all accounts whose last attempt failed, with no successful attempt "+
		"for 5 minutes or more.", nil, nil)

func (d endpointsDown) Describe(to chan<- *prometheus.Desc) { to <- endpointsDownDesc }

func (d endpointsDown) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), lagWaitMax)
	defer cancel()
	if n, err := d.history.EndpointsDown(ctx, d.now().UnixMilli()); err == nil {
		to <- prometheus.MustNewConstMetric(endpointsDownDesc, prometheus.GaugeValue, float64(n))
	}
}

// engineStats exports statistics of an engine's partitions, read at each scrape. They are sums,
// because a series per partition would produce thousands.
type engineStats struct {
	stats    func() []engine.PartitionStats
	standbys func() []task.StandbyStats
	now      func() time.Time
}

var (
	partitionsDesc = prometheus.NewDesc("lumenhook_engine_partitions",
		"Partitions of this engine, by state: working or restoring.", []string{"state"}, nil)
	restoreLeftDesc = prometheus.NewDesc("lumenhook_restore_left_records",
		"Journal offsets left to fold until all partitions of this engine work.",
		nil, nil)
	restoreDoneDesc = prometheus.NewDesc("lumenhook_restore_ratio",
		"Share of the journal folded that this engine's partitions need, from 0 to 1.", nil,
		nil)
	underWayDesc = prometheus.NewDesc("lumenhook_attempts_in_flight",
		"Attempts of this engine in flight.", nil, nil)
	waitingDesc = prometheus.NewDesc("lumenhook_endpoints_waiting",
		"Endpoints of this engine with pending deliveries, by reason: due (ready to send), later (an "+
			"attempt is scheduled), held_back (it has its maximum of attempts in flight, has reached its "+
			"rate limit, or is disabled).",
		[]string{"why"}, nil)
	oldestDueDesc = prometheus.NewDesc("lumenhook_oldest_due_seconds",
		"How long the longest-waiting due delivery of this engine has been due.", nil, nil)
	inputLagDesc = prometheus.NewDesc("lumenhook_engine_lag_records",
		"Records of input topics that this engine has not processed, by topic.", []string{"topic"},
		nil)
	snapshotsRestDesc = prometheus.NewDesc("lumenhook_snapshots_resting_partitions",
		"Partitions of this engine whose latest snapshot could not be written.",
		nil, nil)
	standbysDesc = prometheus.NewDesc("lumenhook_standby_partitions",
		"Standby copies of other engines' partitions, by state: following their journal or "+
			"catching up.", []string{"state"}, nil)
	standbyLagDesc = prometheus.NewDesc("lumenhook_standby_lag_records",
		"Journal offsets that the following standby copies lack, by their latest fetches.", nil, nil)
)

func (s engineStats) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		partitionsDesc, restoreLeftDesc, restoreDoneDesc, underWayDesc, waitingDesc,
		oldestDueDesc, inputLagDesc, snapshotsRestDesc, standbysDesc, standbyLagDesc,
	} {
		to <- d
	}
}

func (s engineStats) Collect(to chan<- prometheus.Metric) {
	var working, restoring, resting, underWay, due, later, heldBack, left, total, dueSince int64
	lags := make(map[string]int64)
	for _, topic := range engine.Inputs() {
		lags[topic] = 0
	}
	for _, p := range s.stats() {
		if p.Restored {
			working++
		} else {
			restoring++
			left += p.End - p.At
		}
		if p.SnapshotFailures > 0 {
			resting++
		}
		total += p.End - p.From
		underWay += int64(p.InFlight)
		due, later, heldBack = due+int64(p.Timers.Due), later+int64(p.Timers.Later),
			heldBack+int64(p.Timers.HeldBack)
		if since := p.Timers.DueSinceMillis; since > 0 && (dueSince == 0 || since < dueSince) {
			dueSince = since
		}
		for _, in := range p.Inputs {
			lags[in.Topic] += in.Behind
		}
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(partitionsDesc, float64(working), "working")
	gauge(partitionsDesc, float64(restoring), "restoring")
	gauge(restoreLeftDesc, float64(left))
	gauge(restoreDoneDesc, ratio(total-left, total))
	gauge(snapshotsRestDesc, float64(resting))
	gauge(underWayDesc, float64(underWay))
	gauge(waitingDesc, float64(due), "due")
	gauge(waitingDesc, float64(later), "later")
	gauge(waitingDesc, float64(heldBack), "held_back")
	gauge(oldestDueDesc, age(dueSince, s.now()))
	for topic, records := range lags {
		gauge(inputLagDesc, float64(records), topic)
	}
	s.collectStandbys(gauge)
}

func (s engineStats) collectStandbys(
	gauge func(d *prometheus.Desc, value float64, labels ...string),
) {
	var following, catchingUp, lag int64
	for _, c := range s.standbys() {
		if !c.Following {
			catchingUp++
			continue
		}
		following++
		lag += c.Behind
	}
	gauge(standbysDesc, float64(following), "following")
	gauge(standbysDesc, float64(catchingUp), "catching_up")
	gauge(standbyLagDesc, float64(lag))
}

func ratio(part, of int64) float64 {
	if of == 0 {
		return 1
	}
	return float64(part) / float64(of)
}

func age(sinceMillis int64, now time.Time) float64 {
	if sinceMillis == 0 {
		return 0
	}
	return max(0, now.Sub(time.UnixMilli(sinceMillis)).Seconds())
}

type readyParts struct {
	ready func(context.Context) []Report
}

var readyDesc = prometheus.NewDesc("lumenhook_ready",
	"Whether a part of this process works: 1, or 0 if it fails (/readyz shows the reason).",
	[]string{"part"}, nil)

func (r readyParts) Describe(to chan<- *prometheus.Desc) { to <- readyDesc }

func (r readyParts) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), lagWaitMax)
	defer cancel()
	said := make(map[string]bool)
	for _, report := range r.ready(ctx) {
		if said[report.Name] {
			continue
		}
		said[report.Name] = true
		works := 0.0
		if report.Err == nil {
			works = 1
		}
		to <- prometheus.MustNewConstMetric(readyDesc, prometheus.GaugeValue, works, report.Name)
	}
}

// retainedTopics exports which records an engine's partitions need, as of the latest retention
// round.
type retainedTopics func() []topology.RetentionStatus

var (
	firstOffsetDesc = prometheus.NewDesc("lumenhook_topic_first_offset",
		"First offset of each of this engine's partitions, by topic.",
		[]string{"topic", "partition"}, nil)
	safeOffsetDesc = prometheus.NewDesc("lumenhook_topic_safe_offset",
		"Offset up to which records of each of this engine's partitions can be deleted, because nothing "+
			"needs them, by topic.",
		[]string{"topic", "partition"}, nil)
	heldDesc = prometheus.NewDesc("lumenhook_topic_held_partitions",
		"Partitions of this engine, by topic and by what needs their first undeletable record: "+
			"a group, or the state.",
		[]string{"topic", "by"}, nil)
)

func (r retainedTopics) Describe(to chan<- *prometheus.Desc) {
	to <- firstOffsetDesc
	to <- safeOffsetDesc
	to <- heldDesc
}

func (r retainedTopics) Collect(to chan<- prometheus.Metric) {
	held := make(map[[2]string]int)
	for _, s := range r() {
		partition := strconv.Itoa(int(s.Partition))
		to <- prometheus.MustNewConstMetric(firstOffsetDesc, prometheus.GaugeValue, float64(s.First),
			s.Topic, partition)
		to <- prometheus.MustNewConstMetric(safeOffsetDesc, prometheus.GaugeValue, float64(s.Safe),
			s.Topic, partition)
		held[[2]string{s.Topic, s.HeldBy}]++
	}
	for by, partitions := range held {
		to <- prometheus.MustNewConstMetric(heldDesc, prometheus.GaugeValue, float64(partitions),
			by[0], by[1])
	}
}
