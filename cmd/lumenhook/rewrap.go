package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/sealing"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/commands"
	"github.com/lumenhook/lumenhook/streams/intake"
)

const (
	resealsAtOnce = 64
	// resealTimeout bounds the wait for one endpoint's answer.
	resealTimeout = 30 * time.Second
	// resealTries is how often one endpoint is asked of again because something
	// was sealed with an older key meanwhile.
	resealTries = 5
	// rewrapPasses bounds the walks over all endpoints: the last finds nothing to do.
	rewrapPasses = 5
	// followTime is more than processes take to notice a changed master key file.
	followTime = 2 * time.Second
)

// rewrap puts all that endpoints keep sealed under the newest key. It walks the
// table of endpoints and asks the engine, endpoint by endpoint, so it can be cut
// short and repeated at any point.
type rewrap struct {
	cluster  streams.Cluster
	sealer   *sealing.Sealer
	commands *commands.Client // nil: only count
	progress func(done, total int64)
	logger   *slog.Logger

	done, total atomic.Int64
}

// sealedCounts is what became of sealed values of one kind.
type sealedCounts struct {
	Resealed   int `json:"resealed"`
	AlreadyNew int `json:"alreadyNew"`
	Unopened   int `json:"unopened"`
}

// sealedPass is what one walk found and did.
type sealedPass struct {
	endpoints        int
	secrets, headers sealedCounts
	byKey            map[uint32]int // values, as the walk left them
}

// run walks until nothing is left to do, and answers with what the last walk
// found and what all of them did.
func (r *rewrap) run(ctx context.Context) (sealedPass, error) {
	var all sealedPass
	for n := range rewrapPasses {
		pass, err := r.pass(ctx)
		if err != nil {
			return all, err
		}
		if n == 0 {
			all = pass
		}
		all.endpoints, all.byKey = pass.endpoints, pass.byKey
		all.secrets.Unopened, all.headers.Unopened = pass.secrets.Unopened, pass.headers.Unopened
		if n > 0 {
			all.secrets.Resealed += pass.secrets.Resealed
			all.headers.Resealed += pass.headers.Resealed
		}
		if r.commands == nil || pass.secrets.Resealed+pass.headers.Resealed == 0 {
			return all, nil
		}
	}
	return all, fmt.Errorf("after %d walks something is still being sealed with an older key: bring the master key to every process, then run `lumenhook secrets rewrap --resume`", rewrapPasses)
}

// pass walks over all endpoints once, partition by partition, so that only one
// partition's rows are in memory.
func (r *rewrap) pass(ctx context.Context) (sealedPass, error) {
	pass := sealedPass{byKey: make(map[uint32]int)}
	starts, ends, err := r.extent(ctx, schemas.TopicEndpoints)
	if err != nil {
		return pass, err
	}
	r.done.Store(0)
	r.total.Store(0)
	for p, end := range ends {
		r.total.Add(end - starts[p])
	}
	for _, p := range streams.Partitions(ends) {
		rows, err := r.rows(ctx, p, starts[p], ends[p])
		if err != nil {
			return pass, fmt.Errorf("reading the table of endpoints: %w", err)
		}
		if err := r.partition(ctx, rows, &pass); err != nil {
			return pass, err
		}
	}
	return pass, nil
}

func (r *rewrap) extent(ctx context.Context, topic string) (starts, ends map[int32]int64, err error) {
	asking, err := r.cluster.NewEnds()
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

// rows reads the current rows of a partition of the table; of each, what is
// sealed.
func (r *rewrap) rows(ctx context.Context, partition int32, start, end int64) ([]domain.Endpoint, error) {
	if start >= end {
		return nil, nil
	}
	reader, err := r.cluster.NewReader(streams.ReaderConfig{From: streams.Offsets{schemas.TopicEndpoints: {partition: start}}, SkipExpired: true})
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	rows := make(map[string]domain.Endpoint)
	at := start
	err = reader.ReadTo(ctx, schemas.TopicEndpoints, map[int32]int64{partition: end}, pollRecords, func(record streams.Record) error {
		r.advance(record.Offset + 1 - at)
		at = record.Offset + 1
		e, gone, err := intake.Endpoint(record)
		switch {
		case errors.Is(err, schemas.ErrNewer):
			return err
		case err != nil: // the row before it stays, for all who read the table
			r.logger.Warn("a record of the table does not count and is passed over", "topic", record.Topic, "partition", record.Partition, "offset", record.Offset, "error", err)
		case gone || e.Deleted():
			delete(rows, string(record.Key))
		default:
			rows[e.ID] = domain.Endpoint{ID: e.ID, AccountID: e.AccountID, Secrets: e.Secrets, Headers: e.Headers}
		}
		return nil
	})
	r.advance(end - at)
	return slices.Collect(maps.Values(rows)), err
}

func (r *rewrap) advance(by int64) {
	r.progress(r.done.Add(by), r.total.Load())
}

// partition reseals the endpoints of one partition, some of them at once, until
// one fails.
func (r *rewrap) partition(ctx context.Context, rows []domain.Endpoint, pass *sealedPass) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.total.Add(int64(len(rows)))
	work := make(chan domain.Endpoint)
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range min(resealsAtOnce, len(rows)) {
		workers.Go(func() {
			for e := range work {
				found, err := r.endpoint(ctx, e)
				if err != nil {
					cancel(fmt.Errorf("resealing endpoint %s: %w", e.ID, err))
					continue
				}
				mu.Lock()
				pass.add(found)
				mu.Unlock()
				r.advance(1)
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

func (p *sealedPass) add(of sealedPass) {
	p.endpoints += of.endpoints
	p.secrets.add(of.secrets)
	p.headers.add(of.headers)
	for id, n := range of.byKey {
		p.byKey[id] += n
	}
}

func (c *sealedCounts) add(of sealedCounts) {
	c.Resealed += of.Resealed
	c.AlreadyNew += of.AlreadyNew
	c.Unopened += of.Unopened
}

// endpoint reseals one endpoint. What was sealed with an older key between the
// look and the decision is found in the answer, and asked of again.
func (r *rewrap) endpoint(ctx context.Context, e domain.Endpoint) (sealedPass, error) {
	found := sealedPass{endpoints: 1}
	for n := range resealTries {
		body, now := r.look(e)
		if n == 0 {
			found.secrets.AlreadyNew, found.headers.AlreadyNew = now.secrets.AlreadyNew, now.headers.AlreadyNew
		}
		found.secrets.Unopened, found.headers.Unopened, found.byKey = now.secrets.Unopened, now.headers.Unopened, now.byKey
		if r.commands == nil || len(body.Values) == 0 {
			return found, nil
		}
		answer, err := r.submit(ctx, body, e.AccountID)
		switch {
		case answer.Rejection != nil && answer.Rejection.Code == domain.CodeNotFound: // deleted meanwhile, and its secrets with it
			return sealedPass{}, nil
		case err != nil:
			return found, err
		case answer.Endpoint == nil:
			return found, errors.New("the engine does not know ResealSecrets: upgrade it first")
		}
		e = *answer.Endpoint
		found.secrets.Resealed += replaced(body, e.Secrets, func(s domain.SealedSecret) []byte { return s.Sealed })
		found.headers.Resealed += replaced(body, e.Headers, func(h domain.Header) []byte { return h.Sealed })
	}
	return found, errors.New("it is still being sealed with an older key: bring the master key to every process first")
}

func (r *rewrap) submit(ctx context.Context, body domain.ResealSecrets, accountID string) (domain.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, resealTimeout)
	defer cancel()
	return submitted(ctx, r.commands, body, accountID)
}

// replaced counts the values that the engine took.
func replaced[T any](c domain.ResealSecrets, have []T, sealed func(T) []byte) int {
	n := 0
	for _, one := range have {
		if slices.ContainsFunc(c.Values, func(v domain.Resealed) bool { return bytes.Equal(v.Sealed, sealed(one)) }) {
			n++
		}
	}
	return n
}

// look opens what an older key sealed, seals it anew, and counts by key what is
// there now.
func (r *rewrap) look(e domain.Endpoint) (domain.ResealSecrets, sealedPass) {
	body, found := domain.ResealSecrets{EndpointID: e.ID}, sealedPass{byKey: make(map[uint32]int)}
	one := func(what string, sealed []byte, boundTo string, counts *sealedCounts) {
		id, _ := sealing.KeyOf(sealed)
		found.byKey[id]++
		resealed, changed, err := r.sealer.Reseal(sealed, boundTo)
		switch {
		case err != nil:
			counts.Unopened++
			r.logger.Error("a value does not open, and stays as it is", "endpoint", e.ID, "value", what, "error", err)
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

// waiting counts, for each key, the values in commands that no engine has
// decided on yet: they are in no table, and will be.
func (r *rewrap) waiting(ctx context.Context) (map[uint32]int, error) {
	byKey := make(map[uint32]int)
	from, ends, err := r.extent(ctx, schemas.TopicCommands)
	if err != nil {
		return nil, err
	}
	err = r.cluster.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		committed, err := admin.FetchOffsets(ctx, r.cluster.Prefix+engineGroup)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // no engine has ever decided
			return fmt.Errorf("asking how far the engine has decided: %w", err)
		}
		for p := range from {
			if o, ok := committed.Lookup(r.cluster.Prefix+schemas.TopicCommands, p); ok && o.Err == nil && o.At > from[p] {
				from[p] = o.At
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	reader, err := r.cluster.NewReader(streams.ReaderConfig{From: streams.Offsets{schemas.TopicCommands: from}, SkipExpired: true})
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	return byKey, reader.ReadTo(ctx, schemas.TopicCommands, ends, pollRecords, func(record streams.Record) error {
		c, err := schemas.DecodeCommand(schemas.Read(record.Value, record))
		if err != nil {
			return nil // the engine says what is wrong with it
		}
		for _, sealed := range sealedIn(c.Body) {
			id, _ := sealing.KeyOf(sealed)
			byKey[id]++
		}
		return nil
	})
}

// inUse counts the values that a key sealed.
func (r *rewrap) inUse(ctx context.Context, id uint32) (int, error) {
	waiting, err := r.waiting(ctx)
	if err != nil {
		return 0, err
	}
	pass, err := r.pass(ctx)
	return waiting[id] + pass.byKey[id], err
}

// engineGroup is the consumer group of the engines, behind the topics' prefix.
const engineGroup = "engine"

// sealedIn gives the sealed values that a command would put into the state.
func sealedIn(body domain.CommandBody) (sealed [][]byte) {
	headers := func(list []domain.Header) {
		for _, h := range list {
			if h.Sealed != nil {
				sealed = append(sealed, h.Sealed)
			}
		}
	}
	switch b := body.(type) {
	case domain.CreateEndpoint:
		sealed = append(sealed, b.SealedSecret)
		headers(b.Headers)
	case domain.UpdateEndpoint:
		if b.Change.Headers != nil {
			headers(*b.Change.Headers)
		}
	case domain.RotateSecret:
		sealed = append(sealed, b.SealedSecret)
	case domain.ResealSecrets:
		for _, v := range b.Values {
			sealed = append(sealed, v.Sealed)
		}
	}
	return sealed
}

// rewrapReport is what is told of a rewrap.
type rewrapReport struct {
	NewestKey string       `json:"newestKey"`
	Endpoints int          `json:"endpoints"`
	Secrets   sealedCounts `json:"secrets"`
	Headers   sealedCounts `json:"headers"`
	Keys      []keyReport  `json:"keys"`
}

type keyReport struct {
	ID        string `json:"id"`
	Use       string `json:"use"` // seals, staged, opens, or missing: not in the file
	Values    int    `json:"values"`
	Removable bool   `json:"removable"`
}

func keyName(id uint32) string { return fmt.Sprintf("%010d", id) }

func reportOf(pass sealedPass, newest uint32, keys []sealing.Key) rewrapReport {
	report := rewrapReport{NewestKey: keyName(newest), Endpoints: pass.endpoints, Secrets: pass.secrets, Headers: pass.headers}
	left := maps.Clone(pass.byKey)
	for _, k := range keys {
		one := keyReport{ID: keyName(k.ID), Use: "opens", Values: left[k.ID]}
		switch {
		case k.Seals:
			one.Use = "seals"
		case k.Staged:
			one.Use = "staged"
		default:
			one.Removable = one.Values == 0
		}
		delete(left, k.ID)
		report.Keys = append(report.Keys, one)
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		report.Keys = append(report.Keys, keyReport{ID: keyName(id), Use: "missing", Values: left[id]})
	}
	return report
}

func (r rewrapReport) show(w io.Writer) {
	cli.Row(w, fmt.Sprintf("OF %d ENDPOINTS", r.Endpoints), "RESEALED", "ALREADY NEW", "UNOPENED")
	cli.Row(w, "signing secrets", r.Secrets.Resealed, r.Secrets.AlreadyNew, r.Secrets.Unopened)
	cli.Row(w, "header values", r.Headers.Resealed, r.Headers.AlreadyNew, r.Headers.Unopened)
	_, _ = io.WriteString(w, "\n")
	cli.Row(w, "KEY", "USE", "SEALED VALUES")
	removable := false
	for _, k := range r.Keys {
		cells := []any{k.ID, k.Use, k.Values}
		if k.Removable {
			removable, cells = true, append(cells, "can go: lumenhook secrets drop "+k.ID)
		}
		cli.Row(w, cells...)
	}
	if removable {
		_, _ = io.WriteString(w, "\n"+whatDroppingMeans)
	}
}

// whatDroppingMeans is told with every key that can go.
const whatDroppingMeans = `Facts in the journal stay as they were sealed, and nothing opens them: state is
folded from them unopened, and the resealed values come later. So a key that can go
is not needed to restore or rebuild from the topics. Keep a copy of it, offline, for
backups of the topics from before, and drop it two days from now if repeats of
requests (Idempotency-Key) from before are to get their answer until then.
`
