package topology

import (
	"maps"
	"slices"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// RetainedTopic is a topic from which records are deleted.
type RetainedTopic struct {
	Name string
	// Readers are the groups that read it and commit their positions.
	Readers []string
	// Restored means that states are restored from it ([RetainedPartition.Restores]).
	Restored bool
	// AtOnce deletes everything that is not needed, however recent.
	AtOnce bool
}

// RetainedPartition is a partition that a process owns.
type RetainedPartition struct {
	Number int32
	// Restores are the first offsets that a restore of its state may read, by topic. A missing topic
	// may be needed completely.
	Restores map[string]int64
}

// ByState is the name of the reader that restores states from a topic.
const ByState = "state"

// bound is the first offset of a partition that a reader needs, or may need.
type bound struct {
	offset int64
	by     string
	known  bool // false if a reader without a position may need everything
}

func (t RetainedTopic) needed(p RetainedPartition, groups map[string]kafka.Offsets) bound {
	b := bound{}
	lower := func(by string, offset int64) {
		if !b.known || offset < b.offset {
			b = bound{offset: offset, by: by, known: true}
		}
	}
	if t.Restored {
		offset, known := p.Restores[t.Name]
		if !known {
			return bound{by: ByState}
		}
		lower(ByState, offset)
	}
	for _, reader := range t.Readers {
		if _, known := groups[reader][t.Name][p.Number]; !known {
			return bound{by: reader}
		}
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		if offset, known := groups[group][t.Name][p.Number]; known {
			lower(group, offset)
		}
	}
	return b
}

// Retained returns the topics from which unneeded records are deleted, and the groups that read
// them.
func Retained() []RetainedTopic {
	return []RetainedTopic{
		{Name: schemas.TopicCommands, Readers: []string{engineName}},
		{Name: schemas.TopicMatches, Readers: []string{engineName, followerName}},
		{Name: schemas.TopicPayments, Readers: []string{followerName, projectorName}},
		{Name: schemas.TopicJournal, Readers: []string{projectorName}, Restored: true},
		{Name: schemas.TopicSnapshots, Restored: true, AtOnce: true},
	}
}
