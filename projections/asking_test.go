package projections_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/writer"
)

// patientProjector returns a projector that holds blocks back for wait while there are readers,
// and longer than a test runs without them, and a history that asks it for records.
func patientProjector(r *rig, wait time.Duration) (*running, *history.History) {
	p := r.project(func(cfg *writer.ProjectorConfig) {
		cfg.BlockWait, cfg.UnaskedWait = wait, time.Hour
	})
	return p, history.New(history.Config{
		DB:      r.db,
		Ends:    r.journalEnds,
		Ask:     p.Ask,
		WaitMax: eventualMax,
		ReadMax: readMax,
	})
}

func TestABlockIsWrittenAtOnceForWhoWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p, reader := patientProjector(r, time.Hour)
	s := newStory(1)
	for n := range 10 {
		r.append(s.created(n))
	}
	// The first read may come before the tables exist.
	must(t, reader.CatchUp(t.Context()))
	if n := r.count("SELECT count() FROM events"); n != 10 {
		t.Errorf("%d events are written of 10 that were waited for", n)
	}
	written := p.Status().Blocks
	for n := range 5 {
		r.append(s.created(10 + n))
	}
	found, err := reader.Event(t.Context(), testAccount, s.eventID(14))
	must(t, err)
	if blocks := p.Status().Blocks - written; found.ID != s.eventID(14) || blocks != 1 {
		t.Errorf("the event %s was found after %d blocks; it is in the first", found.ID, blocks)
	}
}

func TestBlocksAreNotHeldBackWhileSomebodyReads(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, reader := patientProjector(r, 20*time.Millisecond)
	s := newStory(1)
	r.append(s.created(0))
	must(t, reader.CatchUp(t.Context()))
	r.append(s.created(1))
	// Neither this read nor queries that only use ClickHouse wait for it.
	_, err := reader.Event(t.Context(), testAccount, s.eventID(0))
	must(t, err)
	r.awaitProjected()
}

func TestAskingEndsWithItsContextAndIgnoresOthersPartitions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p, reader := patientProjector(r, time.Hour)
	r.append(newStory(1).created(0))
	must(t, reader.CatchUp(t.Context()))
	p.Ask(t.Context(), map[int32]int64{testPartitions: 1}) // returns: not its partition
	ends, err := r.journalEnds(t.Context())
	must(t, err)
	for partition := range ends {
		ends[partition]++ // an offset that does not exist yet
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	p.Ask(ctx, ends)
	if ctx.Err() == nil {
		t.Error("asking for what the journal does not hold yet returned before its context ended")
	}
}

type fetches struct{ n atomic.Int64 }

func (f *fetches) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, _ kgo.BrokerE2E) {
	if key == int16(kmsg.Fetch) {
		f.n.Add(1)
	}
}

// Without readers, the projector must not fetch every single record separately. With a reader, it
// fetches immediately.
func TestRecordsThatComeAloneAreReadTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reads := new(fetches)
	var later atomic.Int64
	p := r.project(func(cfg *writer.ProjectorConfig) {
		cfg.Cluster.Hooks = append(slices.Clone(cfg.Cluster.Hooks), reads)
		cfg.BlockWait, cfg.UnaskedWait = time.Second, time.Hour
		cfg.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	reader := history.New(history.Config{
		DB:      r.db,
		Ends:    r.journalEnds,
		Ask:     p.Ask,
		WaitMax: eventualMax,
		ReadMax: readMax,
	})
	s := newStory(1)
	r.append(s.created(0))
	must(t, reader.CatchUp(t.Context()))
	later.Store(int64(time.Minute)) // the reader has gone
	before, began := reads.n.Load(), time.Now()
	const alone = 500
	for n := range alone {
		r.append(s.created(1 + n))
	}
	must(t, reader.CatchUp(t.Context()))
	if n := r.count("SELECT count() FROM events"); n != 1+alone {
		t.Errorf("%d events of %d are written", n, 1+alone)
	}
	// Two fetches per wait: one for the records that arrived during the previous response, and
	// one for those after it.
	most := 10 + 3*int64(time.Since(began)/(50*time.Millisecond))
	if n := reads.n.Load() - before; n > most {
		t.Errorf("%d records that came alone were read by %d requests, more than %d", alone, n, most)
	}
}
