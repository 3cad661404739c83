package schemas

// Cleanup says how a topic cleans up old records.
type Cleanup string

// Forms of cleanup.
const (
	CleanupDelete  Cleanup = "delete"
	CleanupCompact Cleanup = "compact"
)

// Topic is one of the topics of docs/architecture.md.
type Topic struct {
	Name            string // without the prefix
	Keyed           bool   // has the deployment's partition count; else one partition
	Cleanup         Cleanup
	RetentionMillis int64 // -1: kept
	// SegmentMillis is after how long the cluster begins a new file. Nothing is
	// deleted of the newest, and nothing compacted. 0: as the cluster has it.
	SegmentMillis int64
	// SegmentBytes is after how many bytes the cluster begins a new file. 0: as the cluster
	// has it.
	SegmentBytes int64
}

// Names of the topics, without the prefix.
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
	// TopicQuarantine holds the transactions that could not be read, by hash. It is
	// empty as long as this program knows every form of the network.
	TopicQuarantine = "quarantine"
	// TopicDeadLetters holds records of the input topics that could not be read, with their
	// positions. It is empty unless another program writes to them, or a newer version of this one.
	TopicDeadLetters = "dead-letters"
	// TopicKeyUses holds when each API key was last used, by key id, to the minute, and which
	// sessions of the console were ended. Every process that authenticates writes it, and losing
	// it costs little: an ended session might work again for up to 15 minutes after its last use.
	TopicKeyUses = "key-uses"
	// TopicMails holds the orders of mails about disabled endpoints, by endpoint. An order may be
	// carried out for [domain.MailOrderFor]; older ones have expired.
	TopicMails = "mails"
	// TopicSnapshots holds snapshots of the engine's states, one after another, in the partition of
	// their journal. They are chunks, followed by a manifest (streams/task/snapshot.go). The engine
	// deletes snapshots that no restore needs.
	TopicSnapshots = "snapshots"
)

const (
	minuteMillis = 60_000
	hourMillis   = 60 * minuteMillis
	dayMillis    = 24 * hourMillis
)

// snapshotSegmentBytes is small: files are deleted whole, and a state is small.
const snapshotSegmentBytes = 16 << 20

// Topics lists all topics. Keyed ones share one partition count, so that the
// commands, matches and facts of one endpoint share a partition number.
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

// requests returns a topic of requests from one part to another, which are short-lived.
func requests(name string) Topic {
	return Topic{
		Name:            name,
		Keyed:           true,
		Cleanup:         CleanupDelete,
		RetentionMillis: 7 * dayMillis,
		SegmentMillis:   dayMillis,
	}
}
