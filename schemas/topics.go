package schemas

// Cleanup is a topic's cleanup policy.
type Cleanup string

// Cleanup policies.
const (
	CleanupDelete  Cleanup = "delete"
	CleanupCompact Cleanup = "compact"
)

// Topic describes a topic (docs/architecture.md).
type Topic struct {
	Name            string // without the prefix
	Keyed           bool   // uses the deployment's partition count; otherwise has one partition
	Cleanup         Cleanup
	RetentionMillis int64 // -1 means forever
	// SegmentMillis is the maximum age of a segment. The broker neither deletes nor compacts the
	// active segment. 0 means the cluster's default.
	SegmentMillis int64
	// SegmentBytes is the maximum size of a segment. 0 means the cluster's default.
	SegmentBytes int64
}

// Topic names, without the prefix.
const (
	TopicCommands  = "commands"
	TopicResults   = "results"
	TopicPayments  = "payments"
	TopicMatches   = "matches"
	TopicLedgers   = "ledgers"
	TopicJournal   = "journal"
	TopicEndpoints = "endpoints"
	TopicWatches   = "watches"
	TopicAccounts  = "accounts"
	// TopicQuarantine contains transactions that could not be read, keyed by hash. It is empty as long
	// as this version supports all formats of the network.
	TopicQuarantine = "quarantine"
	// TopicDeadLetters contains input records that could not be read, with their positions. It is
	// empty unless another program or a newer version writes to the input topics.
	TopicDeadLetters = "dead-letters"
	// TopicKeyUses contains when each API key was last used, to the minute and keyed by key ID, and
	// which console sessions were ended. Every process that authenticates requests writes to it. If it
	// is lost, an ended session might work again until 15 minutes after its last use.
	TopicKeyUses = "key-uses"
	// TopicMails contains orders of mails about disabled endpoints, keyed by endpoint. An order
	// expires after [domain.MailOrderFor].
	TopicMails = "mails"
	// TopicSnapshots contains the engine's state snapshots, each in the partition of its journal. A
	// snapshot is a series of chunks followed by a manifest (streams/task/snapshot.go). The engine
	// deletes the snapshots that no restore needs.
	TopicSnapshots = "snapshots"
)

const (
	minuteMillis = 60_000
	hourMillis   = 60 * minuteMillis
	dayMillis    = 24 * hourMillis
)

// snapshotSegmentBytes is small because only whole segments of old snapshots are deleted.
const snapshotSegmentBytes = 16 << 20

// Topics returns all topics. Keyed topics have the same number of partitions, so an endpoint's
// commands, matches and facts are in partitions with the same number.
func Topics() []Topic {
	return []Topic{
		requests(TopicCommands),
		{
			Name:            TopicResults,
			Keyed:           true,
			Cleanup:         CleanupDelete,
			RetentionMillis: hourMillis,
			SegmentMillis:   10 * minuteMillis,
		},
		requests(TopicMails),
		{Name: TopicPayments, Keyed: true, Cleanup: CleanupDelete, RetentionMillis: -1},
		{Name: TopicMatches, Keyed: true, Cleanup: CleanupDelete, RetentionMillis: -1},
		{
			Name:            TopicLedgers,
			Keyed:           false,
			Cleanup:         CleanupCompact,
			RetentionMillis: -1,
			SegmentMillis:   dayMillis,
		},
		{Name: TopicJournal, Keyed: true, Cleanup: CleanupDelete, RetentionMillis: -1},
		{
			Name:            TopicSnapshots,
			Keyed:           true,
			Cleanup:         CleanupDelete,
			RetentionMillis: -1,
			SegmentBytes:    snapshotSegmentBytes,
		},
		{
			Name:            TopicEndpoints,
			Keyed:           true,
			Cleanup:         CleanupCompact,
			RetentionMillis: -1,
			SegmentMillis:   dayMillis,
		},
		{
			Name:            TopicWatches,
			Keyed:           true,
			Cleanup:         CleanupCompact,
			RetentionMillis: -1,
			SegmentMillis:   dayMillis,
		},
		{
			Name:            TopicAccounts,
			Keyed:           true,
			Cleanup:         CleanupCompact,
			RetentionMillis: -1,
			SegmentMillis:   dayMillis,
		},
		{Name: TopicQuarantine, Keyed: false, Cleanup: CleanupDelete, RetentionMillis: -1},
		{Name: TopicDeadLetters, Keyed: true, Cleanup: CleanupDelete, RetentionMillis: 90 * dayMillis},
		{
			Name:            TopicKeyUses,
			Keyed:           true,
			Cleanup:         CleanupCompact,
			RetentionMillis: -1,
			SegmentMillis:   dayMillis,
		},
	}
}

func requests(name string) Topic {
	return Topic{
		Name:            name,
		Keyed:           true,
		Cleanup:         CleanupDelete,
		RetentionMillis: 7 * dayMillis,
		SegmentMillis:   dayMillis,
	}
}
