package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/store"
)

// First bytes of the store's keys.
const (
	spaceAccount    = store.FirstKey + iota
	spaceEndpoint   // 0x11
	spaceWatch      // 0x12
	spaceDelivery   // 0x13
	spaceBody       // 0x14
	spaceCommand    // 0x15
	spaceReplayable // 0x16
	spaceTabled     // 0x17
	spaceNotice     // 0x18
	spaceSettled    // 0x19
	spaceRing       // 0x1a
	spaceHandOver   // 0x1b
	spaceLine       // 0x1c
	spaceBehind     // 0x1d
)

const (
	cachedAccounts   = 64
	cachedWatches    = 64
	cachedEndpoints  = 4096
	cachedDeliveries = 8192
	cachedBodies     = 2048
)

// maxCounted bounds how many matching deliveries a replay counts.
const maxCounted = 100_000

func keyOf(space byte, id string) []byte { return append([]byte{space}, id...) }

// deliveryGroup is the timer group of an endpoint's pending deliveries. Each epoch has its own, so
// that enabling the endpoint makes all of them due with one write (store.Batch.MakeDue), while
// later failures follow the retry schedule.
func deliveryGroup(endpointID string, epoch uint32) string {
	return endpointID + "/" + strconv.FormatUint(uint64(epoch), 10)
}

func endpointOf(group string) string {
	endpointID, _, _ := strings.Cut(group, "/")
	return endpointID
}

// replayableKey orders an endpoint's replayable deliveries by their event's creation:
//
//	0x16 | endpoint id | 0x00 | created, 8 bytes, big endian | event id
func replayableKey(endpointID string, createdAtMillis int64, eventID string) []byte {
	key := append(keyOf(spaceReplayable, endpointID), 0)
	return append(binary.BigEndian.AppendUint64(key, uint64(max(createdAtMillis, 0))), eventID...)
}

type reader interface {
	Get(key []byte) ([]byte, error)
}

// state stores the results of package domain's folds. It caches aggregates decoded: every fact of a
// delivery increments its endpoint's version, and most deliveries are attempted as soon as they are
// created.
type state struct {
	accounts   writeBackCache[domain.Account]
	watches    writeBackCache[domain.Watch]
	endpoints  writeBackCache[domain.Endpoint]
	deliveries writeBackCache[domain.Delivery]
	bodies     *lru.Cache[string, []byte]
	settled    ring
}

func newState(settled int) *state {
	return &state{
		accounts: newWriteBackCache(spaceAccount, cachedAccounts, schemas.MarshalAccount,
			schemas.UnmarshalAccount, domain.Account.Exists),
		watches: newWriteBackCache(spaceWatch, cachedWatches, schemas.MarshalWatch,
			schemas.UnmarshalWatch, domain.Watch.Exists),
		endpoints: newWriteBackCache(spaceEndpoint, cachedEndpoints, schemas.MarshalEndpoint,
			schemas.UnmarshalEndpoint, domain.Endpoint.Exists),
		deliveries: newWriteBackCache(spaceDelivery, cachedDeliveries, schemas.MarshalDelivery,
			schemas.UnmarshalDelivery, domain.Delivery.Exists),
		bodies:  newCache[[]byte](cachedBodies),
		settled: ring{size: uint64(settled)},
	}
}

// writeBackCache caches aggregates of one kind: those that the batch changed, which are written at
// its end, and recently used ones.
type writeBackCache[T any] struct {
	space   byte
	encode  func(T) []byte
	decode  func([]byte) (T, error)
	exists  func(T) bool
	clean   *lru.Cache[string, T]
	changed map[string]T
}

func newWriteBackCache[T any](
	space byte, size int, encode func(T) []byte, decode func([]byte) (T, error),
	exists func(T) bool,
) writeBackCache[T] {
	return writeBackCache[T]{
		space:   space,
		encode:  encode,
		decode:  decode,
		exists:  exists,
		clean:   newCache[T](size),
		changed: make(map[string]T),
	}
}

func newCache[T any](size int) *lru.Cache[string, T] {
	c, err := lru.New[string, T](size)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return c
}

func (c *writeBackCache[T]) get(r reader, id string) (T, error) {
	if v, ok := c.changed[id]; ok {
		return v, nil
	}
	if v, ok := c.clean.Get(id); ok {
		return v, nil
	}
	v, err := load(r, c.space, id, c.decode)
	if err == nil && c.exists(v) {
		c.clean.Add(id, v)
	}
	return v, err
}

func (c *writeBackCache[T]) flush(batch *store.Batch) error {
	for id, v := range c.changed {
		if err := batch.Set(keyOf(c.space, id), c.encode(v)); err != nil {
			return err
		}
		c.clean.Add(id, v)
	}
	clear(c.changed)
	return nil
}

func load[T any](r reader, space byte, id string, decode func([]byte) (T, error)) (T, error) {
	var none T
	value, err := r.Get(keyOf(space, id))
	if err != nil || value == nil {
		return none, err
	}
	v, err := decode(value)
	if err != nil {
		return none, fmt.Errorf("engine: decoding the state of %s (it is a cache: delete the state "+
			"folder to rebuild it): %w", id, err)
	}
	return v, nil
}

func (s *state) account(r reader, id string) (domain.Account, error) {
	return s.accounts.get(r, id)
}

func (s *state) watch(r reader, id string) (domain.Watch, error) {
	return s.watches.get(r, id)
}

func (s *state) delivery(r reader, eventID string) (domain.Delivery, error) {
	return s.deliveries.get(r, eventID)
}

func (s *state) endpoint(r reader, id string) (domain.Endpoint, error) {
	return s.endpoints.get(r, id)
}

// replayableBetween returns the first of an endpoint's replayable deliveries in a time range, up to
// the limit of one replay, and their total, counted up to maxCounted.
func (s *state) replayableBetween(
	batch *store.Batch, endpointID string, sinceMillis, untilMillis int64,
) (first []domain.Delivery, matched int, err error) {
	if untilMillis == 0 {
		untilMillis = math.MaxInt64
	}
	lower := replayableKey(endpointID, sinceMillis, "")
	upper := replayableKey(endpointID, untilMillis, "")
	var ids []string
	err = batch.Scan(lower, upper, func(key, _ []byte) (bool, error) {
		if matched++; len(ids) < domain.MaxReplay {
			ids = append(ids, string(key[len(lower):]))
		}
		return matched < maxCounted, nil
	})
	if err != nil {
		return nil, 0, err
	}
	for _, id := range ids {
		d, err := s.delivery(batch, id)
		if err != nil {
			return nil, 0, err
		}
		first = append(first, d)
	}
	return first, matched, nil
}

func (s *state) flush(batch *store.Batch) error {
	return errors.Join(s.accounts.flush(batch), s.watches.flush(batch), s.endpoints.flush(batch),
		s.deliveries.flush(batch), s.settled.flush(batch))
}

func (s *state) version(r reader, aggregate string) (uint64, error) {
	switch domain.KindOf(aggregate) {
	case domain.KindAccount:
		a, err := s.account(r, aggregate)
		return a.Version, err
	case domain.KindWatch:
		w, err := s.watch(r, aggregate)
		return w.Version, err
	case domain.KindEndpoint:
		e, err := s.endpoint(r, aggregate)
		return e.Version, err
	case domain.KindNone:
	}
	return 0, noAggregate(aggregate)
}

func noAggregate(id string) error {
	return fmt.Errorf("engine: %.80q is not the id of an account, endpoint or watch", id)
}

// change is an endpoint and one of its notices, before and after a fact.
type change struct {
	before, after domain.Endpoint
	notice        [2]domain.Notice
}

// fold applies a fact to the state. Its version must be the aggregate's next one; otherwise a turn
// was folded that is not in the journal.
func (s *state) fold(batch *store.Batch, f domain.Fact) (change, error) {
	version, err := s.version(batch, f.Aggregate)
	if err != nil {
		return change{}, err
	}
	if f.Version <= version {
		return change{}, fmt.Errorf("engine: the journal has fact %s of %s at version %d, and another "+
			"with that version before it: one of the two was not committed (check that the broker "+
			"returns only committed records, then delete the state folder)",
			f.Body.FactType(), f.Aggregate, f.Version)
	}
	if f.Version != version+1 {
		return change{}, fmt.Errorf("engine: the journal has fact %s of %s at version %d after version "+
			"%d: facts are missing", f.Body.FactType(), f.Aggregate, f.Version, version)
	}
	if handled, ok := f.Body.(domain.CommandHandled); ok {
		if err := s.remember(batch, f, handled); err != nil {
			return change{}, err
		}
	}
	switch domain.KindOf(f.Aggregate) {
	case domain.KindAccount:
		return change{}, evolve(&s.accounts, batch, f, domain.EvolveAccount)
	case domain.KindWatch:
		return change{}, evolve(&s.watches, batch, f, domain.EvolveWatch)
	case domain.KindEndpoint:
		return s.foldEndpoint(batch, f)
	case domain.KindNone:
	}
	return change{}, noAggregate(f.Aggregate)
}

func evolve[T any](
	c *writeBackCache[T], r reader, f domain.Fact, fold func(T, domain.Fact) T,
) error {
	before, err := c.get(r, f.Aggregate)
	if err == nil {
		c.changed[f.Aggregate] = fold(before, f)
	}
	return err
}

func (s *state) foldEndpoint(batch *store.Batch, f domain.Fact) (change, error) {
	endpoint, err := s.endpoint(batch, f.Aggregate)
	if err != nil {
		return change{}, err
	}
	var delivery domain.Delivery
	eventID := f.EventID()
	if eventID != "" {
		if delivery, err = s.delivery(batch, eventID); err != nil {
			return change{}, err
		}
	}
	after, delivered := domain.EvolveEndpoint(endpoint, delivery, f)
	s.endpoints.changed[f.Aggregate] = after
	if after.Epoch != endpoint.Epoch { // pending deliveries are sent or cancelled now
		err = batch.MakeDue(deliveryGroup(endpoint.ID, endpoint.Epoch))
	}
	if err == nil && after.Deleted() && !endpoint.Deleted() {
		err = s.dissolve(batch, endpoint.ID)
	}
	if err == nil && eventID != "" {
		err = s.storeDelivery(batch, f, delivery, delivered)
	}
	c := change{before: endpoint, after: after}
	if err == nil && f.Notice() != 0 {
		c.notice[0], c.notice[1], err = s.foldNotice(batch, f)
	}
	return c, err
}

// storeDelivery stores a delivery and moves its entries: timer (G3), line, replayable and settled.
func (s *state) storeDelivery(
	batch *store.Batch, f domain.Fact, before, after domain.Delivery,
) error {
	eventID := f.EventID()
	if created, ok := f.Body.(domain.DeliveryCreated); ok {
		if err := s.noteHandOver(batch, created.Moved); err != nil {
			return err
		}
		if after.Line != "" {
			var err error
			if after, err = s.join(batch, after); err != nil {
				return err
			}
		}
	}
	body, err := s.moveBody(batch, f, before, after)
	if err != nil {
		return err
	}
	if before.State.Pending() {
		if err := s.clearTimer(batch, before); err != nil {
			return err
		}
	}
	if before.Line != "" && after.Line == "" {
		if err := s.leaveLine(batch, before, f.AtMillis); err != nil {
			return err
		}
	}
	if before.Replayable() {
		key := replayableKey(before.EndpointID, before.CreatedAtMillis, eventID)
		if err := batch.Delete(key); err != nil {
			return err
		}
	}
	s.deliveries.changed[eventID] = after
	if !after.State.Settled() {
		s.settled.requeued(eventID)
	}
	switch {
	case after.State.Pending():
		return s.setTimer(batch, after, body)
	case after.Replayable():
		return batch.Set(replayableKey(after.EndpointID, after.CreatedAtMillis, eventID), nil)
	case after.State.Settled():
		return s.rememberSettled(batch, after)
	}
	return nil
}
