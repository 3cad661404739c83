package writer

import (
	"context"
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	// turnSaid is how long a refold waits for its turn before it logs a message.
	turnSaid = 10 * time.Second
	// turnMax is how long the group waits for a refold to end. It doesn't wait for a process that has
	// died.
	turnMax = 7 * 24 * time.Hour
)

// turn is the exclusive right to refold a database's tables. Two concurrent rebuilds, for example
// by a guard and an operator, would drop each other's tables or fill the same ones twice. A rebuild
// that exchanged tables during a verification would make it compare rows of both.
//
// The owner of a topic's first partition has the right, in a group whose members are refolds. It
// only gives up the partition when it has ended.
type turn struct {
	membership *kafka.Membership
	ended      chan struct{}
}

// awaitTurn waits until no other rebuild or verification of the database is running. turnMax bounds
// the wait for each of them.
func (cfg RefoldConfig) awaitTurn(ctx context.Context) (*turn, error) {
	t := &turn{ended: make(chan struct{})}
	begun := make(chan struct{}, 1)
	is := func(partitions []int32) bool { return slices.Contains(partitions, 0) }
	var err error
	t.membership, err = cfg.Cluster.Join(kafka.MembershipConfig{
		Group: HoldersPrefix + cfg.DB.Name() + "-turn",
		Topic: schemas.TopicJournal,
		Now:   cfg.Now,
		Assigned: func(partitions []int32) {
			if !is(partitions) {
				return
			}
			select {
			case begun <- struct{}{}:
			default: // assigned again
			}
		},
		Revoked: func(partitions []int32) {
			if is(partitions) {
				<-t.ended
			}
		},
		Lost: func(partitions []int32) {
			if is(partitions) {
				cfg.Logger.Warn("the cluster no longer knows that the history is being rebuilt: " +
					"start no other rebuild or verification before this one ends")
			}
		},
		RevokeMax: turnMax,
	})
	if err != nil {
		return nil, err
	}
	said := time.NewTimer(turnSaid)
	defer said.Stop()
	for {
		select {
		case <-begun:
			return t, nil
		case <-said.C:
			cfg.Logger.Info("waiting for another rebuild or verification of this history to end")
		case <-ctx.Done():
			t.end()
			return nil, context.Cause(ctx)
		}
	}
}

func (t *turn) end() {
	close(t.ended)
	ctx, cancel := context.WithTimeout(context.Background(), releaseMax)
	defer cancel()
	_ = t.membership.Leave(ctx) // if it fails, the group waits for a timeout
}
