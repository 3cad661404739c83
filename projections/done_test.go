package projections_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

func (r *rig) positions() map[string]kafka.Offsets {
	r.t.Helper()
	d, err := r.cluster.NewDeleter()
	must(r.t, err)
	defer d.Close()
	groups, err := d.Positions(r.t.Context())
	must(r.t, err)
	return groups
}

// A projector that stops must have committed the position of its tables for every topic.
func TestTheGroupIsWhereTheHistoryIs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.world(8)
	for endpoint := range 8 {
		s := newStory(endpoint)
		r.append(s.created(endpoint), s.delivered(endpoint, 1))
	}
	run := r.project(nil)
	testkit.EventuallyNil(t, "the projector has heard that all is written", func() error {
		records, err := run.Lag(t.Context())
		if partitions := len(run.Status().Partitions); err == nil && (partitions == 0 || records > 0) {
			err = fmt.Errorf("%d records of %d partitions are not", records, partitions)
		}
		return err
	})
	run.finish(t)
	committed := r.positions()[writer.Group]
	for _, topic := range writer.Topics() {
		ends, err := r.ends.Of(t.Context(), topic)
		must(t, err)
		if !maps.Equal(committed[topic], ends) {
			t.Errorf("%s is committed up to %v, and ends at %v", topic, committed[topic], ends)
		}
	}
}

// A rebuild holds the records that it reads until it ends, but no longer.
func TestARebuildHoldsWhatItReads(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStory(1)
	r.append(s.created(1), s.delivered(1, 1))
	r.project(nil)
	r.awaitProjected()
	holder := writer.HoldersPrefix + r.db.Name() + "_rebuild"
	held := make(map[string]string)
	must(t, writer.Rebuild(t.Context(), r.refold(func(cfg *writer.RefoldConfig) {
		cfg.Report = func(writer.RefoldProgress) {
			held["while it runs"] = fmt.Sprint(r.positions()[holder][schemas.TopicJournal])
		}
	})))
	held["afterwards"] = fmt.Sprint(r.positions()[holder][schemas.TopicJournal])
	want := map[string]string{"while it runs": "map[0:0 1:0 2:0 3:0]", "afterwards": "map[]"}
	if !maps.Equal(held, want) {
		t.Errorf("the journal is held at %v, want %v", held, want)
	}
}
