package topology

import (
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/retention"
)

// Retained are the topics whose records are deleted when nobody needs them any more, and
// who needs them. The groups are those of the roles that read the topic.
func Retained() []retention.Topic {
	return []retention.Topic{
		{Name: schemas.TopicCommands, Readers: []string{engineName}},
		{Name: schemas.TopicMatches, Readers: []string{engineName, followerName}},
		{Name: schemas.TopicPayments, Readers: []string{followerName, projectorName}},
		{Name: schemas.TopicJournal, Readers: []string{projectorName}, Restored: true},
		{Name: schemas.TopicSnapshots, Restored: true, AtOnce: true},
	}
}
