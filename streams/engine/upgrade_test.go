package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// startVersion runs an engine of a version in a new folder. The returned function stops it.
func (r *rig) startVersion(formats engine.Formats) (e *engine.Engine, stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cfg := r.config(r.t.TempDir(), policy(hour), egress.NewDispatcher(ctx, r.client, time.Now))
	cfg.SnapshotEvery, cfg.Formats = 20, formats
	e = engine.New(cfg)
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return e, func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("stopping the engine: %v", err)
		}
	}
}

// cutJournal deletes the part of the journal that the newest snapshot of each partition covers.
func (r *rig) cutJournal() {
	r.t.Helper()
	below := make(kafka.Offsets)
	for _, rec := range r.read(schemas.TopicSnapshots) {
		if rec.Header(task.HeaderManifest) == "" {
			continue
		}
		var m struct{ Next int64 }
		if err := json.Unmarshal(rec.Value, &m); err != nil {
			r.t.Fatal(err)
		}
		below.Set(schemas.TopicJournal, rec.Partition, m.Next)
	}
	if len(below) == 0 {
		r.t.Fatal("there is no snapshot")
	}
	deleter, err := r.cluster.NewDeleter()
	if err != nil {
		r.t.Fatal(err)
	}
	defer deleter.Close()
	if err := deleter.DeleteBefore(r.t.Context(), below); err != nil {
		r.t.Fatal(err)
	}
}

// waitingAtFirst is the number of deliveries that are pending before the snapshots that count.
const waitingAtFirst = 5

// runToACut has a version deliver 60 payments and leave some pending, and then cuts the journal.
func (r *rig) runToACut(formats engine.Formats) (endpointID string, waiting []string) {
	r.t.Helper()
	_, stop := r.startVersion(formats)
	endpointID = r.endpoint(1)
	r.pay(endpointID, 0, 60)
	r.eventuallyIn(endpointID, domain.StateDelivered, 60)
	r.receiver.answer(status(500))
	waiting = r.pay(endpointID, 60, waitingAtFirst)
	r.eventuallyIn(endpointID, domain.StateWaiting, waitingAtFirst)
	snapshots := len(r.read(schemas.TopicSnapshots))
	for n := 65; len(r.read(schemas.TopicSnapshots)) < snapshots+4; n += 5 {
		waiting = append(waiting, r.pay(endpointID, n, 5)...)
		r.eventuallyIn(endpointID, domain.StateWaiting, len(waiting))
	}
	stop()
	r.receiver.answer(status(200))
	r.cutJournal()
	return endpointID, waiting
}

// One version writes the snapshots. A version two formats later converts them, first entry by entry
// and then as a whole. It makes the pending deliveries and does not repeat deliveries that
// succeeded.
func TestTheNextVersionStartsOnAJournalThatWasCut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id, waiting := r.runToACut(engine.Formats{})
	delivered := r.receiver.events()
	var converted, wholes atomic.Int64
	next := engine.Formats{
		Number: engine.StateFormat + 2,
		Conversions: map[int]task.Conversion{
			engine.StateFormat: {
				Entry: func(key, value []byte, put func(key, value []byte) error) error {
					converted.Add(1)
					return put(append([]byte{0xfe}, key...), value) // to a key that is never read
				},
				Whole: func(*store.Store) error {
					wholes.Add(1)
					return nil
				},
			},
			engine.StateFormat + 1: {
				Entry: func(key, value []byte, put func(key, value []byte) error) error {
					return put(key[1:], value)
				},
				Whole: func(s *store.Store) error {
					return s.ScanTimers(func(store.Claimed) error { // all entries have been loaded by now
						wholes.Add(1)
						return nil
					})
				},
			},
		},
	}
	_, stop := r.startVersion(next)
	defer stop()
	r.ask("cmd_disable", domain.DisableEndpoint{EndpointID: id})
	r.ask("cmd_enable", domain.EnableEndpoint{EndpointID: id})
	testkit.Eventually(t, "what waited is delivered", func() bool {
		for _, event := range waiting {
			if r.receiver.attempts(event) < 2 {
				return false
			}
		}
		return true
	})
	paid := r.pay(id, 0, 1)[0] // the same payment again
	again := r.pay(id, 1_000, 1)[0]
	testkit.Eventually(t, "a new payment is delivered", func() bool {
		return r.receiver.attempts(again) == 1
	})
	if r.receiver.attempts(paid) != 1 || r.receiver.events() != delivered+1 || converted.Load() == 0 {
		t.Errorf("%d attempts of what was delivered; %d events, %d before; %d entries were converted",
			r.receiver.attempts(paid), r.receiver.events(), delivered, converted.Load())
	}
	// The latest deliveries are in the journal after the snapshot, in the current format.
	if n := int(wholes.Load()); n <= waitingAtFirst {
		t.Errorf("the conversions of whole states saw %d timers, of at least %d", n-1, waitingAtFirst)
	}
}

// If a version cannot read the snapshots, the error says what to do and nothing is changed.
func TestAVersionThatCannotReadTheSnapshotsSaysSo(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]struct {
		wrote, reads engine.Formats
		says         string
	}{
		"no conversion": {
			reads: engine.Formats{Number: engine.StateFormat + 1},
			says:  "an older version wrote them",
		},
		"a downgrade": {
			wrote: engine.Formats{Number: engine.StateFormat + 1},
			says:  "a newer version wrote them",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			_, waiting := r.runToACut(by.wrote)
			e, stop := r.startVersion(by.reads)
			testkit.Eventually(t, "the engine says what is wrong", func() bool {
				err := e.Check()
				return err != nil && strings.Contains(err.Error(), by.says) &&
					strings.Contains(err.Error(), "Nothing is lost")
			})
			stop()
			_, stop = r.startVersion(by.wrote) // follow the advice
			defer stop()
			r.ask("cmd_disable", domain.DisableEndpoint{EndpointID: r.endpoint(1)})
			r.ask("cmd_enable", domain.EnableEndpoint{EndpointID: r.endpoint(1)})
			testkit.Eventually(t, "what waited is delivered", func() bool {
				return r.receiver.attempts(waiting[0]) == 2
			})
		})
	}
}
