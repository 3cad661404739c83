package topology

import (
	"context"
	"math"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// growth tracks the size of a partition's records. A broker reports the size of its files, and
// frees whole files, some time after records were deleted. Dividing that size by the number of
// remaining records would overestimate each record after every deletion, and delete more and more.
// So only growth counts, since the size was first read or files were freed. If files are freed
// unnoticed because more was added in the same time, records are underestimated, and more of them
// stay.
type growth struct {
	size, end int64 // at that time
	latest    int64 // size
	known     bool
	mean      float64 // bytes per offset; 0: it has not grown yet
}

func (g *growth) observe(size, end int64) {
	switch {
	case !g.known || size < g.latest:
		g.size, g.end, g.known = size, end, true
	case size > g.size && end > g.end:
		g.mean = float64(size-g.size) / float64(end-g.end)
	}
	g.latest = size
}

// growths are the growths of the partitions that this process has owned, by topic.
type growths map[string]map[int32]*growth

// offsets returns the number of a partition's offsets that take size bytes, or the largest number
// while their size is unknown.
func (g growths) offsets(topic string, partition int32, size int64) int64 {
	of := g[topic][partition]
	if of == nil || of.mean == 0 {
		return math.MaxInt64
	}
	return int64(min(math.Ceil(float64(size)/of.mean), math.MaxInt64/2))
}

func (r *Retention) measure(
	ctx context.Context, d *kafka.Deleter, owned []RetainedPartition,
) error {
	if r.cfg.KeepBytes == 0 {
		return nil
	}
	var partitions []int32
	for _, p := range owned {
		partitions = append(partitions, p.Number)
	}
	var topics []string
	for _, topic := range r.cfg.Topics {
		topics = append(topics, topic.Name)
	}
	sizes, err := d.Sizes(ctx, partitions, topics...)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		ends, err := d.Of(ctx, topic)
		if err != nil {
			return err
		}
		if r.growth[topic] == nil {
			r.growth[topic] = make(map[int32]*growth)
		}
		for _, p := range partitions {
			if r.growth[topic][p] == nil {
				r.growth[topic][p] = &growth{}
			}
			r.growth[topic][p].observe(sizes[topic][p], ends[p])
		}
	}
	return nil
}
