package follower

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	// cursorWindow is how many of the topic's last offsets are read first. The newest cursor is among
	// them, unless those records were aborted.
	cursorWindow  = 100
	cursorTimeout = 30 * time.Second
)

var errOtherNetwork = errors.New("the topics belong to another network")

// readCursor reads the newest cursor of a network. It fails if the log belongs to another one.
func readCursor(
	ctx context.Context, log Log, passphrase string,
) (cursor schemas.LedgerRead, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, cursorTimeout)
	defer cancel()
	ends, err := log.Of(ctx, schemas.TopicLedgers)
	if err != nil {
		return cursor, false, err
	}
	starts, err := log.Starts(ctx, schemas.TopicLedgers)
	if err != nil {
		return cursor, false, err
	}
	if len(ends) != 1 {
		return cursor, false, fmt.Errorf("the topic %q has %d partitions, but must "+
			"have one, because the cursor depends on its order", schemas.TopicLedgers, len(ends))
	}
	first, end := starts[partition], ends[partition]
	if first == end {
		return cursor, false, nil
	}
	from := max(first, end-cursorWindow)
	cursor, found, err = newestCursor(ctx, log, passphrase, from, end)
	if !found && err == nil && from > first {
		return newestCursor(ctx, log, passphrase, first, end)
	}
	return cursor, found, err
}

func newestCursor(
	ctx context.Context, log Log, passphrase string, from, end int64,
) (newest schemas.LedgerRead, found bool, err error) {
	err = log.Read(ctx, schemas.TopicLedgers, map[int32]int64{partition: from},
		map[int32]int64{partition: end}, func(rec kafka.Record) error {
			read, err := schemas.DecodeLedgerRead(schemas.Read(rec.Value, rec))
			if err != nil {
				return err
			}
			if read.NetworkPassphrase != passphrase {
				return fmt.Errorf("%w: the cursor at ledger %d is of %q, but %q is "+
					"configured: each network needs its own topics: set another --data-dir or, with serve, "+
					"another --topic-prefix",
					errOtherNetwork, read.Sequence, read.NetworkPassphrase, passphrase)
			}
			if !found || read.Sequence > newest.Sequence {
				newest, found = read, true
			}
			return nil
		})
	if err != nil {
		return newest, false, err
	}
	return newest, found, nil
}

// followedHash returns the hash that the next ledger must name as its predecessor's. It is empty
// before the first ledger is followed, because the cursor's ledger was not used, so a source that
// was wrong about it may correct itself.
func followedHash(cursor schemas.LedgerRead) string {
	if len(cursor.Coverage) == 0 {
		return ""
	}
	return cursor.Hash
}

// Cursor reads the follower's position for other programs. It is safe for concurrent use.
type Cursor struct {
	log        *kafkaLog
	passphrase string
}

// OpenCursor opens the cursor of a deployment that follows the network with this passphrase.
func OpenCursor(c kafka.Cluster, passphrase string) (*Cursor, error) {
	log, err := openLog(c, liveProducer) // nothing is appended
	if err != nil {
		return nil, err
	}
	return &Cursor{log, passphrase}, nil
}

// Newest returns the newest cursor that was committed before the call.
func (c *Cursor) Newest(ctx context.Context) (cursor schemas.LedgerRead, found bool, err error) {
	return readCursor(ctx, c.log, c.passphrase)
}

// Close frees the cursor's clients.
func (c *Cursor) Close() { c.log.close() }

// Start is where to begin if there is no cursor. The zero value, "latest", is the ledger after the
// newest one.
type Start struct {
	Sequence uint32 // the first ledger to read; 0 for latest
}

const startLatest = "latest"

// ParseStart parses "latest" or a ledger sequence.
func ParseStart(s string) (Start, error) {
	if s == startLatest {
		return Start{}, nil
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == 0 || n > math.MaxInt32 {
		return Start{}, fmt.Errorf("invalid start %q: must be %q or a ledger sequence (1 to %d)", s,
			startLatest, math.MaxInt32)
	}
	return Start{Sequence: uint32(n)}, nil
}

// String returns the form that ParseStart reads.
func (s Start) String() string {
	if s.Sequence == 0 {
		return startLatest
	}
	return strconv.FormatUint(uint64(s.Sequence), 10)
}
