package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Created lists the changes that Create made, and the remaining differences.
type Created struct {
	Done []Difference `json:"done"`
	Left []Difference `json:"left"` // for an operator to fix
}

// Create creates missing topics, changes settings that differ, and waits until all of this is in
// effect on every broker. It is safe for concurrent use.
func Create(ctx context.Context, c kafka.Cluster, want Shape) (Created, error) {
	want, err := want.withCount(ctx, c)
	if err != nil {
		return Created{}, err
	}
	planned, err := Plan(ctx, c, want)
	if err != nil {
		return Created{}, err
	}
	if wrong := slices.IndexFunc(planned, isPartitions); wrong >= 0 {
		d := planned[wrong]
		return Created{Left: planned}, fmt.Errorf(
			"topology: topic %s has %s partitions, but %s are required: %w: "+
				"set the count that it has, or use another prefix",
			d.Topic, d.Have, d.Want, kafka.ErrPartitionCount)
	}
	if err := c.EnsureTopics(ctx, RequiredTopics(want)); err != nil {
		return Created{}, fmt.Errorf("topology: %w", err)
	}
	if err := alter(ctx, c, planned); err != nil {
		return Created{}, err
	}
	left, err := awaitSettings(ctx, c, want)
	if err != nil {
		return Created{}, err
	}
	isLeft := func(d Difference) bool { return slices.Contains(left, d) }
	return Created{Done: slices.DeleteFunc(planned, isLeft), Left: left}, nil
}

func isPartitions(d Difference) bool { return d.Setting == partitions }

func alter(ctx context.Context, c kafka.Cluster, planned []Difference) error {
	settings := make(map[string]map[string]string)
	var order []string
	for _, d := range planned {
		if d.Remedy != RemedyAlter {
			continue
		}
		if settings[d.name] == nil {
			settings[d.name] = make(map[string]string)
			order = append(order, d.name)
		}
		settings[d.name][d.Setting] = d.value
	}
	for _, name := range order {
		if err := c.AlterTopic(ctx, name, settings[name]); err != nil {
			return fmt.Errorf("topology: %w", err)
		}
	}
	return nil
}

var errNotYet = errors.New("topology: the new settings are not in effect on all brokers yet")

// settling bounds how long brokers may take to learn of settings: usually seconds, but more than
// half a minute on machines that are short of CPU.
var settling = retry.Policy{
	First:  500 * time.Millisecond,
	Last:   5 * time.Second,
	Within: 2 * time.Minute,
	If:     func(err error) bool { return errors.Is(err, errNotYet) },
}

func awaitSettings(ctx context.Context, c kafka.Cluster, want Shape) ([]Difference, error) {
	return retry.Value(ctx, settling, func() ([]Difference, error) {
		left, err := Plan(ctx, c, want)
		if err != nil {
			return nil, err
		}
		for _, d := range left {
			if d.Remedy != RemedyByHand {
				return left, fmt.Errorf("%w: %s of %s is %s", errNotYet, d.Setting, d.Topic, d.Have)
			}
		}
		return left, nil
	})
}
