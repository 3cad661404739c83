package projections_test

import (
	"context"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/projections"
)

// patientProjector has blocks wait for longer than a test runs.
func patientProjector(r *rig, wait time.Duration) (*running, *projections.History) {
	p := r.project(func(cfg *projections.ProjectorConfig) {
		cfg.BlockWait, cfg.UnaskedWait = wait, time.Hour
	})
	return p, projections.NewHistory(projections.HistoryConfig{
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
	p, history := patientProjector(r, time.Hour)
	s := newStory(1)
	for n := range 10 {
		r.append(s.created(n))
	}
	// The first may ask before there are tables.
	must(t, history.CatchUp(t.Context()))
	if n := r.count("SELECT count() FROM events"); n != 10 {
		t.Errorf("%d events are written of 10 that were waited for", n)
	}
	written := p.Status().Blocks
	for n := range 5 {
		r.append(s.created(10 + n))
	}
	found, err := history.Event(t.Context(), testAccount, s.eventID(14))
	must(t, err)
	if blocks := p.Status().Blocks - written; found.ID != s.eventID(14) || blocks != 1 {
		t.Errorf("the event %s was found after %d blocks; it is in the first", found.ID, blocks)
	}
}

func TestBlocksAreNotHeldBackWhileSomebodyReads(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, history := patientProjector(r, 20*time.Millisecond)
	s := newStory(1)
	r.append(s.created(0))
	must(t, history.CatchUp(t.Context()))
	r.append(s.created(1))
	// It is not waited for, neither by this read nor by what asks ClickHouse alone.
	_, err := history.Event(t.Context(), testAccount, s.eventID(0))
	must(t, err)
	r.awaitProjected()
}

func TestAskingEndsWithItsContextAndIgnoresOthersPartitions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p, history := patientProjector(r, time.Hour)
	r.append(newStory(1).created(0))
	must(t, history.CatchUp(t.Context()))
	p.Ask(t.Context(), map[int32]int64{testPartitions: 1}) // returns
	ends, err := r.journalEnds(t.Context())
	must(t, err)
	for partition := range ends {
		ends[partition]++ // nothing is there
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	p.Ask(ctx, ends)
	if ctx.Err() == nil {
		t.Error("asking for what the journal does not hold yet returned before its context ended")
	}
}
