package topology

import (
	"context"
	"fmt"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Topics that mark a prefix as closed.
const (
	// markFilling exists while a copy is written to the topics.
	markFilling = "half-filled"
	// markMoved exists once the deployment has moved to other topics.
	markMoved = "moved-away"
)

// Closing is a reason why the service must not start on topics.
type Closing struct{ mark, what, do string }

// Reasons to close topics.
var (
	// Filling means that a copy is being written to them.
	Filling = Closing{
		mark: markFilling,
		what: "a copy of another deployment was begun here and is incomplete",
		do: "wait for lumenhook restore or repartition to finish; if it was interrupted, delete the " +
			"topics of this prefix and repeat it",
	}
	// Moved means that their deployment continues on other topics.
	Moved = Closing{
		mark: markMoved,
		what: "lumenhook repartition has moved this deployment to another prefix: everything " +
			"that was delivered there since would be delivered again from here",
		do: "start with the --topic-prefix that it printed",
	}
)

// Close prevents the service from starting on the topics of a cluster's prefix.
func Close(ctx context.Context, c kafka.Cluster, why Closing, replicas int16) error {
	err := c.EnsureTopics(ctx, []kafka.TopicSpec{
		{Name: why.mark, Partitions: 1, ReplicationFactor: replicas},
	})
	if err != nil {
		return fmt.Errorf("topology: closing the topics: %w", err)
	}
	return nil
}

// Open undoes Close.
func Open(ctx context.Context, c kafka.Cluster, why Closing) error {
	if err := c.DeleteTopic(ctx, why.mark); err != nil {
		return fmt.Errorf("topology: opening the topics: %w", err)
	}
	return nil
}

func checkClosed(ctx context.Context, c kafka.Cluster) (*Fault, error) {
	marks, err := c.DescribeTopics(ctx, markFilling, markMoved)
	if err != nil {
		return nil, err
	}
	for _, why := range []Closing{Filling, Moved} {
		if _, closed := marks[why.mark]; closed {
			return &Fault{
				Name: Closed,
				What: fmt.Sprintf("the topics with the prefix %s are closed (by %s%s): %s", c.Prefix,
					c.Prefix, why.mark, why.what),
				Do: why.do,
			}, nil
		}
	}
	return nil, nil
}

// CheckOpen fails if the topics of a cluster's prefix are closed.
func CheckOpen(ctx context.Context, c kafka.Cluster) error {
	fault, err := checkClosed(ctx, c)
	if err != nil || fault == nil {
		return err
	}
	return fmt.Errorf("%s", fault)
}
