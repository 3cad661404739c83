package ops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	// reachTimeout bounds the wait for unreachable brokers.
	reachTimeout = 15 * time.Second
	// followTime is longer than processes take to notice a changed master key file.
	followTime = 2 * time.Second
)

// RewrapConfig configures the walk over sealed values. All fields are required.
type RewrapConfig struct {
	Key     keys.MasterKeyPlace
	Signing string                        // the file of the signing keys, which need not exist
	Cluster func() (kafka.Cluster, error) // called once the master key is read
	// Progress is called with records and endpoints, done and in total.
	Progress func(done, total int64)
	Logger   *slog.Logger // gets values that cannot be opened
}

// Rewrap rotates the master key, unless a rewrap is resumed, and has everything that is sealed
// resealed with it. It may be interrupted and resumed at any point.
func Rewrap(ctx context.Context, cfg RewrapConfig, resume bool) (RewrapReport, error) {
	if !resume {
		if err := cfg.rotate(ctx); err != nil {
			return RewrapReport{}, err
		}
	}
	if err := cfg.awaitFollowed(ctx); err != nil {
		return RewrapReport{}, rewrapInterrupted(err)
	}
	w, err := cfg.open(ctx, true)
	if err != nil {
		return RewrapReport{}, err
	}
	found, err := w.run(ctx)
	w.close()
	if err != nil {
		return RewrapReport{}, rewrapInterrupted(err)
	}
	signingKeys, err := keys.ResealSigning(cfg.Signing, w.sealer)
	if err != nil {
		return RewrapReport{}, rewrapInterrupted(err)
	}
	list, err := cfg.Key.Keys()
	if err != nil {
		return RewrapReport{}, err
	}
	report := rewrapReportOf(found, w.sealer.Newest(), list)
	report.SigningKeysResealed = signingKeys
	return report, nil
}

func rewrapInterrupted(err error) error {
	return fmt.Errorf("not all is resealed; nothing is lost, "+
		"and `lumenhook secrets rewrap --resume` continues: %w", err)
}

// rotate rotates the key once the service is known to run.
func (cfg RewrapConfig) rotate(ctx context.Context) error {
	w, err := cfg.open(ctx, true)
	if err != nil {
		return fmt.Errorf("the key was not rotated, for nothing could be resealed: %w "+
			"(--key-only rotates it all the same)", err)
	}
	defer w.close()
	_, _, err = w.cluster.Extent(ctx, schemas.TopicEndpoints)
	if err == nil {
		_, err = keys.RotateMasterFile(cfg.Key.Path(), false)
	}
	return err
}

// awaitFollowed waits until processes that follow the master key's file have noticed
// its last change, so that none seals with an older key any more.
func (cfg RewrapConfig) awaitFollowed(ctx context.Context) error {
	info, err := os.Stat(cfg.Key.Path())
	if _, isVariable := cfg.Key.FromVariable(); isVariable || err != nil {
		return nil
	}
	return retry.Sleep(ctx, followTime-time.Since(info.ModTime()))
}

// open makes a walker. The caller closes it.
func (cfg RewrapConfig) open(ctx context.Context, resealing bool) (*walker, error) {
	text, err := cfg.Key.Text()
	if err != nil {
		return nil, err
	}
	w := &walker{progress: cfg.Progress, logger: cfg.Logger}
	if w.sealer, err = keys.ParseSealer(text); err != nil {
		return nil, err
	}
	if w.cluster, err = cfg.Cluster(); err != nil || !resealing {
		return w, err
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	w.engine, err = config.OpenEngine(ctx, w.cluster)
	return w, err
}

// DropKey removes a key from the master key, once nothing is found that it sealed; else it
// changes nothing. For a master key in a variable it returns the new text.
func DropKey(
	ctx context.Context, cfg RewrapConfig, id uint32,
) (left []byte, kept []keys.MasterKey, err error) {
	text, err := cfg.Key.Text()
	if err != nil {
		return nil, nil, err
	}
	// What can be refused without reading topics is refused first.
	if left, kept, err = keys.DropMaster(text, id); err != nil {
		return nil, nil, err
	}
	inUse, err := cfg.inUse(ctx, id)
	if err == nil && inUse == 0 {
		inUse, err = signingInUse(cfg.Signing, id)
	}
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("the key was not dropped, "+
			"for it is not known whether it is in use: %w", err)
	case inUse > 0:
		return nil, nil, fmt.Errorf("key %s is in use and was not dropped: "+
			"%d values of endpoints, or signing keys, open with it alone; "+
			"run `lumenhook secrets rewrap --resume` first", KeyName(id), inUse)
	}
	if _, isVariable := cfg.Key.FromVariable(); isVariable {
		return left, kept, nil
	}
	kept, err = keys.DropMasterFile(cfg.Key.Path(), id)
	return nil, kept, err
}

// signingInUse counts the signing keys that a key sealed.
func signingInUse(path string, id uint32) (n int, err error) {
	signing, err := keys.ReadSigning(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, k := range signing {
		if by, _ := keys.SealedBy(k.Sealed); by == id {
			n++
		}
	}
	return n, err
}

// inUse counts the values that a key sealed, once nothing more is sealed with it.
func (cfg RewrapConfig) inUse(ctx context.Context, id uint32) (int, error) {
	w, err := cfg.open(ctx, false)
	if err != nil {
		return 0, err
	}
	if err := cfg.awaitFollowed(ctx); err != nil {
		return 0, err
	}
	return w.inUse(ctx, id)
}

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
	starts, ends, err := w.cluster.Extent(ctx, schemas.TopicEndpoints)
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
		body, now := w.reseal(e)
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

// reseal opens values that an older key sealed, seals them again, and counts the values by key.
func (w *walker) reseal(e domain.Endpoint) (domain.ResealSecrets, rewrapTally) {
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

// waiting counts, for each key, the values in commands that no engine has
// decided on yet: they are in no table, and will be.
func (w *walker) waiting(ctx context.Context) (map[uint32]int, error) {
	byKey := make(map[uint32]int)
	from, ends, err := w.cluster.Extent(ctx, schemas.TopicCommands)
	if err != nil {
		return nil, err
	}
	err = w.cluster.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		committed, err := admin.FetchOffsets(ctx, w.cluster.Prefix+engineGroup)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // no engine has ever decided
			return fmt.Errorf("asking how far the engine has decided: %w", err)
		}
		for p := range from {
			o, ok := committed.Lookup(w.cluster.Prefix+schemas.TopicCommands, p)
			if ok && o.Err == nil && o.At > from[p] {
				from[p] = o.At
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	count := func(record kafka.Record) error {
		c, err := schemas.DecodeCommand(schemas.Read(record.Value, record))
		if err != nil {
			return nil // the engine reports its problem
		}
		for _, sealed := range sealedIn(c.Body) {
			id, _ := keys.SealedBy(sealed)
			byKey[id]++
		}
		return nil
	}
	return byKey, w.cluster.ReadBetween(ctx, schemas.TopicCommands, from, ends, pollRecords, count)
}

// inUse counts the values that a key sealed. Pending commands are read before the table: commands
// decided in between are in the table.
func (w *walker) inUse(ctx context.Context, id uint32) (int, error) {
	waiting, err := w.waiting(ctx)
	if err != nil {
		return 0, err
	}
	found, err := w.pass(ctx)
	return waiting[id] + found.byKey[id], err
}

// engineGroup is the consumer group of the engines, behind the topics' prefix.
const engineGroup = "engine"

// sealedIn returns the sealed values that a command would put into the state.
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
	case domain.DisableEndpoint, domain.EnableEndpoint, domain.DeleteEndpoint, domain.TestEndpoint,
		domain.ReplayEndpoint, domain.ReplayEvents, domain.ResendEvent, domain.RecordMail:
	case domain.CreateAccount, domain.UpdateAccount, domain.CreateKey, domain.RollKey,
		domain.RevokeKey:
	case domain.CreateWatch, domain.UpdateWatch, domain.DeleteWatch, domain.BackfillWatch,
		domain.RecordCoverage:
	}
	return sealed
}

// RewrapReport is the result of a rewrap, for people and as JSON.
type RewrapReport struct {
	NewestKey string       `json:"newestKey"`
	Endpoints int          `json:"endpoints"`
	Secrets   RewrapCounts `json:"secrets"`
	Headers   RewrapCounts `json:"headers"`
	Keys      []KeyUse     `json:"keys"`
	// SigningKeysResealed counts the keys of signatures by Ed25519.
	SigningKeysResealed int `json:"signingKeysResealed"`
}

// KeyUse is the use of one key of the master key.
type KeyUse struct {
	ID        string `json:"id"`
	Use       string `json:"use"` // seals, staged, opens, or missing: not in the file
	Values    int    `json:"values"`
	Removable bool   `json:"removable"`
}

// KeyName formats the id of a key.
func KeyName(id uint32) string { return fmt.Sprintf("%010d", id) }

func rewrapReportOf(found rewrapTally, newest uint32, list []keys.MasterKey) RewrapReport {
	report := RewrapReport{
		NewestKey: KeyName(newest),
		Endpoints: found.endpoints,
		Secrets:   found.secrets,
		Headers:   found.headers,
	}
	left := maps.Clone(found.byKey)
	for _, k := range list {
		one := KeyUse{ID: KeyName(k.ID), Use: "opens", Values: left[k.ID]}
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
		missing := KeyUse{ID: KeyName(id), Use: "missing", Values: left[id]}
		report.Keys = append(report.Keys, missing)
	}
	return report
}

// Show prints it in columns.
func (r RewrapReport) Show(w io.Writer) {
	cli.Row(w, fmt.Sprintf("OF %d ENDPOINTS", r.Endpoints), "RESEALED", "ALREADY NEW", "UNOPENED")
	cli.Row(w, "signing secrets", r.Secrets.Resealed, r.Secrets.AlreadyNew, r.Secrets.Unopened)
	cli.Row(w, "header values", r.Headers.Resealed, r.Headers.AlreadyNew, r.Headers.Unopened)
	if r.SigningKeysResealed > 0 {
		cli.Row(w, "signing keys", r.SigningKeysResealed)
	}
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
		_, _ = io.WriteString(w, "\n"+WhatDroppingMeans)
	}
}

// Err returns an error that names the values that no key opens, or nil.
func (r RewrapReport) Err() error {
	n := r.Secrets.Unopened + r.Headers.Unopened
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d values open with no key of this master key: nothing is sent to their "+
		"endpoints until the key that sealed them is put back, "+
		"or the secret is rotated and the header set again", n)
}

// WhatDroppingMeans is printed with every key that can be dropped.
const WhatDroppingMeans = "" +
	"Facts in the journal stay sealed with the old key, and nothing opens them. So you can\n" +
	"restore or rebuild from the topics without this key. Keep an offline copy of it for\n" +
	"older backups of the topics. Repeats of older requests (Idempotency-Key) need it for\n" +
	"their answers: to keep those, drop the key in two days.\n"
