package ops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	resealsAtOnce = 64
	// resealTimeout bounds the wait for one endpoint's answer.
	resealTimeout = 30 * time.Second
	// resealTries is how often one endpoint is retried because something was sealed with an
	// older key meanwhile.
	resealTries = 5
	// passesMax bounds the walks over all endpoints: the last one finds nothing to do.
	passesMax = 5
)

// walker walks over the table of endpoints, and submits a command for each one to reseal
// its values with the newest key.
type walker struct {
	cluster  kafka.Cluster
	sealer   *keys.Sealer
	engine   *config.Engine // nil: only count
	progress func(done, total int64)
	logger   *slog.Logger

	done, total atomic.Int64
}

func (w *walker) close() {
	if w.engine != nil {
		w.engine.Close()
	}
}

// RewrapCounts are the results for sealed values of one kind.
type RewrapCounts struct {
	Resealed   int `json:"resealed"`
	AlreadyNew int `json:"alreadyNew"`
	Unopened   int `json:"unopened"`
}

// rewrapTally is the result of one walk.
type rewrapTally struct {
	endpoints        int
	secrets, headers RewrapCounts
	byKey            map[uint32]int // values, after the walk
}

// run walks until nothing is left to do, and returns the result of the last walk and the total of
// all walks.
func (w *walker) run(ctx context.Context) (rewrapTally, error) {
	var all rewrapTally
	for n := range passesMax {
		found, err := w.pass(ctx)
		if err != nil {
			return all, err
		}
		if n == 0 {
			all = found
		}
		all.endpoints, all.byKey = found.endpoints, found.byKey
		all.secrets.Unopened, all.headers.Unopened = found.secrets.Unopened, found.headers.Unopened
		if n > 0 {
			all.secrets.Resealed += found.secrets.Resealed
			all.headers.Resealed += found.headers.Resealed
		}
		if w.engine == nil || found.secrets.Resealed+found.headers.Resealed == 0 {
			return all, nil
		}
	}
	return all, fmt.Errorf("after %d walks something is still being sealed with an older key: "+
		"bring the master key to every process, "+
		"then run `lumenhook secrets rewrap --resume`", passesMax)
}

// pass walks over all endpoints once, partition by partition, so that only one
// partition's rows are in memory.
func (w *walker) pass(ctx context.Context) (rewrapTally, error) {
	found := rewrapTally{byKey: make(map[uint32]int)}
	starts, ends, err := w.extent(ctx, schemas.TopicEndpoints)
	if err != nil {
		return found, err
	}
	w.done.Store(0)
	w.total.Store(0)
	for p, end := range ends {
		w.total.Add(end - starts[p])
	}
	for _, p := range kafka.Partitions(ends) {
		rows, err := w.rows(ctx, p, starts[p], ends[p])
		if err != nil {
			return found, fmt.Errorf("reading the table of endpoints: %w", err)
		}
		if err := w.partition(ctx, rows, &found); err != nil {
			return found, err
		}
	}
	return found, nil
}

// extent returns where a topic begins and ends.
func (w *walker) extent(
	ctx context.Context, topic string,
) (starts, ends map[int32]int64, err error) {
	asking, err := w.cluster.NewEnds()
	if err != nil {
		return nil, nil, err
	}
	defer asking.Close()
	if starts, err = asking.Starts(ctx, topic); err != nil {
		return nil, nil, err
	}
	ends, err = asking.Of(ctx, topic)
	return starts, ends, err
}

// rows reads the current rows of a partition of the table, with their sealed values only.
func (w *walker) rows(
	ctx context.Context, partition int32, start, end int64,
) ([]domain.Endpoint, error) {
	if start >= end {
		return nil, nil
	}
	rows := make(map[string]domain.Endpoint)
	at, from, until := start, map[int32]int64{partition: start}, map[int32]int64{partition: end}
	err := w.cluster.ReadBetween(ctx, schemas.TopicEndpoints, from, until, pollRecords,
		func(r kafka.Record) error {
			w.advance(r.Offset + 1 - at)
			at = r.Offset + 1
			return w.fold(rows, r)
		})
	w.advance(end - at)
	return slices.Collect(maps.Values(rows)), err
}

// fold applies a record of the table.
func (w *walker) fold(rows map[string]domain.Endpoint, r kafka.Record) error {
	e, gone, err := intake.Endpoint(r)
	switch {
	case errors.Is(err, schemas.ErrNewer):
		return err
	case err != nil: // the previous row stays, for all readers of the table
		w.logger.Warn("a record of the table does not count and is passed over",
			"topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "error", err)
	case gone || e.Deleted():
		delete(rows, string(r.Key))
	default:
		rows[e.ID] = domain.Endpoint{
			ID:               e.ID,
			AccountID:        e.AccountID,
			Secrets:          e.Secrets,
			EndpointSettings: domain.EndpointSettings{Headers: e.Headers},
		}
	}
	return nil
}

func (w *walker) advance(by int64) { w.progress(w.done.Add(by), w.total.Load()) }

// partition reseals the endpoints of one partition, several at once, until one fails.
func (w *walker) partition(ctx context.Context, rows []domain.Endpoint, found *rewrapTally) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.total.Add(int64(len(rows)))
	work := make(chan domain.Endpoint)
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range min(resealsAtOnce, len(rows)) {
		workers.Go(func() {
			for e := range work {
				of, err := w.endpoint(ctx, e)
				if err != nil {
					cancel(fmt.Errorf("resealing endpoint %s: %w", e.ID, err))
					continue
				}
				mu.Lock()
				found.add(of)
				mu.Unlock()
				w.advance(1)
			}
		})
	}
	for _, e := range rows {
		if ctx.Err() != nil {
			break
		}
		work <- e
	}
	close(work)
	workers.Wait()
	return context.Cause(ctx)
}

func (t *rewrapTally) add(of rewrapTally) {
	t.endpoints += of.endpoints
	t.secrets.add(of.secrets)
	t.headers.add(of.headers)
	for id, n := range of.byKey {
		t.byKey[id] += n
	}
}

func (c *RewrapCounts) add(of RewrapCounts) {
	c.Resealed += of.Resealed
	c.AlreadyNew += of.AlreadyNew
	c.Unopened += of.Unopened
}

// endpoint reseals one endpoint. A value that was sealed with an older key meanwhile is in
// the answer, and is resealed again.
func (w *walker) endpoint(ctx context.Context, e domain.Endpoint) (rewrapTally, error) {
	found := rewrapTally{endpoints: 1}
	for n := range resealTries {
		body, now := w.look(e)
		if n == 0 {
			found.secrets.AlreadyNew = now.secrets.AlreadyNew
			found.headers.AlreadyNew = now.headers.AlreadyNew
		}
		found.secrets.Unopened, found.headers.Unopened = now.secrets.Unopened, now.headers.Unopened
		found.byKey = now.byKey
		if w.engine == nil || len(body.Values) == 0 {
			return found, nil
		}
		answer, err := w.submit(ctx, body, e.AccountID)
		switch {
		case answer.Rejection != nil && answer.Rejection.Code == domain.CodeNotFound:
			return rewrapTally{}, nil // deleted meanwhile, with its secrets
		case err != nil:
			return found, err
		case answer.Endpoint == nil:
			return found, errors.New("the engine does not know ResealSecrets: upgrade it first")
		}
		e = *answer.Endpoint
		found.secrets.Resealed += replacedValues(body, e.Secrets,
			func(s domain.SealedSecret) []byte { return s.Sealed })
		found.headers.Resealed += replacedValues(body, e.Headers,
			func(h domain.Header) []byte { return h.Sealed })
	}
	return found, errors.New("it is still being sealed with an older key: " +
		"bring the master key to every process first")
}

func (w *walker) submit(
	ctx context.Context, body domain.ResealSecrets, account string,
) (domain.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, resealTimeout)
	defer cancel()
	return w.engine.Submit(ctx, body, account)
}

// replacedValues counts the values that the engine replaced.
func replacedValues[T any](c domain.ResealSecrets, have []T, sealed func(T) []byte) int {
	n := 0
	for _, one := range have {
		taken := func(v domain.Resealed) bool { return bytes.Equal(v.Sealed, sealed(one)) }
		if slices.ContainsFunc(c.Values, taken) {
			n++
		}
	}
	return n
}

// look opens values that an older key sealed, seals them again, and counts the values by key.
func (w *walker) look(e domain.Endpoint) (domain.ResealSecrets, rewrapTally) {
	body, found := domain.ResealSecrets{EndpointID: e.ID}, rewrapTally{byKey: make(map[uint32]int)}
	one := func(what string, sealed []byte, boundTo string, counts *RewrapCounts) {
		id, _ := keys.SealedBy(sealed)
		found.byKey[id]++
		resealed, changed, err := w.sealer.Reseal(sealed, boundTo)
		switch {
		case err != nil:
			counts.Unopened++
			w.logger.Error("a value does not open, and stays as it is",
				"endpoint", e.ID, "value", what, "error", err)
		case changed:
			body.Values = append(body.Values, domain.Resealed{Was: sealed, Sealed: resealed})
		default:
			counts.AlreadyNew++
		}
	}
	for _, s := range e.Secrets {
		one("a signing secret", s.Sealed, e.ID, &found.secrets)
	}
	for _, h := range e.Headers {
		one("the header "+h.Name, h.Sealed, h.SealedFor(e.ID), &found.headers)
	}
	return body, found
}
