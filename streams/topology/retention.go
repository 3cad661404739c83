package topology

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	everyDefault = time.Minute
	everyFirst   = time.Second
	roundMax     = 30 * time.Second
)

// RetentionConfig configures a retention.
type RetentionConfig struct {
	Cluster kafka.Cluster
	Topics  []RetainedTopic
	// Keep is how long records stay after their timestamp, and KeepBytes how many bytes of a partition
	// stay. 0 means no limit. Records beyond either limit are deleted.
	Keep      time.Duration
	KeepBytes int64
	Owned     func() []RetainedPartition
	Every     time.Duration // default: one minute
	Now       func() time.Time
	Logger    *slog.Logger
}

// Retention deletes records that are not needed.
type Retention struct {
	cfg    RetentionConfig
	growth growths

	mu       sync.Mutex
	statuses []RetentionStatus
	held     map[string]string // the last reported reader, by topic
}

// RetentionStatus is the result of the latest round for a partition.
type RetentionStatus struct {
	Topic     string
	Partition int32
	First     int64  // the topic's first offset before the round
	Safe      int64  // no reader needs records before this offset
	HeldBy    string // the reader that needs the record at Safe
	Known     bool   // false if HeldBy has no position and may need everything
}

// NewRetention returns a retention. Call Run to start it.
func NewRetention(cfg RetentionConfig) *Retention {
	return &Retention{cfg: cfg, growth: make(growths), held: make(map[string]string)}
}

// Statuses returns the results of the latest round, by topic and partition.
func (r *Retention) Statuses() []RetentionStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.statuses)
}

// Run runs rounds until ctx is done.
func (r *Retention) Run(ctx context.Context) error {
	deleter, err := r.cfg.Cluster.NewDeleter()
	if err != nil {
		return err
	}
	defer deleter.Close()
	for retry.Sleep(ctx, r.pause()) == nil {
		round, cancel := context.WithTimeout(ctx, roundMax)
		err := r.round(round, deleter)
		cancel()
		if err != nil && ctx.Err() == nil {
			r.cfg.Logger.Warn("records that are no longer needed could not be deleted; they stay until "+
				"the next attempt", "error", err)
		}
	}
	return nil
}

// pause returns the wait before the next round, which is short until a round finds partitions.
func (r *Retention) pause() time.Duration {
	every := cmp.Or(r.cfg.Every, everyDefault)
	if len(r.Statuses()) == 0 {
		return min(every, everyFirst)
	}
	return every
}

func (r *Retention) round(ctx context.Context, d *kafka.Deleter) error {
	owned := r.cfg.Owned()
	if len(owned) == 0 {
		r.note(nil)
		return nil
	}
	groups, err := d.Positions(ctx, r.readers()...)
	if err != nil {
		return err
	}
	if err := r.measure(ctx, d, owned); err != nil {
		return err
	}
	below := make(kafka.Offsets)
	var statuses []RetentionStatus
	for _, topic := range r.cfg.Topics {
		starts, err := d.Starts(ctx, topic.Name)
		if err != nil {
			return err
		}
		old, err := r.old(ctx, d, topic, starts)
		if err != nil {
			return err
		}
		for _, p := range owned {
			b := topic.needed(p, groups)
			statuses = append(statuses, RetentionStatus{
				Topic:     topic.Name,
				Partition: p.Number,
				First:     starts[p.Number],
				Safe:      max(b.offset, starts[p.Number]),
				HeldBy:    b.by,
				Known:     b.known,
			})
			to := starts[p.Number] // deletes nothing, but shows that deleting is allowed
			if b.known {
				to = max(to, min(b.offset, old[p.Number]))
			}
			below.Set(topic.Name, p.Number, to)
		}
	}
	if err := d.DeleteBefore(ctx, below); err != nil {
		return err
	}
	r.note(statuses)
	return nil
}

func (r *Retention) readers() (groups []string) {
	for _, topic := range r.cfg.Topics {
		groups = append(groups, topic.Readers...)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// old returns the offsets below which records exceed the limits. The latest of the older records
// stays, because a reader that finds it knows that nothing later was deleted
// (streams/follower/known.go).
func (r *Retention) old(
	ctx context.Context, d *kafka.Deleter, topic RetainedTopic, starts map[int32]int64,
) (old map[int32]int64, err error) {
	switch {
	case topic.AtOnce:
		return d.Of(ctx, topic.Name)
	case r.cfg.Keep > 0:
		old, err = d.Since(ctx, topic.Name, r.cfg.Now().Add(-r.cfg.Keep).UnixMilli())
		for p, offset := range old {
			old[p] = max(offset-1, starts[p])
		}
	default:
		old = maps.Clone(starts)
	}
	if err != nil || r.cfg.KeepBytes == 0 {
		return old, err
	}
	ends, err := d.Of(ctx, topic.Name)
	for p, end := range ends {
		old[p] = max(old[p], end-r.growth.offsets(topic.Name, p, r.cfg.KeepBytes))
	}
	return old, err
}

// note stores the statuses, and logs once when a reader begins to hold all records of a topic.
func (r *Retention) note(statuses []RetentionStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statuses = statuses
	for _, topic := range r.cfg.Topics {
		by := ""
		for _, s := range statuses {
			if s.Topic == topic.Name && !s.Known {
				by = s.HeldBy
			}
		}
		if by != "" && by != r.held[topic.Name] {
			r.cfg.Logger.Info(fmt.Sprintf("no records of topic %s are deleted until %s reports its position",
				topic.Name, by))
		}
		r.held[topic.Name] = by
	}
}
