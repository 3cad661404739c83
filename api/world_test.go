package api_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/schemas"
)

// world is everything behind the API, in memory: the domain's own Decide and Evolve behind a lock,
// a directory that lags until it is awaited, a history, a ledger network and a URL policy.
type world struct {
	healthAsked readmodel.HealthFilter // filter of the last call of Health
	t           testing.TB
	api         *api.API
	config      api.Config
	server      *httptest.Server
	log         *testkit.Buffer
	now         time.Time

	mu        sync.Mutex
	facts     int
	answers   map[string]domain.Result
	endpoints map[string]domain.Endpoint
	watches   map[string]domain.Watch
	accounts  map[string]domain.Account
	seen      map[string]uint64 // versions that the directory shows
	history   map[string]record
	numbered  map[string]readmodel.NumberedPage // events to pull, by endpoint
	happened  map[string][]domain.Fact          // stored facts, by endpoint, watch and event
	logs      map[string]map[uint64][]byte      // hashes of attempts, by endpoint and leaf
	more      chan struct{}                     // closed when an event is added to numbered
	waiting   int                               // number of requests that wait for more
	left      map[string][]domain.Delivery      // by the endpoint that the event has left
	wallets   map[string][]domain.Asset
	used      map[string]int64
	attempt   domain.AttemptResult // result of a test
	catchUps  int
	went      []string // endpoints that events have left, in order
	forgets   bool     // the engine has forgotten the deliveries

	pendingUnknown bool // the oldest pending events cannot be read in time
	behind         bool // the history is too far behind for the engine

	followed   api.Followed
	counts     int    // reads of the cursor until one more ledger counts; 0 for never
	counted    func() // called when it counts, with mu locked
	ledgersErr error
	statement  readmodel.Statement
	paid       []readmodel.Paid // of any transaction
	network    *domain.Transaction
	statements []readmodel.StatementFilter // statements that were read

	endErr, catchUpErr, freshErr, submitErr, historyErr, directoryErr error
	// the engine acts, but its answer is lost
	loseAnswer bool
	gate       chan struct{}
	panicking  bool
}

type record struct {
	accountID string
	record    readmodel.Event
}

// newWorld serves the API on its own port.
func newWorld(t testing.TB, change ...func(*api.Config)) *world {
	w := assemble(t, change...)
	w.serve()
	return w
}

func (w *world) serve() {
	w.server = httptest.NewUnstartedServer(nil)
	w.server.Config = api.NewServer(w.api, w.api.Log)
	w.server.Start()
	w.t.Cleanup(w.server.Close)
}

// restart replaces the node by one without memory.
func (w *world) restart(change func(*api.Config)) {
	w.server.Close()
	change(&w.config)
	w.begin()
	w.serve()
}

func (w *world) begin() {
	a, err := api.New(w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.api = a
}

// assemble creates the API without a server.
func assemble(t testing.TB, change ...func(*api.Config)) *world {
	w := &world{
		t:         t,
		log:       &testkit.Buffer{},
		now:       time.Date(2026, 11, 21, 10, 15, 30, 123_456_789, time.UTC),
		answers:   map[string]domain.Result{},
		endpoints: map[string]domain.Endpoint{},
		watches:   map[string]domain.Watch{},
		accounts:  map[string]domain.Account{},
		used:      map[string]int64{},
		attempt:   domain.AttemptResult{SentAtMillis: 1, DurationMillis: 12, StatusCode: 204},
		seen:      map[string]uint64{},
		happened:  map[string][]domain.Fact{},
		history:   map[string]record{},
		numbered:  map[string]readmodel.NumberedPage{},
		more:      make(chan struct{}),
		wallets:   map[string][]domain.Asset{},
	}
	config := api.Config{
		Commands:  w,
		Directory: w,
		History:   w,
		Ledgers:   w,
		Sealer:    newSealer(t),
		Wallets:   w,
		URLs:      w,
		Entropy:   rand.Reader,
		Now:       func() time.Time { return w.now },
		Log:       slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Uses:      w,

		Transactions: w,
		DeriveKey:    func(label string) [32]byte { return sha256.Sum256([]byte("shared" + label)) },
		RateLimit:    api.RateLimit{PerSecond: 1_000_000},
	}
	for _, c := range change {
		c(&config)
	}
	w.config = config
	w.begin()
	return w
}

// Submit answers like the engine: a repeated command gets its first answer, and any other is
// decided and folded.
func (w *world) Submit(ctx context.Context, c domain.Command) (domain.Result, error) {
	if w.gate != nil {
		select {
		case <-w.gate:
		case <-ctx.Done():
			return domain.Result{}, ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.panicking {
		panic("the engine is on fire")
	}
	if w.submitErr != nil {
		return domain.Result{}, w.submitErr
	}
	if before, handled := w.answers[c.ID]; handled {
		before.Replayed = true
		return before, nil
	}
	result := domain.Result{CommandID: c.ID, BodyHash: c.BodyHash, Answer: w.decide(c)}
	w.answers[c.ID] = result
	if w.loseAnswer {
		return domain.Result{}, fmt.Errorf("waiting for %s: %w", c.ID, api.ErrCommandUnanswered)
	}
	return result, nil
}

// decide decides a command and folds its facts, like the engine.
func (w *world) decide(c domain.Command) domain.Answer {
	nowMillis := w.now.UnixMilli()
	switch body := c.Body.(type) {
	case domain.CreateAccount, domain.CreateKey, domain.RollKey, domain.RevokeKey:
		return w.decideAccount(c, nowMillis)
	case domain.CreateWatch, domain.UpdateWatch, domain.DeleteWatch, domain.BackfillWatch:
		state, rejection := decideOn(w, c, w.watches, domain.DecideWatch, domain.EvolveWatch,
			func(s domain.Watch) uint64 { return s.Version })
		if rejection != nil {
			return domain.Answer{Rejection: rejection}
		}
		return domain.AnswerWithWatch(state, c.Body)
	case domain.TestEndpoint:
		return w.decideTest(c, body)
	case domain.ReplayEndpoint:
		return w.decideReplay(c, body)
	case domain.ReplayEvents:
		return w.decideReplayEvents(c, body)
	case domain.ResendEvent:
		return w.decideResend(c, body)
	default: // decided by the endpoint alone
	}
	state, rejection := decideOn(w, c, w.endpoints, domain.DecideEndpoint,
		func(s domain.Endpoint, f domain.Fact) domain.Endpoint {
			s, _ = domain.EvolveEndpoint(s, domain.Delivery{}, f)
			return s
		},
		func(s domain.Endpoint) uint64 { return s.Version })
	if rejection != nil {
		return domain.Answer{Rejection: rejection}
	}
	return domain.Answer{Endpoint: &state}
}

func decideOn[S any](
	w *world, c domain.Command, all map[string]S,
	decide func(S, domain.Command, int64) ([]domain.FactBody, *domain.Rejection),
	evolve func(S, domain.Fact) S, version func(S) uint64,
) (S, *domain.Rejection) {
	id, nowMillis := c.Body.Aggregate(), w.now.UnixMilli()
	state := all[id]
	bodies, rejection := decide(state, c, nowMillis)
	if rejection != nil {
		return state, rejection
	}
	for _, b := range bodies {
		fact := domain.Fact{
			Aggregate: id,
			Version:   version(state) + 1,
			AtMillis:  nowMillis,
			Cause:     c.ID,
			Body:      b,
		}
		state = evolve(state, fact)
		if kept, own := fact.Kept(); own {
			w.happened[id] = append(w.happened[id], kept)
		}
		w.facts++
	}
	all[id] = state
	return state, nil
}

func (w *world) decideAccount(c domain.Command, nowMillis int64) domain.Answer {
	state, rejection := decideOn(w, c, w.accounts, domain.DecideAccount, domain.EvolveAccount,
		func(s domain.Account) uint64 { return s.Version })
	if rejection != nil {
		return domain.Answer{Rejection: rejection}
	}
	var id string
	switch body := c.Body.(type) {
	case domain.CreateKey:
		id = body.Key.ID
	case domain.RollKey:
		id = body.Key.ID
	default:
		return domain.Answer{Account: &state}
	}
	key, _ := state.Key(id)
	return domain.Answer{Key: &key, Version: state.Version}
}

func (w *world) decideTest(c domain.Command, body domain.TestEndpoint) domain.Answer {
	e := w.endpoints[body.EndpointID]
	_, rejection := domain.DecideTest(e, domain.Delivery{}, c, w.now.UnixMilli())
	if rejection != nil {
		return domain.Answer{Rejection: rejection}
	}
	id := domain.TestEventID(c.ID)
	event := domain.NewTestEvent(e, id, w.now.UnixMilli())
	if body.Sample != "" {
		event = domain.NewSampleEvent(id, w.now.UnixMilli())
	}
	state := domain.StateWaiting
	if w.attempt.Succeeded() {
		state = domain.StateDelivered
	}
	w.history[id] = record{
		e.AccountID,
		readmodel.Event{
			Body:       event.Body,
			EndpointID: e.ID,
			Sequence:   13,
			State:      state,
			Attempts:   []readmodel.Attempt{{EndpointID: e.ID, Number: 1, Run: 1, Result: w.attempt}},
		},
	}
	return domain.Answer{Test: &domain.TestResult{EventID: id, Result: w.attempt}}
}

func (w *world) deliveries(endpointID string) (all []domain.Delivery) {
	for id, r := range w.history {
		if r.record.EndpointID == endpointID {
			all = append(all, domain.Delivery{
				EventID:         id,
				AccountID:       r.accountID,
				EndpointID:      endpointID,
				Sequence:        r.record.Sequence,
				WatchID:         watchOf(w.t, r.record.Body),
				State:           r.record.State,
				CreatedAtMillis: createdAt(w.t, r.record.Body),
				Run:             1,
				Attempts:        len(r.record.Attempts),
			})
		}
	}
	slices.SortFunc(all,
		func(a, b domain.Delivery) int { return int(a.CreatedAtMillis - b.CreatedAtMillis) })
	return all
}

func watchOf(t testing.TB, envelope []byte) string {
	return decode[struct {
		Data struct{ Watch struct{ ID string } }
	}](t, envelope).Data.Watch.ID
}

func createdAt(t testing.TB, envelope []byte) int64 {
	at, err := time.Parse(time.RFC3339Nano, decode[struct{ CreatedAt string }](t, envelope).CreatedAt)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMilli()
}

func (w *world) decideReplay(c domain.Command, body domain.ReplayEndpoint) domain.Answer {
	facts, result, rejection := domain.DecideReplay(w.endpoints[body.EndpointID], c.AccountID, body,
		w.deliveries(body.EndpointID), 0, w.now.UnixMilli())
	if rejection != nil {
		return domain.Answer{Rejection: rejection}
	}
	w.requeue(facts)
	return domain.Answer{Replay: &result}
}

func (w *world) decideReplayEvents(c domain.Command, body domain.ReplayEvents) domain.Answer {
	var chosen []domain.Delivery
	for _, id := range body.EventIDs {
		for _, d := range w.deliveries(body.EndpointID) {
			if d.EventID == id {
				chosen = append(chosen, d)
			}
		}
	}
	facts, result, rejection := domain.DecideReplayEvents(w.endpoints[body.EndpointID], c.AccountID,
		body, chosen, w.now.UnixMilli())
	if rejection != nil {
		return domain.Answer{Rejection: rejection}
	}
	w.requeue(facts)
	return domain.Answer{Replay: &result}
}

func (w *world) requeue(facts []domain.FactBody) {
	for _, f := range facts {
		id := f.(domain.DeliveryRequeued).EventID
		r := w.history[id]
		r.record.State, r.record.NextAttemptAtMillis = domain.StateQueued, w.now.UnixMilli()
		w.history[id] = r
	}
}

func (w *world) decideResend(c domain.Command, body domain.ResendEvent) domain.Answer {
	var delivery domain.Delivery
	for _, d := range append(w.deliveries(body.EndpointID), w.left[body.EndpointID]...) {
		if d.EventID == body.EventID && !w.forgets {
			delivery = d
		}
	}
	facts, rejection := domain.DecideRestoreDelivery(delivery, c.AccountID, body, !w.behind)
	for _, f := range facts {
		delivery = f.(domain.DeliveryRecalled).Delivery
	}
	if !delivery.Exists() {
		delivery = body.Left()
	}
	if rejection == nil {
		facts, rejection = domain.DecideResend(w.endpoints[body.EndpointID], delivery, c.AccountID, body,
			false, w.now.UnixMilli())
	}
	if rejection != nil {
		return domain.Answer{Rejection: rejection}
	}
	for _, f := range facts {
		_, delivery = domain.EvolveEndpoint(w.endpoints[body.EndpointID], delivery,
			domain.Fact{Version: 2, AtMillis: w.now.UnixMilli(), Cause: c.ID, Body: f})
		if _, moves := f.(domain.DeliveryMoved); moves {
			w.move(delivery)
			continue
		}
		w.requeue(facts)
	}
	return domain.Answer{Delivery: &delivery}
}

func (w *world) move(d domain.Delivery) {
	if w.left == nil {
		w.left = make(map[string][]domain.Delivery)
	}
	w.left[d.EndpointID] = append(w.left[d.EndpointID], d)
	w.went = append(w.went, d.EndpointID)
	r := w.history[d.EventID]
	r.record.EndpointID, r.record.State = d.MovedTo, domain.StateQueued
	w.history[d.EventID] = r
}

func (w *world) Fresh() error { return w.freshErr }

// Confirm makes everything visible in the directory.
func (w *world) Confirm(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.catchUps++
	if w.catchUpErr != nil {
		return w.catchUpErr
	}
	for id, e := range w.endpoints {
		w.seen[id] = e.Version
	}
	for id, x := range w.watches {
		w.seen[id] = x.Version
	}
	for id, a := range w.accounts {
		w.seen[id] = a.Version
	}
	return nil
}

func (w *world) KeyByHash(hash []byte) (domain.Key, string, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, a := range w.accounts {
		for _, k := range a.Keys {
			if bytes.Equal(k.Hash, hash) && w.seen[id] >= a.Version {
				return k, id, true, w.directoryErr
			}
		}
	}
	return domain.Key{}, "", false, w.directoryErr
}

func (w *world) KeyUsedAt(id string) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used[id], nil
}

func (w *world) ExpiredSessions(_ string, nowMillis int64) (ids []string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, until := range w.used {
		if strings.HasPrefix(id, "ses_") && until <= nowMillis {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (w *world) Used(id string, atMillis int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used[id] = atMillis
}

func (w *world) EndSession(_ context.Context, id string, untilMillis int64) error {
	if w.endErr == nil {
		w.Used(id, untilMillis)
	}
	return w.endErr
}

func (w *world) Forget(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.used, id)
}

func (w *world) Account(id string) (domain.Account, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, found := w.accounts[id]
	return a, found && w.seen[id] >= a.Version, nil
}

// Counts returns what an account has, with the bytes of its rows.
func (w *world) Counts(accountID string) (c, quotas domain.Counts, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	add := func(of domain.Counts, row []byte) {
		of.StoredBytes = uint64(len(row))
		c = c.Plus(of, domain.Counts{})
	}
	for _, e := range w.endpoints {
		if e.AccountID == accountID && !e.Deleted() {
			add(e.CountsOf(), schemas.EncodeEndpoint(e).Value)
		}
	}
	for _, x := range w.watches {
		if x.AccountID == accountID && !x.Deleted() {
			add(x.CountsOf(), schemas.MarshalWatch(x))
		}
	}
	return c, w.accounts[accountID].Quotas.Or(domain.DefaultQuotas()), nil
}

func (w *world) Endpoint(id string) (domain.Endpoint, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, found := w.endpoints[id]
	return e, found && w.seen[id] >= e.Revision && !e.Deleted(), nil
}

func (w *world) Watch(id string) (domain.Watch, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x, found := w.watches[id]
	return x, found && w.seen[id] >= x.Revision && !x.Deleted(), nil
}

func (w *world) Endpoints(
	f readmodel.EndpointFilter, after *readmodel.Position, limit int,
) ([]domain.Endpoint, *readmodel.Position, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return pageOf(w.endpoints, after, limit, func(e domain.Endpoint) (readmodel.Position, bool) {
		return readmodel.Position{CreatedAtMillis: e.CreatedAtMillis, ID: e.ID}, !e.Deleted() &&
			e.AccountID == f.AccountID && (f.Status == "" || e.Status == f.Status)
	})
}

func (w *world) Watches(
	f readmodel.WatchFilter, after *readmodel.Position, limit int,
) ([]domain.Watch, *readmodel.Position, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return pageOf(w.watches, after, limit, func(x domain.Watch) (readmodel.Position, bool) {
		return readmodel.Position{CreatedAtMillis: x.CreatedAtMillis, ID: x.ID}, !x.Deleted() &&
			x.AccountID == f.AccountID &&
			(f.EndpointID == "" || x.EndpointID == f.EndpointID) &&
			(f.WalletAddress == "" || x.WalletAddress == f.WalletAddress)
	})
}

func (w *world) LeftWatches(accountID, endpointID string) (total int, ids []string, err error) {
	left, _, err := w.Watches(
		readmodel.WatchFilter{AccountID: accountID, EndpointID: endpointID}, nil, math.MaxInt)
	ids = []string{}
	for _, x := range left {
		ids = append(ids, x.ID)
	}
	return len(ids), ids, err
}

// pageOf sorts all objects, newest first and then by id, and returns a page.
func pageOf[T any](
	all map[string]T, after *readmodel.Position, limit int, place func(T) (readmodel.Position, bool),
) (page []T, next *readmodel.Position, err error) {
	before := func(a, b readmodel.Position) bool {
		return a.CreatedAtMillis > b.CreatedAtMillis ||
			a.CreatedAtMillis == b.CreatedAtMillis && a.ID < b.ID
	}
	type placed struct {
		at readmodel.Position
		of T
	}
	var kept []placed
	for _, one := range all {
		if at, is := place(one); is && (after == nil || before(*after, at)) {
			kept = append(kept, placed{at, one})
		}
	}
	slices.SortFunc(kept, func(a, b placed) int {
		if before(a.at, b.at) {
			return -1
		}
		return 1
	})
	if len(kept) > limit {
		kept = kept[:limit]
		next = &kept[limit-1].at
	}
	for _, k := range kept {
		page = append(page, k.of)
	}
	return page, next, nil
}

// AwaitEndpoint makes the version visible. Without it, the version never is.
func (w *world) AwaitEndpoint(_ context.Context, id string, version uint64) error {
	return w.await(id, version)
}

func (w *world) AwaitEndpointGone(_ context.Context, id string) error {
	return w.await(id, w.endpoints[id].Version)
}

func (w *world) AwaitWatch(_ context.Context, id string, version uint64) error {
	return w.await(id, version)
}

func (w *world) AwaitWatchGone(_ context.Context, id string) error {
	return w.await(id, w.watches[id].Version)
}

func (w *world) AwaitAccount(_ context.Context, id string, version uint64) error {
	return w.await(id, version)
}

func (w *world) await(id string, version uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[id] = max(w.seen[id], version)
	return nil
}

func (w *world) Events(
	_ context.Context, f readmodel.EventFilter, after *readmodel.Position, limit int,
) ([]readmodel.Event, *readmodel.Position, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.historyErr != nil {
		return nil, nil, fmt.Errorf("reading: %w", w.historyErr)
	}
	page, next, err := pageOf(w.history, after, limit, func(r record) (readmodel.Position, bool) {
		at := createdAt(w.t, r.record.Body)
		e := decode[struct {
			ID   string
			Type domain.EventType
			Data struct {
				Watch   struct{ ID, WalletAddress string }
				Payment struct {
					ID, TxHash, From, AmountStroops string
					Memo                            *string
					Asset                           struct {
						Code   string
						Issuer *string
					}
				}
			}
		}](w.t, r.record.Body)
		return readmodel.Position{CreatedAtMillis: at, ID: e.ID}, r.accountID == f.AccountID &&
			(f.EndpointID == "" || r.record.EndpointID == f.EndpointID) &&
			(f.WatchID == "" || e.Data.Watch.ID == f.WatchID) &&
			(f.WalletAddress == "" || e.Data.Watch.WalletAddress == f.WalletAddress) &&
			(f.PaymentID == "" || e.Data.Payment.ID == f.PaymentID) &&
			(f.TxHash == "" || e.Data.Payment.TxHash == f.TxHash) &&
			(f.Sender == "" || e.Data.Payment.From == f.Sender) &&
			(f.Memo == "" || e.Data.Payment.Memo != nil && *e.Data.Payment.Memo == f.Memo) &&
			(f.Asset.Code == "" || f.Asset == assetIn(e.Data.Payment.Asset)) &&
			isBetween(e.Data.Payment.AmountStroops, f.MinStroops, f.MaxStroops) &&
			(f.Type == "" || e.Type == f.Type) && (f.State == "" || r.record.State == f.State) &&
			(!f.NoTests || e.Type != domain.TestPing) &&
			at >= f.SinceMillis && (f.UntilMillis == 0 || at < f.UntilMillis)
	})
	var records []readmodel.Event
	for _, r := range page {
		one := r.record
		if n := len(one.Attempts); n > 0 {
			last := one.Attempts[n-1].Result
			one.AttemptsMade, one.LastStatusCode, one.LastError = n, last.StatusCode, last.Error
		}
		records = append(records, one)
	}
	return records, next, err
}

// Choose returns the positions of the events that Events lists.
func (w *world) Choose(
	ctx context.Context, f readmodel.EventFilter, after *readmodel.Position, limit int,
) (chosen []readmodel.Position, next *readmodel.Position, err error) {
	records, next, err := w.Events(ctx, f, after, limit)
	for _, r := range records {
		id := decode[struct{ ID string }](w.t, r.Body).ID
		chosen = append(chosen, readmodel.Position{CreatedAtMillis: createdAt(w.t, r.Body), ID: id})
	}
	return chosen, next, err
}

func (w *world) Numbered(
	_ context.Context, accountID, endpointID string, after uint64, limit int,
) (page readmodel.NumberedPage, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.historyErr != nil {
		return page, fmt.Errorf("reading: %w", w.historyErr)
	}
	all := w.numbered[endpointID]
	for _, e := range all.Events {
		if e.Sequence > after && len(page.Events) < limit {
			page.Events = append(page.Events, e)
		}
	}
	for _, m := range all.Missing {
		if m.To > after {
			page.Missing = append(page.Missing, readmodel.Numbers{From: max(m.From, after+1), To: m.To})
		}
	}
	page.AsOf = all.AsOf
	return page, nil
}

func (w *world) Rates(
	_ context.Context, f readmodel.RatesFilter,
) (rates readmodel.Rates, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.historyErr != nil {
		return rates, fmt.Errorf("reading: %w", w.historyErr)
	}
	for _, one := range w.history {
		if one.accountID != f.AccountID || f.EndpointID != "" && one.record.EndpointID != f.EndpointID {
			continue
		}
		for _, a := range one.record.Attempts {
			if at := a.Result.SentAtMillis; at < f.FromMillis || at >= f.ToMillis {
				continue
			}
			m := readmodel.RatesMinute{AtMillis: a.Result.SentAtMillis / 60_000 * 60_000}
			switch {
			case a.Result.Succeeded():
				m.Delivered, rates.Delivered = 1, rates.Delivered+1
			case a.Result.Error == "":
				m.Refused, rates.Refused = 1, rates.Refused+1
			default:
				m.Unmet, rates.Unmet = 1, rates.Unmet+1
			}
			rates.Minutes = append(rates.Minutes, m) // a minute per attempt, because ClickHouse adds them up
			rates.MedianMillis, rates.P99Millis = 12, 34
		}
	}
	return rates, nil
}

// Health adds up the attempts of the history. Its time spans are exact, unlike those of ClickHouse.
func (w *world) Health(
	_ context.Context, f readmodel.HealthFilter,
) (map[string]domain.EndpointHealth, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.healthAsked = f
	if w.historyErr != nil {
		return nil, fmt.Errorf("reading: %w", w.historyErr)
	}
	by := make(map[string]domain.EndpointHealth)
	for _, one := range w.history {
		id := one.record.EndpointID
		if one.accountID != f.AccountID ||
			len(f.EndpointIDs) > 0 && !slices.Contains(f.EndpointIDs, id) {
			continue
		}
		h := by[id]
		for _, a := range one.record.Attempts {
			h = attempted(h, a, f.NowMillis)
		}
		made := createdAt(w.t, one.record.Body)
		if h.PendingUnknown = w.pendingUnknown; one.record.State.Pending() && !h.PendingUnknown {
			h.OldestPendingMillis = made
		}
		by[id] = h
	}
	return by, nil
}

func attempted(
	h domain.EndpointHealth, a readmodel.Attempt, nowMillis int64,
) domain.EndpointHealth {
	at, one := a.Result.SentAtMillis, domain.AttemptCounts{Failed: 1}
	if a.Result.Succeeded() {
		one = domain.AttemptCounts{Delivered: 1}
		h.LastSuccessMillis = max(h.LastSuccessMillis, at)
	} else {
		h.LastFailureMillis = max(h.LastFailureMillis, at)
	}
	const hour = 3_600_000
	ago := nowMillis - at
	if ago < hour {
		h.Hour.Add(one)
	}
	if ago < 24*hour {
		h.Day.Add(one)
	}
	if ago < 168*hour {
		h.Week.Add(one)
	}
	if ago < 24*hour {
		h.Hours[23-ago/hour].Add(one)
	}
	return h
}

func (w *world) EndpointSteps(
	_ context.Context, f readmodel.StepFilter,
) (readmodel.StepPage[domain.Endpoint], error) {
	return stepsOf(w, f, func(e domain.Endpoint, fact domain.Fact) domain.Endpoint {
		e, _ = domain.EvolveEndpoint(e, domain.Delivery{}, fact)
		return e
	}, func(e domain.Endpoint) string { return e.AccountID })
}

func (w *world) WatchSteps(
	_ context.Context, f readmodel.StepFilter,
) (readmodel.StepPage[domain.Watch], error) {
	return stepsOf(w, f, domain.EvolveWatch, func(x domain.Watch) string { return x.AccountID })
}

func (w *world) EventSteps(
	_ context.Context, f readmodel.StepFilter,
) (readmodel.StepPage[domain.TrackedDelivery], error) {
	return stepsOf(w, f, domain.TrackedDelivery.Evolve,
		func(d domain.TrackedDelivery) string { return d.AccountID })
}

func stepsOf[S any](
	w *world, f readmodel.StepFilter, evolve func(S, domain.Fact) S, owner func(S) string,
) (page readmodel.StepPage[S], err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.historyErr != nil {
		return page, fmt.Errorf("reading: %w", w.historyErr)
	}
	var state S
	for _, fact := range w.happened[f.ID] {
		if f.Before != 0 && fact.Aggregate == f.BeforeAt && fact.Version >= f.Before {
			break
		}
		before := state
		state = evolve(state, fact)
		if owner(state) == "" { // an endpoint that the event has not reached
			continue
		}
		page.Steps = append(page.Steps, domain.Step[S]{Fact: fact, Before: before, After: state})
	}
	if owner(state) != f.AccountID {
		return readmodel.StepPage[S]{}, readmodel.ErrNotFound
	}
	slices.Reverse(page.Steps)
	page.More = len(page.Steps) > f.Limit
	page.Steps = page.Steps[:min(len(page.Steps), f.Limit)]
	return page, nil
}

func (w *world) LogSize(_ context.Context, endpointID string, _ uint64) (size uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.historyErr != nil {
		return 0, fmt.Errorf("reading: %w", w.historyErr)
	}
	for number := range w.logs[endpointID] {
		size = max(size, number)
	}
	return size, nil
}

func (w *world) LogHashes(
	_ context.Context, endpointID string, _ uint64, _ []uint64,
) (map[uint64][]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logs[endpointID], w.historyErr
}

// NumberBefore assumes that event n was created n seconds after 1970 began.
func (w *world) NumberBefore(
	_ context.Context, accountID, endpointID string, sinceMillis int64,
) (before uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.historyErr != nil {
		return 0, fmt.Errorf("reading: %w", w.historyErr)
	}
	for _, e := range w.numbered[endpointID].Events {
		if int64(e.Sequence)*1000 < sinceMillis {
			before = e.Sequence
		}
	}
	return before, nil
}

// AwaitMore waits until number is called for the endpoint.
func (w *world) AwaitMore(ctx context.Context, endpointID string, asOf int64) error {
	w.mu.Lock()
	w.waiting++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waiting--
	}()
	for {
		w.mu.Lock()
		at, more := w.numbered[endpointID].AsOf, w.more
		w.mu.Unlock()
		if at != asOf {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *world) number(endpointID string, e readmodel.NumberedEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	page := w.numbered[endpointID]
	page.Events, page.AsOf = append(page.Events, e), page.AsOf+1
	w.numbered[endpointID] = page
	close(w.more)
	w.more = make(chan struct{})
}

func assetIn(a struct {
	Code   string
	Issuer *string
}) domain.Asset {
	if a.Issuer == nil {
		return domain.Asset{Code: a.Code}
	}
	return domain.Asset{Code: a.Code, Issuer: *a.Issuer}
}

// isBetween reports whether an amount is in a range, whose ends may be open. An empty amount is
// only in the range that is open at both ends.
func isBetween(stroops string, least, most *int64) bool {
	n, err := strconv.ParseInt(stroops, 10, 64)
	return least == nil && most == nil || err == nil && (least == nil || n >= *least) &&
		(most == nil || n <= *most)
}

// Followed returns the cursor. One more ledger counts from the call on that brings counts to 0.
func (w *world) Followed(context.Context) (api.Followed, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts > 0 {
		w.counts--
		if w.counts == 0 {
			w.followed.Ledger++
			if w.counted != nil {
				w.counted()
			}
		}
	}
	return w.followed, w.ledgersErr
}

func (w *world) Statement(
	_ context.Context, f readmodel.StatementFilter, after readmodel.StatementPosition, limit int,
) (readmodel.Statement, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.historyErr != nil {
		return readmodel.Statement{}, fmt.Errorf("reading: %w", w.historyErr)
	}
	w.statements = append(w.statements, f)
	s := w.statement
	for n, m := range s.Moves {
		if m.Ledger > f.LastLedger {
			s.Moves = s.Moves[:n]
			if f.OpenMillis != 0 {
				for _, beyond := range w.statement.Moves[n:] {
					if f.OpenUntil == 0 || beyond.Ledger <= f.OpenUntil {
						s.Uncounted = beyond.Ledger
					}
				}
			}
			break
		}
	}
	i := slices.IndexFunc(s.Moves, func(m readmodel.Move) bool {
		return m.Ledger == after.Ledger && m.Place == after.Place && m.ID == after.MoveID
	})
	if s.Moves = s.Moves[i+1:]; len(s.Moves) > limit {
		s.Moves = s.Moves[:limit]
		last := s.Moves[limit-1]
		s.Next = readmodel.StatementPosition{Ledger: last.Ledger, Place: last.Place, MoveID: last.ID}
	}
	return s, nil
}

func (w *world) CatchUp(context.Context) error { return nil }

func (w *world) Event(_ context.Context, accountID, eventID string) (readmodel.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.historyErr != nil {
		return readmodel.Event{}, fmt.Errorf("reading: %w", w.historyErr)
	}
	r, found := w.history[eventID]
	if !found || r.accountID != accountID {
		return readmodel.Event{}, readmodel.ErrNotFound
	}
	return r.record, nil
}

// Recall returns an event with its deliveries. At most one event is ever moved.
func (w *world) Recall(
	ctx context.Context, accountID, eventID string,
) (readmodel.Recalled, error) {
	r, err := w.Event(ctx, accountID, eventID)
	found := readmodel.Recalled{Event: r, AsOf: func(string) int64 { return 0 }}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, endpoint := range w.went {
		for _, d := range w.left[endpoint] {
			if d.EventID == eventID {
				found.Deliveries = append(found.Deliveries, d)
			}
		}
	}
	for _, d := range w.deliveries(r.EndpointID) {
		if d.EventID == eventID {
			found.Deliveries = append(found.Deliveries, d)
		}
	}
	return found, err
}

func (w *world) Warnings(_ context.Context, wallet string, assets []domain.Asset) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines, found := w.wallets[wallet]
	if !found {
		return []string{"ACCOUNT_NOT_FOUND"}
	}
	var warnings []string
	for _, asset := range assets {
		if !asset.IsNative() && !contains(lines, asset) {
			warnings = append(warnings, "NO_TRUSTLINE:"+asset.Code)
		}
	}
	return warnings
}

func contains(assets []domain.Asset, asset domain.Asset) bool {
	for _, a := range assets {
		if a == asset {
			return true
		}
	}
	return false
}

// Check accepts https URLs, unless their host is an address of this machine.
func (w *world) Check(_ context.Context, raw string) (string, []string, []api.URLFault) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return "", nil, []api.URLFault{{Code: "INVALID_URL", Detail: "must be an https URL"}}
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && !ip.IsGlobalUnicast() ||
		u.Hostname() == "localhost" {
		return "", nil, []api.URLFault{{Code: "SSRF_BLOCKED", Detail: "leads to an internal address"}}
	}
	u.Host = strings.ToLower(u.Host)
	if strings.HasSuffix(u.Hostname(), ".invalid") {
		return u.String(), []string{"DNS"}, nil
	}
	return u.String(), nil, nil
}

// newKey adds a key to the directory and returns its text.
func (w *world) newKey(accountID string, permissions ...domain.Permission) string {
	var entropy [32]byte
	if _, err := rand.Read(entropy[:]); err != nil {
		w.t.Fatal(err)
	}
	text := domain.NewAPIKey(false, entropy)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addKey(accountID,
		domain.Key{
			ID:              domain.DeriveID(domain.KeyPrefix, text),
			Hash:            domain.APIKeyHash(text),
			Permissions:     permissions,
			CreatedAtMillis: w.now.UnixMilli(),
		})
	return text
}

// addKey adds a key that the directory shows at once. The caller holds the lock.
func (w *world) addKey(accountID string, k domain.Key) {
	a := w.accounts[accountID]
	a.ID = accountID
	a.Version++
	a.Keys = append(slices.Clone(a.Keys), k)
	w.accounts[accountID], w.seen[accountID] = a, a.Version
}

func account(name string) string { return domain.DeriveID(domain.AccountPrefix, name) }

// sealer encrypts with AES-256-GCM, like the real one.
type sealer struct{ aead cipher.AEAD }

func newSealer(t testing.TB) sealer {
	block, err := aes.NewCipher(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return sealer{aead}
}

func (s sealer) Seal(plaintext []byte, associatedData string) ([]byte, error) {
	nonce := make([]byte, s.aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return s.aead.Seal(nonce, nonce, plaintext, []byte(associatedData)), nil
}

func (s sealer) Open(sealed []byte, associatedData string) ([]byte, error) {
	if len(sealed) < s.aead.NonceSize() {
		return nil, errors.New("the sealed secret is too short")
	}
	return s.aead.Open(nil, sealed[:s.aead.NonceSize()], sealed[s.aead.NonceSize():],
		[]byte(associatedData))
}

// answer is a response that was read to its end and checked against openapi.yaml.
type answer struct {
	*http.Response
	body []byte
}

// call sends a request. header has alternating names and values.
func (w *world) call(method, path, apiKey, body string, header ...string) answer {
	w.t.Helper()
	request, err := http.NewRequest(method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if apiKey != "" {
		request.Header.Set("Authorization", "Bearer "+apiKey)
	}
	if method == http.MethodPost || method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			request.Header.Del(header[i])
		}
	}
	return w.send(request, body)
}

func (w *world) send(request *http.Request, body string) answer {
	w.t.Helper()
	response, err := w.server.Client().Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	checkAgainstOpenAPI(w.t, request, body, response, got)
	checkDetail(w.t, request, got)
	return answer{response, got}
}

func (w *world) Payments(context.Context, string, string) ([]readmodel.Paid, error) {
	return w.paid, w.historyErr
}

func (w *world) Transaction(context.Context, string) (domain.Transaction, error) {
	if w.network == nil {
		return domain.Transaction{}, domain.ErrNoTransaction
	}
	return *w.network, nil
}
