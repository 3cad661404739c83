package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

// History is the history for the API: there may be none, or none yet.
type History struct {
	lagMax int64 // records that it may be behind

	mu  sync.Mutex
	why string   // why there is none
	of  *written // nil: none
}

// written is a history, and what is known of its writer.
type written struct {
	reads *projections.History
	stuck func() error // why nothing is written at present
	lag   func(context.Context) (records int64, err error)
	// damage are tables that lost rows on disk.
	damage func(context.Context) (projections.Damages, error)
}

// Lacks sets why there is no history.
func (h *History) Lacks(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why = why
}

// Missing returns why there is no history; nil: there is one.
func (h *History) Missing() error {
	_, err := h.now()
	return err
}

// now returns the history, or why there is none.
func (h *History) now() (written, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		return written{}, api.HistoryMissing{Why: h.why}
	}
	return *h.of, nil
}

// readFrom opens the history of a database. Ask is of the projector of this process; nil:
// others write. The caller closes the result.
func (h *History) readFrom(
	db *projections.DB, cluster streams.Cluster, ask func(context.Context, map[int32]int64),
) (closed func(), err error) {
	ends, err := cluster.NewEnds()
	if err != nil {
		return nil, err
	}
	lag, err := projections.NewLag(db, cluster)
	if err != nil {
		ends.Close()
		return nil, err
	}
	journal := func(ctx context.Context) (map[int32]int64, error) {
		return ends.Of(ctx, schemas.TopicJournal)
	}
	payments := func(ctx context.Context) (map[int32]int64, error) {
		return ends.Of(ctx, schemas.TopicPayments)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of = &written{
		reads: projections.NewHistory(projections.HistoryConfig{
			DB:           db,
			Ends:         journal,
			PaymentsEnds: payments,
			Ask:          ask,
		}),
		stuck: func() error { return nil },
		lag:   lag.Records,

		damage: db.Damage,
	}
	return func() { ends.Close(); lag.Close() }, nil
}

// writtenBy sets the projector of this process that writes the history, and knows more of
// it.
func (h *History) writtenBy(p *projections.Projector) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := *h.of
	of.stuck, of.lag = func() error { return p.Status().Err }, p.Lag
	h.of = &of
}

// describe returns how far the history is behind.
func (h *History) describe(ctx context.Context) string {
	records, err := h.lag(ctx)
	switch {
	case err != nil:
		return "how far it is behind is not known: " + err.Error()
	case records == 0:
		return "up to date"
	}
	return fmt.Sprintf("%d records behind", records)
}

// check returns an error while there is no history, while nothing writes it, while it lacks
// rows that it had, and while it is too far behind.
func (h *History) check(ctx context.Context) error {
	records, err := h.lag(ctx)
	if err == nil && records > h.lagMax {
		err = fmt.Errorf("%w: by %d records, where --history-lag-max allows %d", api.ErrHistoryBehind,
			records, h.lagMax)
	}
	if err != nil {
		return err
	}
	of, err := h.now()
	if err != nil {
		return err
	}
	if damaged, _ := of.damage(ctx); len(damaged) > 0 { // a user may lack the right to ask
		return fmt.Errorf("%w: %w", api.ErrHistoryBehind, damaged)
	}
	return nil
}

// lag returns how many records the history is behind.
func (h *History) lag(ctx context.Context) (records int64, err error) {
	of, err := h.now()
	if err != nil {
		return 0, err
	}
	if err := of.stuck(); err != nil {
		return 0, err
	}
	return of.lag(ctx)
}

// Event returns an event for the API, unless there is no history.
func (h *History) Event(ctx context.Context, accountID, eventID string) (api.EventRecord, error) {
	of, err := h.now()
	if err != nil {
		return api.EventRecord{}, err
	}
	found, err := of.reads.Event(ctx, accountID, eventID)
	if stuck := of.stuck(); stuck != nil && errors.Is(err, projections.ErrNotFound) {
		// An event that is not written yet may exist all the same.
		return api.EventRecord{}, fmt.Errorf("%w: %w", api.ErrHistoryBehind, stuck)
	}
	if err != nil {
		return api.EventRecord{}, historyError(err)
	}
	return eventRecord(found), nil
}

// Recall returns an event for the API that is to be sent again, unless there is no history.
func (h *History) Recall(
	ctx context.Context, accountID, eventID string,
) (api.RecalledEvent, error) {
	of, err := h.now()
	if err != nil {
		return api.RecalledEvent{}, err
	}
	found, asOf, err := of.reads.Recall(ctx, accountID, eventID)
	if stuck := of.stuck(); stuck != nil && errors.Is(err, projections.ErrNotFound) {
		return api.RecalledEvent{}, fmt.Errorf("%w: %w", api.ErrHistoryBehind, stuck)
	}
	if errors.Is(err, projections.ErrExpired) {
		return api.RecalledEvent{}, fmt.Errorf("%w: %w", api.ErrEventExpired, err)
	}
	if err != nil {
		return api.RecalledEvent{}, historyError(err)
	}
	partitionOf := streams.PartitionOf(len(asOf))
	return api.RecalledEvent{
		EventRecord: eventRecord(found),
		Deliveries:  deliveries(accountID, found),
		AsOf:        func(endpointID string) int64 { return asOf[partitionOf(endpointID)] },
	}, nil
}

// deliveries returns the deliveries of an event, each with the endpoints before it; none if
// one of them is missing.
func deliveries(accountID string, found projections.EventRecord) (all []domain.Delivery) {
	var former []string
	for i, d := range found.Deliveries {
		if d.Moves != i {
			return nil
		}
		movedTo := d.MovedTo
		if i+1 < len(found.Deliveries) {
			movedTo = found.Deliveries[i+1].EndpointID
		}
		all = append(all, domain.Delivery{
			EventID:           found.ID,
			AccountID:         accountID,
			EndpointID:        d.EndpointID,
			State:             d.State,
			CreatedAtMillis:   found.CreatedAtMillis,
			Attempts:          d.Attempts,
			Run:               d.Run,
			Sequence:          d.Sequence,
			Moves:             d.Moves,
			FormerEndpointIDs: slices.Clone(former),
			MovedTo:           movedTo,
		})
		former = append(former, d.EndpointID)
	}
	return all
}

func eventRecord(found projections.EventRecord) api.EventRecord {
	record := api.EventRecord{
		ID:                  found.ID,
		Body:                found.Body,
		EndpointID:          found.EndpointID,
		Sequence:            found.Sequence,
		State:               found.State,
		NextAttemptAtMillis: found.NextAttemptAtMillis,
		Behind:              found.Behind,
	}
	for _, a := range found.Attempts {
		record.Attempts = append(record.Attempts,
			api.AttemptRecord(a))
	}
	return record
}

// Events lists events for the API, unless there is no history.
func (h *History) Events(
	ctx context.Context, f api.EventFilter, after *api.Position, limit int,
) ([]api.EventRecord, *api.Position, error) {
	of, err := h.now()
	if err != nil {
		return nil, nil, err
	}
	var from projections.EventPosition
	if after != nil {
		from = projections.EventPosition{CreatedAtMillis: after.CreatedAtMillis, EventID: after.ID}
	}
	page, err := of.reads.Events(ctx, eventFilter(f), limit, from)
	if err != nil {
		return nil, nil, historyError(err)
	}
	records := make([]api.EventRecord, len(page.Events))
	for i, e := range page.Events {
		records[i] = api.EventRecord{
			ID:                  e.ID,
			Body:                e.Body,
			EndpointID:          e.EndpointID,
			Sequence:            e.Sequence,
			State:               e.State,
			NextAttemptAtMillis: e.NextAttemptAtMillis,
			AttemptsMade:        e.AttemptsMade,
			LastStatusCode:      e.LastStatusCode,
			LastError:           e.LastError,
		}
	}
	if page.Next == (projections.EventPosition{}) {
		return records, nil, nil
	}
	next := &api.Position{CreatedAtMillis: page.Next.CreatedAtMillis, ID: page.Next.EventID}
	return records, next, nil
}

// Choose returns which events a filter selects, unless there is no history.
func (h *History) Choose(
	ctx context.Context, f api.EventFilter, after *api.Position, limit int,
) (chosen []api.Position, next *api.Position, err error) {
	of, err := h.now()
	if err != nil {
		return nil, nil, err
	}
	var from projections.EventPosition
	if after != nil {
		from = projections.EventPosition{CreatedAtMillis: after.CreatedAtMillis, EventID: after.ID}
	}
	found, to, err := of.reads.Choose(ctx, eventFilter(f), limit, from)
	if err != nil {
		return nil, nil, historyError(err)
	}
	for _, at := range found {
		chosen = append(chosen, api.Position{CreatedAtMillis: at.CreatedAtMillis, ID: at.EventID})
	}
	if to != (projections.EventPosition{}) {
		next = &api.Position{CreatedAtMillis: to.CreatedAtMillis, ID: to.EventID}
	}
	return chosen, next, nil
}

func eventFilter(f api.EventFilter) projections.EventFilter {
	return projections.EventFilter{
		AccountID:     f.AccountID,
		EndpointID:    f.EndpointID,
		WatchID:       f.WatchID,
		WalletAddress: f.WalletAddress,
		Type:          f.Type,
		State:         f.State,
		PaymentID:     f.PaymentID,
		TxHash:        f.TxHash,
		Sender:        f.Sender,
		Memo:          f.Memo,
		Asset:         f.Asset,
		MinStroops:    f.MinStroops,
		MaxStroops:    f.MaxStroops,
		FromMillis:    f.SinceMillis,
		ToMillis:      f.UntilMillis,
		NoTests:       f.NoTests,
	}
}

// Numbered returns events of an endpoint by their numbers, unless there is no history.
func (h *History) Numbered(
	ctx context.Context, accountID, endpointID string, after uint64, limit int,
) (page api.NumberedPage, err error) {
	of, err := h.now()
	if err != nil {
		return page, err
	}
	found, err := of.reads.Numbered(ctx, accountID, endpointID, after, limit)
	if err != nil {
		return page, historyError(err)
	}
	page.AsOf = found.AsOf
	for _, e := range found.Events {
		page.Events = append(page.Events, api.NumberedEvent(e))
	}
	for _, m := range found.Missing {
		page.Missing = append(page.Missing, api.Numbers(m))
	}
	return page, nil
}

// Rates counts attempts, unless there is no history.
func (h *History) Rates(ctx context.Context, f api.RatesFilter) (api.Rates, error) {
	of, err := h.now()
	if err != nil {
		return api.Rates{}, err
	}
	found, err := of.reads.Rates(ctx, projections.RatesFilter(f))
	if err != nil {
		return api.Rates{}, historyError(err)
	}
	rates := api.Rates{
		MedianMillis: found.MedianMillis, P99Millis: found.P99Millis,
		Delivered: found.Delivered, Refused: found.Refused, Unmet: found.Unmet,
	}
	for _, m := range found.Minutes {
		rates.Minutes = append(rates.Minutes, api.RatesMinute(m))
	}
	return rates, nil
}

// Health returns how endpoints do, unless there is no history.
func (h *History) Health(
	ctx context.Context, f api.HealthFilter,
) (map[string]domain.EndpointHealth, error) {
	of, err := h.now()
	if err != nil {
		return nil, err
	}
	by, err := of.reads.Health(ctx, projections.HealthFilter(f))
	if err != nil {
		return nil, historyError(err)
	}
	return by, nil
}

// EndpointsDown counts the endpoints of all accounts that are down, unless there is no history.
func (h *History) EndpointsDown(ctx context.Context, nowMillis int64) (uint64, error) {
	of, err := h.now()
	if err != nil {
		return 0, err
	}
	n, err := of.reads.EndpointsDown(ctx, nowMillis)
	return n, historyError(err)
}

// NumberBefore finds where an endpoint's events of a time begin, unless there is no history.
func (h *History) NumberBefore(
	ctx context.Context, accountID, endpointID string, sinceMillis int64,
) (uint64, error) {
	of, err := h.now()
	if err != nil {
		return 0, err
	}
	before, err := of.reads.NumberBefore(ctx, accountID, endpointID, sinceMillis)
	if err != nil {
		return 0, historyError(err)
	}
	return before, nil
}

// LogSize returns the size of a log of attempts, unless there is no history.
func (h *History) LogSize(
	ctx context.Context, endpointID string, from uint64,
) (uint64, error) {
	of, err := h.now()
	if err != nil {
		return 0, err
	}
	size, err := of.reads.LogSize(ctx, endpointID, from)
	if err != nil {
		return 0, historyError(err)
	}
	return size, nil
}

// LogHashes returns hashes of a log of attempts, unless there is no history.
func (h *History) LogHashes(
	ctx context.Context, endpointID string, from uint64, leaves []uint64,
) (map[uint64][]byte, error) {
	of, err := h.now()
	if err != nil {
		return nil, err
	}
	hashes, err := of.reads.LogHashes(ctx, endpointID, from, leaves)
	if err != nil {
		return nil, historyError(err)
	}
	return hashes, nil
}

// AwaitMore waits until there may be more events of an endpoint.
func (h *History) AwaitMore(ctx context.Context, endpointID string, asOf int64) error {
	of, err := h.now()
	if err != nil {
		return err
	}
	if err := of.reads.AwaitMore(ctx, endpointID, asOf); err != nil {
		return historyError(err)
	}
	return nil
}

// Statement reads a statement for the API, unless there is no history.
func (h *History) Statement(
	ctx context.Context, f api.StatementFilter, after api.StatementPosition, limit int,
) (api.Statement, error) {
	of, err := h.now()
	if err != nil {
		return api.Statement{}, err
	}
	page, err := of.reads.Statement(ctx, projections.StatementFilter(f), limit,
		projections.StatementPosition(after))
	if errors.Is(err, projections.ErrManyBalances) {
		return api.Statement{}, fmt.Errorf("%w: %w", api.ErrManyBalances, err)
	}
	if err != nil {
		return api.Statement{}, historyError(err)
	}
	s := api.Statement{
		Next:            api.StatementPosition(page.Next),
		KeptSinceMillis: page.KeptSinceMillis,
		Uncounted:       page.Uncounted,
	}
	for _, b := range page.Balances {
		s.Balances = append(s.Balances, api.BalanceRecord(b))
	}
	for _, m := range page.Moves {
		moved := api.MoveRecord{
			BalanceMove:        m.BalanceMove,
			Balance:            m.Balance,
			UnexplainedStroops: m.UnexplainedStroops,
		}
		for _, p := range m.Payments {
			paid := api.PaidRecord{Payment: p.Payment}
			for _, e := range p.Events {
				paid.Events = append(paid.Events, api.PaidEvent(e))
			}
			moved.Payments = append(moved.Payments, paid)
		}
		s.Moves = append(s.Moves, moved)
	}
	return s, nil
}

// EndpointSteps reads what happened to an endpoint, unless there is no history.
func (h *History) EndpointSteps(
	ctx context.Context, f api.StepFilter,
) (api.StepPage[domain.Endpoint], error) {
	return steps(ctx, h, f, (*projections.History).EndpointSteps)
}

// WatchSteps reads what happened to a watch, unless there is no history.
func (h *History) WatchSteps(
	ctx context.Context, f api.StepFilter,
) (api.StepPage[domain.Watch], error) {
	return steps(ctx, h, f, (*projections.History).WatchSteps)
}

// EventSteps reads what happened to an event, unless there is no history.
func (h *History) EventSteps(
	ctx context.Context, f api.StepFilter,
) (api.StepPage[domain.TrackedDelivery], error) {
	return steps(ctx, h, f, (*projections.History).EventSteps)
}

func steps[S any](
	ctx context.Context, h *History, f api.StepFilter,
	read func(
		*projections.History, context.Context, projections.StepFilter,
	) (projections.StepPage[S], error),
) (api.StepPage[S], error) {
	of, err := h.now()
	if err != nil {
		return api.StepPage[S]{}, err
	}
	page, err := read(of.reads, ctx, projections.StepFilter(f))
	if err != nil {
		return api.StepPage[S]{}, historyError(err)
	}
	return api.StepPage[S](page), nil
}

// AwaitWrites waits for the history to show what was acknowledged.
func (h *History) AwaitWrites(ctx context.Context) error {
	of, err := h.now()
	if err != nil {
		return err
	}
	if err := of.reads.CatchUp(ctx); err != nil {
		return historyError(err)
	}
	return nil
}

func historyError(err error) error {
	for ours, theirs := range map[error]error{
		projections.ErrNotFound:     api.ErrEventNotFound,
		projections.ErrFactsMissing: api.ErrFactsMissing,
		projections.ErrManyFacts:    api.ErrManyFacts,
		projections.ErrBehind:       api.ErrHistoryBehind,
		projections.ErrUnavailable:  api.ErrHistoryUnavailable,
	} {
		if errors.Is(err, ours) {
			return fmt.Errorf("%w: %w", theirs, err)
		}
	}
	return err
}
