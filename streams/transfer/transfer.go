package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// Telling receives progress reports for the user.
type Telling struct {
	// Step is called when a step begins, and Progress with its progress.
	Step     func(name string)
	Progress func(done, total int64)
}

// History is the history in ClickHouse of a deployment that continues on other topics; nil: there
// is no history to move.
type History interface {
	// CatchUp returns when the history has all records of a cluster's topics.
	CatchUp(ctx context.Context, from kafka.Cluster) error
	// CheckAt fails unless the history is at the position of a copy.
	CheckAt(ctx context.Context, of Manifest) error
	// Restart makes the history, which is at the position of a copy, continue with the copy's
	// topics from their beginning.
	Restart(ctx context.Context, of Manifest) error
}

// WriteBackup copies a deployment into a folder, while the service runs.
func WriteBackup(
	ctx context.Context, cfg SourceConfig, dir string, tell Telling,
) (_ Manifest, err error) {
	if err := PrepareFolder(dir); err != nil {
		return Manifest{}, err
	}
	cfg.Progress = tell.Progress
	tell.Step("reading the journals")
	source, err := OpenSource(ctx, cfg)
	if err != nil {
		return Manifest{}, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	var c *Copy
	err = source.holding(ctx, func() error {
		if err := source.Fold(ctx); err != nil {
			return err
		}
		tell.Step("copying newer records and unread commands")
		c, err = source.Capture(ctx, dir)
		return err
	})
	if err != nil {
		return Manifest{}, err
	}
	tell.Step("writing the states")
	if err := c.Save(tell.Progress); err != nil {
		return Manifest{}, err
	}
	return c.about, nil
}

// Restore writes a backup into the empty topics of a cluster.
func Restore(
	ctx context.Context, dir string, cfg TargetConfig, history History, tell Telling,
) (_ Placed, err error) {
	cfg.Progress = tell.Progress
	tell.Step("checking files and loading states")
	c, err := Load(dir, cfg.Scratch, cfg.Logger, tell.Progress)
	if err != nil {
		return Placed{}, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if history != nil {
		tell.Step("comparing the history with the backup")
		if err := history.CheckAt(ctx, c.about); err != nil {
			return Placed{}, err
		}
	}
	tell.Step("creating topics")
	if err := PrepareTarget(ctx, cfg); err != nil {
		return Placed{}, err
	}
	return finish(ctx, c, cfg, history, tell)
}

// finish writes a copy into prepared topics, and opens them.
func finish(
	ctx context.Context, c *Copy, cfg TargetConfig, history History, tell Telling,
) (placed Placed, err error) {
	tell.Step("writing topics and verifying states")
	if placed, err = Place(ctx, c, cfg); err != nil {
		return placed, err
	}
	if history != nil {
		tell.Step("updating the history's topics")
		if err := history.Restart(ctx, c.about); err != nil {
			return placed, err
		}
	}
	return placed, topology.Open(ctx, cfg.Cluster, topology.Filling)
}

// Move configures the move of a deployment to another prefix.
type Move struct {
	Source  SourceConfig
	Target  TargetConfig
	History History
	Tell    Telling
	// Stop is called when the states are warm and the service still runs, with an error that names
	// the groups in use.
	Stop func(inUse error)
}

// Moved is the result of a move.
type Moved struct {
	From   string `json:"from"` // prefixes
	To     string `json:"to"`
	Before int32  `json:"partitionsBefore"`
	Placed
	// PauseSeconds is how long the service was down: from when no process used the topics until the
	// new ones were open.
	PauseSeconds float64 `json:"pauseSeconds"`
}

// Repartition moves a deployment to another prefix, with another partition count. The service runs
// while the states are folded, and is stopped for the rest. An error before the new topics are
// complete leaves the old ones unchanged.
func Repartition(ctx context.Context, m Move) (moved Moved, err error) {
	m.Source.Progress, m.Target.Progress = m.Tell.Progress, m.Tell.Progress
	from, to := m.Source.Cluster, m.Target.Cluster
	moved = Moved{From: from.Prefix, To: to.Prefix}
	if err := topology.CheckOpen(ctx, from); err != nil {
		return moved, err
	}
	m.Tell.Step("creating the topics of " + to.Prefix)
	if err := PrepareTarget(ctx, m.Target); err != nil {
		return moved, err
	}
	source, err := OpenSource(ctx, m.Source)
	if err != nil {
		return moved, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	moved.Before = source.Partitions()
	m.Tell.Step("reading the journals of " + from.Prefix)
	// Once no process uses the topics, no records are deleted.
	err = source.holding(ctx, func() error { return m.untilUnused(ctx, source) })
	if err != nil {
		return moved, err
	}
	began := m.Source.Now()
	if moved.Placed, err = m.moveStill(ctx, source); err != nil {
		return moved, fmt.Errorf("%w; nothing was moved: the service may continue with the prefix %s "+
			"(delete the topics of %s before you repeat this)", err, from.Prefix, to.Prefix)
	}
	moved.PauseSeconds = m.Source.Now().Sub(began).Seconds()
	return moved, nil
}

// stoppedPollInterval is how often to check whether the service has been stopped.
const stoppedPollInterval = 500 * time.Millisecond

// untilUnused keeps folding new records until no process uses the topics.
func (m *Move) untilUnused(ctx context.Context, source *Source) error {
	for told := false; ; told = true {
		if err := source.Fold(ctx); err != nil {
			return err
		}
		err := checkUnused(ctx, m.Source.Cluster)
		if !errors.Is(err, ErrInUse) {
			return err
		}
		if !told {
			m.Stop(err)
		}
		if err := retry.Sleep(ctx, stoppedPollInterval); err != nil {
			return fmt.Errorf("transfer: waiting for the service to be stopped: %w", err)
		}
	}
}

// moveStill moves a deployment that no process uses. If it fails, it opens the old topics again.
func (m *Move) moveStill(ctx context.Context, source *Source) (placed Placed, err error) {
	from := m.Source.Cluster
	err = topology.Close(ctx, from, topology.Moved, m.Target.Shape.Replicas)
	if err != nil {
		return placed, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, topology.Open(context.WithoutCancel(ctx), from, topology.Moved))
		}
	}()
	if err := checkUnused(ctx, from); err != nil { // a process that started in between
		return placed, err
	}
	if err := fence(ctx, from, source.Partitions()); err != nil {
		return placed, err
	}
	if m.History != nil {
		m.Tell.Step("bringing the history up to date")
		if err := m.History.CatchUp(ctx, from); err != nil {
			return placed, err
		}
	}
	m.Tell.Step("copying newer records")
	dir := filepath.Join(m.Source.Scratch, "records")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return placed, fmt.Errorf("transfer: %w", err)
	}
	c, err := source.Capture(ctx, dir)
	if err == nil && m.History != nil {
		err = m.History.CheckAt(ctx, c.about)
	}
	if err != nil {
		return placed, err
	}
	return finish(ctx, c, m.Target, m.History, m.Tell)
}

// ErrInUse means that the service runs on topics that must not change.
var ErrInUse = errors.New("the service still runs on these topics")

// checkUnused fails with ErrInUse while a group of the deployment has members.
func checkUnused(ctx context.Context, c kafka.Cluster) error {
	return c.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		var names []string
		for _, name := range topology.Groups(topology.RoleNames()...) {
			names = append(names, c.Prefix+name)
		}
		groups, err := admin.DescribeGroups(ctx, names...)
		if err != nil {
			return fmt.Errorf("transfer: asking who runs on the topics: %w", err)
		}
		var running []string
		for _, g := range groups.Sorted() {
			if n := len(g.Members); n > 0 {
				running = append(running, fmt.Sprintf("%s (%d)", strings.TrimPrefix(g.Group, c.Prefix), n))
			}
		}
		if len(running) == 0 {
			return nil
		}
		slices.Sort(running)
		return fmt.Errorf("%w: members of the groups %s", ErrInUse, strings.Join(running, ", "))
	})
}

// fence takes over every transactional id of a deployment. A former owner that hung while the
// groups were checked cannot write any more, and its open transaction is aborted.
func fence(ctx context.Context, c kafka.Cluster, partitions int32) error {
	for _, id := range topology.TransactionalIDs(partitions) {
		if err := c.Fence(ctx, id); err != nil {
			return err
		}
	}
	return nil
}
