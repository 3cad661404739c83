package commands

import (
	"context"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	resultBatch = 1024
	firstWait   = 100 * time.Millisecond // before reading results again
	lastWait    = 5 * time.Second
)

// Run reads results until ctx is done or Close is called. It waits while the cluster is
// unavailable. It may be called again after it has returned.
func (c *Client) Run(ctx context.Context) error {
	c.running.Lock()
	defer c.running.Unlock()
	select {
	case <-c.stopping:
		return nil
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	policy := retry.Policy{
		First: firstWait,
		Last:  lastWait,
		OnFailure: retry.Warn(c.cfg.Logger,
			"the answers to commands could not be read; retrying"),
	}
	return retry.Forever(ctx, policy, func() (moved bool, err error) { return c.read(ctx) })
}

func (c *Client) read(ctx context.Context) (moved bool, err error) {
	// Results are retained for an hour. Nobody waits for expired ones.
	r, err := c.cfg.Cluster.NewReader(kafka.ReaderConfig{From: c.from, SkipExpired: true})
	if err != nil {
		return false, err
	}
	defer r.Close()
	for {
		err := r.Poll(ctx, resultBatch, c.take)
		for p := range c.from[schemas.TopicResults] {
			c.from[schemas.TopicResults][p] = r.Position(schemas.TopicResults, p)
		}
		if err != nil {
			return moved, err
		}
		moved = true
	}
}

// take passes a result to the callers that wait for it. It skips a result that cannot be decoded,
// so that they time out.
func (c *Client) take(rec kafka.Record) error {
	if !c.waiting.someFor(string(rec.Key)) {
		return nil // most are for other nodes
	}
	result, err := schemas.DecodeResult(schemas.Read(rec.Value, rec))
	if err != nil {
		c.cfg.Logger.Error("an answer cannot be read", "partition", rec.Partition, "offset", rec.Offset,
			"error", err)
		return nil
	}
	c.waiting.answer(result)
	return nil
}

// waiting contains a channel per waiting caller, with a buffer for one answer.
type waiting struct {
	mu        sync.Mutex
	byCommand map[string]map[chan domain.Result]struct{}
}

func (w *waiting) add(commandID string) chan domain.Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	answer := make(chan domain.Result, 1)
	if w.byCommand[commandID] == nil {
		w.byCommand[commandID] = make(map[chan domain.Result]struct{})
	}
	w.byCommand[commandID][answer] = struct{}{}
	return answer
}

func (w *waiting) remove(commandID string, answer chan domain.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byCommand[commandID], answer)
	if len(w.byCommand[commandID]) == 0 {
		delete(w.byCommand, commandID)
	}
}

func (w *waiting) someFor(commandID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byCommand[commandID]) > 0
}

func (w *waiting) answer(r domain.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for answer := range w.byCommand[r.CommandID] {
		answer <- r
	}
	delete(w.byCommand, r.CommandID)
}
