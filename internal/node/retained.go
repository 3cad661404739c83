package node

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lumenhook/lumenhook/streams/topology"
)

// retainedTopics exports how far the topics of an engine's partitions are needed, as the
// latest round of its retention has found it.
type retainedTopics func() []topology.RetentionStatus

var (
	firstOffsetDesc = prometheus.NewDesc("lumenhook_topic_first_offset",
		"Offset of the first record of a partition of this engine, by topic.",
		[]string{"topic", "partition"}, nil)
	safeOffsetDesc = prometheus.NewDesc("lumenhook_topic_safe_offset",
		"Offset below which nobody needs records of a partition of this engine, by topic: it may be "+
			"deleted up to there.",
		[]string{"topic", "partition"}, nil)
	heldDesc = prometheus.NewDesc("lumenhook_topic_held_partitions",
		"Partitions of this engine, by topic and by who needs their first record that cannot be "+
			"deleted: a group, or the state.",
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
