package directory

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// progress contains the offset up to which the store has each partition.
type progress struct {
	mu    sync.Mutex
	at    kafka.Offsets
	moved chan struct{} // closed and replaced at each move
}

func newProgress(from kafka.Offsets) *progress {
	return &progress{at: from, moved: make(chan struct{})}
}

func (p *progress) all() kafka.Offsets {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := make(kafka.Offsets, len(p.at))
	for topic, partitions := range p.at {
		c[topic] = maps.Clone(partitions)
	}
	return c
}

// ahead returns the positions in which a reader is ahead. One that is behind was reset because a
// table was truncated.
func (p *progress) ahead(r Positions) (kafka.Offsets, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	moved := make(kafka.Offsets)
	for topic, partitions := range p.at {
		for n, at := range partitions {
			now := r.Position(topic, n)
			if now < at {
				return nil, fmt.Errorf("directory: reading partition %d of %s fell back from %d to %d: %w", n,
					topic, at, now, ErrRebuild)
			}
			if now == at {
				continue
			}
			if moved[topic] == nil {
				moved[topic] = make(map[int32]int64)
			}
			moved[topic][n] = now
		}
	}
	return moved, nil
}

func (p *progress) move(to kafka.Offsets) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for topic, partitions := range to {
		maps.Copy(p.at[topic], partitions)
	}
	close(p.moved)
	p.moved = make(chan struct{})
}

func (p *progress) await(ctx context.Context, ended <-chan struct{}, ends kafka.Offsets) error {
	for {
		p.mu.Lock()
		behind, moved := p.behind(ends), p.moved
		p.mu.Unlock()
		if behind == "" {
			return nil
		}
		select {
		case <-moved:
		case <-ended:
			return fmt.Errorf("directory: waiting for %s: %w", behind, ErrEnded)
		case <-ctx.Done():
			return fmt.Errorf("directory: waiting for %s: %w", behind, context.Cause(ctx))
		}
	}
}

func (p *progress) behind(ends kafka.Offsets) string {
	for topic, partitions := range ends {
		for n, end := range partitions {
			if at := p.at[topic][n]; at < end {
				return fmt.Sprintf("%s/%d to go from %d to %d", topic, n, at, end)
			}
		}
	}
	return ""
}
