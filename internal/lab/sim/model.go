package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

// model is the fold of the journal by package domain alone. The engine's state must equal it (G4),
// and the engine's actions are compared with it.
type model struct {
	accounts   map[string]domain.Account
	endpoints  map[string]domain.Endpoint
	watches    map[string]domain.Watch
	deliveries map[deliveryID]domain.Delivery
	created    []deliveryID      // oldest first
	endpointOf map[string]string // endpoint of each event's latest delivery
	bodies     map[deliveryID][]byte
	settled    []settling // in the order of the facts that settled a delivery
	notices    map[string]domain.Notice
	handled    map[string]handled
	changedBy  map[string]string // the command that led to an aggregate's revision
	taken      []taken           // handovers in order of arrival
	lines      map[lineID]line   // non-empty lines
	facts      int

	// After a move: deliveries that had been forgotten and have had no facts since, and the number of
	// settled deliveries with which each endpoint's partition started.
	wasMoved bool
	out      map[deliveryID]bool
	rings    map[string]int
}

type deliveryID struct{ endpoint, event string }

type settling struct {
	deliveryID
	version uint64
	moves   int
}

type taken struct {
	endpoint string
	from     int32 // partition
	number   uint64
}

// lineID identifies a line of pending deliveries that are sent one after another.
type lineID struct{ endpoint, wallet string }

type line struct {
	members []domain.Delivery
	last    uint64 // sequence of the delivery that joined last
}

type handled struct {
	domain.CommandHandled
	aggregate string
	atMillis  int64
	again     bool // the first answer was forgotten after more than a day
}

func newModel() *model {
	return &model{
		accounts:   make(map[string]domain.Account),
		endpoints:  make(map[string]domain.Endpoint),
		watches:    make(map[string]domain.Watch),
		deliveries: make(map[deliveryID]domain.Delivery),
		endpointOf: make(map[string]string),
		bodies:     make(map[deliveryID][]byte),
		notices:    make(map[string]domain.Notice),
		handled:    make(map[string]handled),
		changedBy:  make(map[string]string),
		out:        make(map[deliveryID]bool),
		lines:      make(map[lineID]line),
	}
}

func (m *model) version(aggregate string) uint64 {
	switch domain.KindOf(aggregate) {
	case domain.KindAccount:
		return m.accounts[aggregate].Version
	case domain.KindEndpoint:
		return m.endpoints[aggregate].Version
	case domain.KindWatch:
		return m.watches[aggregate].Version
	case domain.KindNone:
	}
	return 0
}

// fold applies a fact. It returns an error if a journal must not contain it.
func (m *model) fold(f domain.Fact) error {
	if have := m.version(f.Aggregate); f.Version != have+1 {
		return fmt.Errorf("versions count by one: %s of %s has version %d after %d", f.Body.FactType(),
			f.Aggregate, f.Version, have)
	}
	if err := m.foldHandled(f); err != nil {
		return err
	}
	var before, after uint64 // revisions
	switch domain.KindOf(f.Aggregate) {
	case domain.KindAccount:
		m.accounts[f.Aggregate] = domain.EvolveAccount(m.accounts[f.Aggregate], f)
	case domain.KindWatch:
		before = m.watches[f.Aggregate].Revision
		m.watches[f.Aggregate] = domain.EvolveWatch(m.watches[f.Aggregate], f)
		after = m.watches[f.Aggregate].Revision
	case domain.KindEndpoint:
		before = m.endpoints[f.Aggregate].Revision
		if err := m.foldEndpoint(f); err != nil {
			return err
		}
		after = m.endpoints[f.Aggregate].Revision
	case domain.KindNone:
		return fmt.Errorf("%s is of %q, which is no aggregate", f.Body.FactType(), f.Aggregate)
	}
	if before != after {
		m.changedBy[f.Aggregate] = f.Cause
	}
	m.facts++
	return nil
}

func (m *model) foldEndpoint(f domain.Fact) error {
	id := deliveryID{f.Aggregate, f.EventID()}
	before := m.deliveries[id]
	endpoint, after := domain.EvolveEndpoint(m.endpoints[f.Aggregate], before, f)
	if id.event != "" {
		if err := m.happens(f, id, before, after); err != nil {
			return err
		}
		m.deliveries[id] = m.stand(f, endpoint, before, after)
		delete(m.out, id)
		if after.State.Settled() {
			m.settled = append(m.settled, settling{id, after.Version, after.Moves})
		}
	}
	m.endpoints[f.Aggregate] = endpoint
	if version := f.Notice(); version != 0 {
		notice := domain.NoticeID(f.Aggregate, version)
		m.notices[notice] = domain.EvolveNotice(m.notices[notice], f)
	}
	return nil
}

// stand makes a delivery join or leave its line, and returns the delivery afterwards. If the head
// leaves, the next delivery becomes the head and due, unless the endpoint is deleted.
func (m *model) stand(
	f domain.Fact, endpoint domain.Endpoint, before, after domain.Delivery,
) domain.Delivery {
	switch {
	case before.Line == "" && after.Line != "":
		at := lineID{after.EndpointID, after.Line}
		l := m.lines[at]
		after.Behind = len(l.members) > 0
		m.lines[at] = line{append(slices.Clone(l.members), after), after.Sequence}
	case before.Line != "" && after.Line == "":
		at := lineID{before.EndpointID, before.Line}
		l := m.lines[at]
		l.members = slices.DeleteFunc(slices.Clone(l.members),
			func(d domain.Delivery) bool { return d.EventID == before.EventID })
		m.lines[at] = l
		if len(l.members) == 0 {
			delete(m.lines, at)
		} else if !before.Behind && !endpoint.Deleted() {
			id := deliveryID{before.EndpointID, l.members[0].EventID}
			next := m.deliveries[id]
			next.Behind, next.EndpointEpoch = false, endpoint.Epoch
			next.NextAttemptAtMillis = f.AtMillis
			m.deliveries[id] = next
		}
	}
	return after
}

func (m *model) lineState(s map[string]string, id lineID, l line) {
	wallet := id.endpoint + "\x00" + id.wallet
	for _, member := range l.members {
		if !m.deliveries[deliveryID{id.endpoint, member.EventID}].Behind {
			s[stateKey(keyLine, wallet)] = string(binary.BigEndian.AppendUint64(nil, l.last))
			continue
		}
		place := binary.BigEndian.AppendUint64([]byte(wallet+"\x00"), member.Sequence)
		s[stateKey(keyBehind, string(place))] = member.EventID
	}
}

// happens checks that a fact may happen to a delivery.
func (m *model) happens(f domain.Fact, id deliveryID, before, after domain.Delivery) error {
	_, creates := f.Body.(domain.DeliveryCreated)
	switch allowed := before.State.Allows(f.Body, after.State); {
	case !allowed && creates:
		return fmt.Errorf("G2: event %s got a second delivery for %s", id.event, id.endpoint)
	case !allowed:
		return fmt.Errorf("G3: %s leads %s from %q to %s", f.Body.FactType(), id.event, before.State,
			after.State)
	}
	switch b := f.Body.(type) {
	case domain.DeliveryCreated:
		other, is := m.endpointOf[id.event]
		if is && b.Moved.Moves == 0 { // the reference model checks moves
			return fmt.Errorf("G2: event %s has a delivery to %s and gets another, to %s", id.event, other,
				id.endpoint)
		}
		m.endpointOf[id.event] = id.endpoint
		m.bodies[id] = b.Event.Body
		m.created = append(m.created, id)
		if b.Moved.Number > 0 {
			m.taken = append(m.taken, taken{id.endpoint, b.Moved.FromPartition, b.Moved.Number})
		}
	case domain.DeliveryRecalled:
		return recalls(before, b.Delivery)
	case domain.DeliveryRequeued:
		return m.brings(id, before, b.Body)
	case domain.DeliveryMoved:
		return m.brings(id, before, b.Body)
	case domain.AttemptMade:
		if b.Number != before.Attempts+1 {
			return fmt.Errorf("G7: attempt %d of %s is recorded after %d", b.Number, id.event,
				before.Attempts)
		}
	default: // the state diagram suffices
	}
	return nil
}

// recalls checks that a delivery is recalled in its final state.
func recalls(was, recalled domain.Delivery) error {
	if !was.Exists() {
		return fmt.Errorf("G2: %s is recalled for %s, where it never was", recalled.EventID,
			recalled.EndpointID)
	}
	// These don't matter for later steps.
	recalled.Version, recalled.EndpointEpoch = was.Version, was.EndpointEpoch
	recalled.RunAttempts = was.RunAttempts
	recalled.TestCommandID, recalled.TestBodyHash = was.TestCommandID, was.TestBodyHash
	if !bytes.Equal(schemas.MarshalDelivery(was), schemas.MarshalDelivery(recalled)) {
		return fmt.Errorf("G7: %s is recalled as %+v, and was %+v", was.EventID, recalled, was)
	}
	return nil
}

// brings checks that a fact that continues a settled delivery has the event's body.
func (m *model) brings(id deliveryID, before domain.Delivery, body []byte) error {
	want := m.bodies[id]
	if !before.State.Settled() {
		want = nil
	}
	if !bytes.Equal(body, want) {
		return fmt.Errorf("G2: %s, which is %s, goes on with the body %q, not %q", id.event, before.State,
			body, want)
	}
	return nil
}

// answersWatch reports whether an answer contains the watch's current state, except for its open
// parts.
func answersWatch(a domain.Answer, w domain.Watch) bool {
	whole, ok := a.Complete(w)
	w.Parts = nil
	return ok && bytes.Equal(schemas.MarshalWatch(whole), schemas.MarshalWatch(w))
}

// foldHandled checks that a command is answered once, with the object's current state.
func (m *model) foldHandled(f domain.Fact) error {
	h, ok := f.Body.(domain.CommandHandled)
	if !ok {
		return nil
	}
	earlier, again := m.handled[h.CommandID]
	if again && f.AtMillis-earlier.atMillis < 24*hourMillis {
		return fmt.Errorf("G1: command %s took effect twice, %d ms apart", h.CommandID,
			f.AtMillis-earlier.atMillis)
	}
	m.handled[h.CommandID] = handled{h, f.Aggregate, f.AtMillis, again}
	a := h.Answer
	switch {
	case a.Account != nil &&
		!bytes.Equal(schemas.MarshalAccount(*a.Account), schemas.MarshalAccount(m.accounts[f.Aggregate])),
		a.Endpoint != nil &&
			!bytes.Equal(schemas.EncodeEndpoint(*a.Endpoint).Value,
				schemas.EncodeEndpoint(m.endpoints[f.Aggregate]).Value),
		a.Watch != nil && !answersWatch(a, m.watches[f.Aggregate]),
		a.Delivery != nil && a.Delivery.Version != 0 &&
			!bytes.Equal(schemas.MarshalDelivery(*a.Delivery),
				schemas.MarshalDelivery(m.deliveries[deliveryID{f.Aggregate, a.Delivery.EventID}])):
		return fmt.Errorf("G4: the answer to %s is not the object as it stands in the journal",
			h.CommandID)
	}
	return nil
}
