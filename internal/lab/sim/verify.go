package sim

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// rememberMillis is how long the engine keeps answers.
const rememberMillis = 48 * hourMillis

// The first bytes of the engine's keys (streams/engine/doc.go).
const (
	keyTimer    = 0x01
	keyMadeDue  = 0x02
	keyAccount  = 0x10
	keyEndpoint = 0x11
	keyWatch    = 0x12
	keyDelivery = 0x13
	keyBody     = 0x14
	keyCommand  = 0x15
	keyFailed   = 0x16
	keyTabled   = 0x17
	keyNotice   = 0x18
	keySettled  = 0x19
	keyRing     = 0x1a
	keyHandOver = 0x1b
	keyLine     = 0x1c
	keyBehind   = 0x1d
)

func stateKey(space byte, id string) string { return string(append([]byte{space}, id...)) }

func timerKey(group string, dueMillis int64, id string) string {
	key := append([]byte{keyTimer}, group...)
	key = binary.BigEndian.AppendUint64(append(key, 0), uint64(max(dueMillis, 0)))
	return string(append(key, id...))
}

// state returns the required contents of a partition's store.
func (m *model) state(ours func(aggregate string) bool, remembered int) map[string]string {
	s := make(map[string]string)
	for id, a := range m.accounts {
		if ours(id) {
			s[stateKey(keyAccount, id)] = string(schemas.MarshalAccount(a))
		}
	}
	for id, e := range m.endpoints {
		if ours(id) {
			s[stateKey(keyEndpoint, id)] = string(schemas.MarshalEndpoint(e))
		}
	}
	for id, w := range m.watches {
		if ours(id) {
			s[stateKey(keyWatch, id)] = string(schemas.MarshalWatch(w))
		}
	}
	latest := make(map[string]deliveryID) // a partition stores one delivery per event
	for id, d := range m.deliveries {
		other, is := latest[id.event]
		if ours(id.endpoint) && !m.out[id] && (!is || m.deliveries[other].Moves < d.Moves) {
			latest[id.event] = id
		}
	}
	recent := m.recent(ours, remembered)
	for number, entry := range recent {
		key := binary.BigEndian.AppendUint64([]byte{keySettled}, number)
		value := append(binary.BigEndian.AppendUint64(nil, entry.version), byte(entry.moves))
		s[string(key)] = string(append(value, entry.event...))
	}
	for _, id := range latest {
		d := m.deliveries[id]
		if !d.State.Settled() || remembers(recent, d) {
			m.deliveryState(s, id, d)
		}
	}
	ends := slices.Sorted(maps.Keys(recent))
	if n := len(ends); n == 0 && m.wasMoved {
		s[string([]byte{keyRing})] = string(make([]byte, 16))
	} else if n > 0 {
		ring := binary.BigEndian.AppendUint64(nil, ends[0])
		s[string([]byte{keyRing})] = string(binary.BigEndian.AppendUint64(ring, ends[n-1]+1))
	}
	for _, t := range m.taken { // later numbers are higher
		if ours(t.endpoint) {
			key := binary.BigEndian.AppendUint32([]byte{keyHandOver}, uint32(t.from))
			s[string(key)] = string(binary.BigEndian.AppendUint64(nil, t.number))
		}
	}
	for id, l := range m.lines {
		if ours(id.endpoint) {
			m.lineState(s, id, l)
		}
	}
	m.noticeState(s, ours)
	return s
}

func (m *model) deliveryState(s map[string]string, id deliveryID, d domain.Delivery) {
	delivery := schemas.MarshalDelivery(d)
	s[stateKey(keyDelivery, id.event)] = string(delivery)
	group := id.endpoint + "/" + strconv.Itoa(int(d.EndpointEpoch))
	if d.Behind {
		group = id.endpoint + "/behind"
	}
	timer := timerKey(group, d.NextAttemptAtMillis, id.event)
	body := string(m.bodies[id])
	if d.State.Pending() && d.Attempts == 0 { // its entry in the timer index contains both
		length := string(binary.AppendUvarint(nil, uint64(len(delivery))))
		s[timer] = length + string(delivery) + body
		return
	}
	if !d.State.Settled() {
		s[stateKey(keyBody, id.event)] = body
	}
	switch {
	case d.State.Pending():
		s[timer] = ""
	case d.Replayable():
		created := binary.BigEndian.AppendUint64(append([]byte(id.endpoint), 0),
			uint64(max(d.CreatedAtMillis, 0)))
		s[stateKey(keyFailed, string(created)+id.event)] = ""
	}
}

// recent returns the last settlings of a partition by their number, which counts from 0.
func (m *model) recent(
	ours func(aggregate string) bool, remembered int,
) map[uint64]settling {
	var all []settling
	for _, entry := range m.settled {
		if ours(entry.endpoint) {
			all = append(all, entry)
		}
	}
	for id, began := range m.rings { // a delivery is forgotten for each one that is added
		if ours(id) {
			remembered = max(remembered, began)
			break
		}
	}
	recent := make(map[uint64]settling)
	for n := max(0, len(all)-remembered); n < len(all); n++ {
		recent[uint64(n)] = all[n]
	}
	return recent
}

// remembers reports whether one of the recent settlings is a delivery's latest.
func remembers(recent map[uint64]settling, d domain.Delivery) bool {
	for _, entry := range recent {
		if entry.deliveryID == (deliveryID{d.EndpointID, d.EventID}) && entry.version == d.Version {
			return true
		}
	}
	return false
}

func (w *World) remembered() int {
	if w.setup.remembered == 0 {
		return math.MaxInt
	}
	return w.setup.remembered
}

func (w *World) forgot(id deliveryID) bool {
	m, partition := w.checks.model, w.partitionOf(id.endpoint)
	d := m.deliveries[id]
	switch {
	case w.setup.remembered == 0 || !d.State.Settled():
		return false
	case m.out[id]:
		return true
	}
	ours := func(endpoint string) bool { return w.partitionOf(endpoint) == partition }
	return !remembers(m.recent(ours, w.remembered()), d)
}

// differs compares a store with the model (G4), except for expired answers. It returns "" if they
// agree.
func (w *World) differs(store *store.Store, partition int32) string {
	m := w.checks.model
	want := m.state(func(id string) bool {
		return w.log.partitionOf(schemas.TopicJournal,
			id) == partition
	}, w.remembered())
	commands := 0
	differs := ""
	err := store.Scan([]byte{keyTimer}, []byte{0xff}, func(key, value []byte) (bool, error) {
		k := string(key)
		switch {
		case key[0] == keyMadeDue || key[0] == keyTabled ||
			key[0] == keyTimer && strings.HasPrefix(k[1:], "commands\x00"):
			return true, nil
		case key[0] == keyCommand:
			h, is := m.handled[k[1:]]
			expected := string(schemas.MarshalHandled(h.aggregate, h.atMillis, h.CommandHandled))
			if !is || expected != string(value) {
				differs = fmt.Sprintf("the answer to %s", k[1:])
			}
			commands++
			return true, nil
		}
		if expected, is := want[k]; !is || expected != string(value) {
			differs = fmt.Sprintf("key %x has %q, want %q", key, value, expected)
		}
		delete(want, k)
		return differs == "", nil
	})
	switch {
	case err != nil:
		return err.Error()
	case differs != "":
		return differs
	}
	for key := range want {
		return fmt.Sprintf("key %x is missing", key)
	}
	for id, h := range m.handled {
		value, err := store.Get([]byte(stateKey(keyCommand, id)))
		if err != nil {
			return err.Error()
		}
		aggregate := w.clients.byID[id].Body.Aggregate()
		if value == nil && !h.again && w.log.partitionOf(schemas.TopicJournal, aggregate) == partition &&
			h.atMillis+rememberMillis > w.latestWall {
			return "the answer to " + id + " is missing"
		}
	}
	return ""
}

// verify compares the state of a running task with the fold of the journal.
func (w *World) verify() bool {
	if w.verifyLeft == 0 {
		return false
	}
	for _, e := range workers(w.engines) {
		for _, t := range e.tasks {
			if t.idle() && w.checks.owns(t) {
				w.verifyLeft--
				w.verifyTask(t)
				return true
			}
		}
	}
	return false
}

func (w *World) verifyTask(t *engineTask) {
	if d := w.differs(t.core.Store(), t.partition); d != "" {
		w.violate("G4: the state of partition %d is not the fold of its journal: %s", t.partition, d)
	}
	w.count("states compared")
}

// verifyRefold folds a journal from the start into an empty store.
func (w *World) verifyRefold(partition int32) {
	var snapshots task.SnapshotConfig
	var begins int64 // start of the journal
	if len(w.former) > 0 {
		snapshots, begins = w.snapshotConfig(), 1
	}
	core := w.newCore(partition, vfs.NewMem(), snapshots, func(cfg engine.Config) handler {
		return engine.NewHandler(cfg, nil)
	})
	defer func() { _ = core.Close() }()
	at := topicPartition{schemas.TopicJournal, partition}
	records, next := w.log.read(at, begins, math.MaxInt)
	first := topicPartition{schemas.TopicSnapshots, partition}
	chunks, end := w.log.readCopied(first)
	for _, step := range []func() error{
		core.OpenState,
		func() error { return core.LocatedJournal(begins, next) },
		func() error {
			if begins == 0 {
				return nil
			}
			core.Next(w.moment())
			return cmp.Or(core.LocatedSnapshots(0, end), core.ReadSnapshots(chunks, end),
				core.ReadSnapshots(chunks, end))
		},
		func() error { return core.ReadJournal(records, next) },
		func() error {
			return core.Committed(map[string]int64{schemas.TopicJournal: next}, w.moment())
		},
		func() error { return core.Start(w.moment()) },
	} {
		if err := step(); err != nil {
			w.violate("G4: partition %d folded from zero: %v", partition, err)
		}
	}
	if d := w.differs(core.Store(), partition); d != "" {
		w.violate("G4: partition %d folded from zero: %s", partition, d)
	}
}

// readCopied returns the first snapshot of a partition, which a move has written.
func (l *Log) readCopied(at topicPartition) (chunks []kafka.Record, end int64) {
	for _, e := range l.partitions[at].entries {
		chunks = append(chunks, e.record)
		if e.record.Header(task.HeaderManifest) != "" {
			break
		}
	}
	return chunks, int64(len(chunks))
}

// verifyEnd checks the conditions after everything has settled.
func (w *World) verifyEnd() {
	m := w.checks.model
	for _, cmd := range w.clients.commands {
		if w.clients.waits(cmd) {
			w.violate("G1: %s %s was never answered", cmd.Body.CommandType(), cmd.ID)
		}
	}
	for _, id := range m.created {
		d := m.deliveries[id]
		if d.State.Pending() {
			w.violate("G3: %s is %s for ever, its endpoint is %s", id.event, d.State,
				m.endpoints[id.endpoint].Status)
		}
		if d.State == domain.StateDelivered && !w.checks.delivered(id) {
			w.violate("G3: %s is DELIVERED and no receiver took it", id.event)
		}
	}
	w.checks.checkHistory()
	w.checks.allObserved()
	w.verifyEvents()
	w.verifyDeadLetters()
	for _, e := range w.engines {
		for _, t := range e.tasks {
			if w.checks.owns(t) && t.idle() {
				w.verifyTask(t)
			}
		}
	}
	for p := range w.setup.partitions {
		w.verifyRefold(p)
	}
	for _, f := range w.followers {
		w.verifyDirectory(f)
	}
}

func (c *checks) delivered(id deliveryID) bool {
	for n := 1; n <= c.model.deliveries[id].Attempts; n++ {
		if r, made := c.made[attemptID{id, n}]; made && r.Succeeded() {
			return true
		}
	}
	return false
}

// verifyDeadLetters checks that exactly the damaged inputs were set aside, once each.
func (w *World) verifyDeadLetters() {
	type stand struct {
		topicPartition
		offset int64
	}
	letters := make(map[stand]int)
	for p := range w.setup.partitions {
		at := topicPartition{schemas.TopicDeadLetters, p}
		records, _ := w.log.read(at, 0, math.MaxInt)
		for _, r := range records {
			if w.log.partitions[at].entries[r.Offset].span == nil {
				continue // copied from the former log
			}
			d := decode(r, schemas.DecodeDeadLetter)
			letters[stand{topicPartition{d.Topic, d.Partition}, d.Offset}]++
		}
	}
	for _, topic := range engine.Inputs() {
		for p := range w.setup.partitions {
			at := topicPartition{topic, p}
			records, _ := w.log.read(at, 0, math.MaxInt)
			for _, r := range records {
				switch n := letters[stand{at, r.Offset}]; {
				case n > 0 && !isDamaged(r):
					w.violate("record %d of %s/%d can be read and was set aside", r.Offset, topic, p)
				case r.Offset < w.copiedTo[at] && n == 0: // it may have been, before a move
				case n == 0 && isDamaged(r):
					w.violate("record %d of %s/%d cannot be read and was not set aside", r.Offset, topic, p)
				case n > 1:
					w.violate("record %d of %s/%d was set aside %d times", r.Offset, topic, p, n)
				}
			}
		}
	}
}

// verifyEvents checks that each event that must exist has a delivery (G2).
func (w *World) verifyEvents() {
	m := w.checks.model
	if w.checks.cursor != w.chain.latest() {
		w.violate("G2: ledger %d was never read", w.checks.cursor+1)
	}
	for id, first := range w.checks.judged.first {
		watch := m.watches[id]
		missed := watch.Uncovered(domain.Range{From: first, To: w.checks.cursor})
		if len(missed) > 0 && !watch.Deleted() && !m.endpoints[watch.EndpointID].Deleted() &&
			len(w.setup.disasters) == 0 {
			w.violate("G2: watch %s has an endpoint, and missed the ledgers %v", id, missed)
		}
	}
	for event, matches := range w.checks.matched {
		if _, is := m.deliveries[deliveryID{matches[0].endpoint, event}]; !is {
			w.violate("G2: event %s was matched and has no delivery", event)
		}
	}
	for id := range w.checks.judged.gone {
		if !m.endpoints[id].Deleted() {
			w.violate("G2: endpoint %s was shown as deleted, so its payments are not told of, and it is not",
				id)
		}
	}
	for id, d := range w.checks.reference.deliveries {
		if d.movedTo != d.next {
			w.violate("G2: event %s was handed over to %q and went on at %q", id.event, d.movedTo, d.next)
		}
	}
}

// verifyDirectory checks that a directory agrees with the journal (G4).
func (w *World) verifyDirectory(f *followerProcess) {
	m := w.checks.model
	differ := func(what, id string, found bool, err error, have, want []byte) {
		if err != nil || !found || string(have) != string(want) {
			w.violate("G4: the directory of follower %d shows another %s %s (%v)", f.id, what, id, err)
		}
	}
	// Versions also count answers and deliveries, which make no row.
	for id, want := range existing(m.accounts) {
		have, found, err := f.directory.Account(id)
		want.Version = have.Version
		differ("account", id, found, err, schemas.MarshalAccount(have), schemas.MarshalAccount(want))
	}
	for id, want := range existing(m.endpoints) {
		have, found, err := f.directory.Endpoint(id)
		want.Version, want.Sequence = have.Version, have.Sequence
		differ("endpoint", id, found, err, schemas.EncodeEndpoint(have).Value,
			schemas.EncodeEndpoint(want).Value)
		w.verifyWatchesOf(f, want)
	}
	for id, want := range existing(m.watches) {
		have, found, err := f.directory.Watch(id)
		want.Version = have.Version
		differ("watch", id, found, err, schemas.MarshalWatch(have), schemas.MarshalWatch(want))
	}
}

func existing[T interface{ Exists() bool }](all map[string]T) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for id, a := range all {
			if a.Exists() && !yield(id, a) {
				return
			}
		}
	}
}

// verifyWatchesOf checks which watches a deletion of the endpoint would leave, as the API reports
// them.
func (w *World) verifyWatchesOf(f *followerProcess, e domain.Endpoint) {
	total, listed, err := f.directory.LeftWatches(e.AccountID, e.ID)
	want := []string{}
	for id, watch := range w.checks.model.watches {
		if watch.EndpointID == e.ID && watch.Exists() && !watch.Deleted() {
			want = append(want, id)
		}
	}
	slices.Sort(listed)
	slices.Sort(want)
	if err != nil || total != len(want) || !slices.Equal(listed, want) {
		w.violate("the directory of follower %d says that endpoint %s leaves the %d watches %v, not %v "+
			"(%v)", f.id, e.ID, total, listed, want, err)
	}
}
