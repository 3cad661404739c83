package topology

import (
	"context"
	"math"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// growth estimates the size of a partition's records from its growth since the size was first read
// or files were freed. A broker reports the size of its files, and frees them some time after
// records were deleted. Dividing that size by the remaining records would overestimate them after
// every deletion, and delete more and more. Files that are freed unnoticed lead to an
// underestimate, which is safe.
type growth struct {
	size, end int64 // when measuring began
	latest    int64
	known     bool
	mean      float64 // bytes per offset; 0 until it has grown
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

type growths map[string]map[int32]*growth

// offsets returns how many of a partition's offsets take size bytes, or the largest number if
// unknown.
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
