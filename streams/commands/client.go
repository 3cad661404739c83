package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	defaultWait        = 5 * time.Second
	defaultMaxUnderWay = 4096
)

// ErrBusy means that too many commands are in flight. Nothing was appended.
var ErrBusy = errors.New("too many commands in flight: try again in a moment")

// ErrClosed means that the client is closed. Nothing was appended.
var ErrClosed = errors.New("the engine client is closed")

// ErrNotConfirmed means that a command was, or may have been, appended, but its answer did not
// arrive in time. It may still take effect, exactly once.
type ErrNotConfirmed struct {
	CommandID string
	Cause     error
}

func (e ErrNotConfirmed) Error() string {
	return fmt.Sprintf("command %s is not confirmed: it may still take effect, once; repeat it with "+
		"the same id to get its answer: %v", e.CommandID, e.Cause)
}

func (e ErrNotConfirmed) Unwrap() error { return e.Cause }

// Config configures a client.
type Config struct {
	Cluster     kafka.Cluster
	Wait        time.Duration // for an answer, unless ctx ends earlier; default: 5 s
	MaxUnderWay int           // commands in flight; default: 4096
	Logger      *slog.Logger
}

// Client submits commands. Submit is safe for concurrent use.
type Client struct {
	cfg      Config
	producer *kafka.Producer
	from     kafka.Offsets // where to read results; owned by Run
	waiting  waiting
	places   chan struct{} // one element per command in flight

	stopping chan struct{}
	running  sync.Mutex // held by Run, and then by Close
	mu       sync.Mutex
	closed   bool
}

// Open returns a client for answers from now on. The topics must exist.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.Wait == 0 {
		cfg.Wait = defaultWait
	}
	if cfg.MaxUnderWay == 0 {
		cfg.MaxUnderWay = defaultMaxUnderWay
	}
	ends, err := cfg.Cluster.NewEnds()
	if err != nil {
		return nil, err
	}
	defer ends.Close()
	from, err := ends.Of(ctx, schemas.TopicResults)
	if err != nil {
		return nil, fmt.Errorf("commands: %w", err)
	}
	producer, err := cfg.Cluster.NewProducer()
	if err != nil {
		return nil, err
	}
	return &Client{
		cfg:      cfg,
		producer: producer,
		from:     kafka.Offsets{schemas.TopicResults: from},
		waiting:  waiting{byCommand: make(map[string]map[chan domain.Result]struct{})},
		places:   make(chan struct{}, cfg.MaxUnderWay),
		stopping: make(chan struct{}),
	}, nil
}

// Submit appends a command and waits for its answer, which may be a rejection. Its errors are
// ErrBusy, ErrClosed and ErrNotConfirmed.
func (c *Client) Submit(ctx context.Context, cmd domain.Command) (domain.Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Wait,
		fmt.Errorf("no answer within %s: %w", c.cfg.Wait, context.DeadlineExceeded))
	defer cancel()
	if err := errors.Join(c.open(), ctx.Err()); err != nil {
		return domain.Result{}, fmt.Errorf("commands: nothing was appended: %w", err)
	}
	select {
	case c.places <- struct{}{}:
	default:
		return domain.Result{}, fmt.Errorf("commands: %w", ErrBusy)
	}
	answer := c.waiting.add(cmd.ID)
	waited := make(chan struct{})
	appended := c.append(cmd, waited)
	defer func() {
		c.waiting.remove(cmd.ID, answer)
		close(waited)
	}()
	notConfirmed := func(cause error) error { return ErrNotConfirmed{CommandID: cmd.ID, Cause: cause} }
	for {
		select {
		case r := <-answer:
			return r, nil
		case err := <-appended:
			if err != nil {
				return domain.Result{}, notConfirmed(err)
			}
			appended = nil // now only the answer counts
		case <-ctx.Done():
			return domain.Result{}, notConfirmed(context.Cause(ctx))
		case <-c.stopping:
			return domain.Result{}, notConfirmed(ErrClosed)
		}
	}
}

// append ignores the caller's context and has its own timeout, because records of several callers
// share a batch, and cancelling one would cancel all. A record that was sent cannot be cancelled,
// so this may take longer than the timeout while the cluster is unavailable. The command's place is
// freed when it was appended and the caller has stopped waiting.
func (c *Client) append(cmd domain.Command, waited <-chan struct{}) <-chan error {
	m := schemas.EncodeCommand(cmd)
	rec := kafka.NewRecord(schemas.TopicCommands, cmd.Body.Aggregate(), m.Value, m.EachHeader)
	appended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Wait)
		defer cancel()
		appended <- c.producer.Append(ctx, rec)
		<-waited
		<-c.places
	}()
	return appended
}

func (c *Client) open() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	return nil
}

// Close ends all waits, stops Run and waits for it.
func (c *Client) Close() {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return
	}
	close(c.stopping)
	c.running.Lock() // a run that begins later stops immediately
	defer c.running.Unlock()
	c.producer.Close()
}
