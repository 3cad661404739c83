package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
)

const selectLogSize = `
SELECT leaf FROM {database:Identifier}.attempt_log
PREWHERE endpoint_id = {endpoint:String} AND log_from = {from:UInt64}
ORDER BY endpoint_id DESC, log_from DESC, leaf DESC
LIMIT 1`

// LogSize returns the number of leaves in a log, or 0 if there is no such log. If the caller has
// read an attempt, its leaf is included (P3).
func (h *History) LogSize(
	ctx context.Context, endpointID string, from uint64,
) (size uint64, err error) {
	which := writer.Parameters{"endpoint": endpointID, "from": strconv.FormatUint(from, 10)}
	err = h.askLog(ctx, func(ctx context.Context, db tables) error {
		err := db.QueryRow(ctx, selectLogSize, which, &size)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return size, err
}

const selectLogHashes = `
SELECT leaf, hashes FROM {database:Identifier}.attempt_log
PREWHERE endpoint_id = {endpoint:String} AND log_from = {from:UInt64}
    AND leaf IN {leaves:Array(UInt64)}`

// LogHashes returns the hashes of leaves in a log, by number. It omits missing leaves.
func (h *History) LogHashes(
	ctx context.Context, endpointID string, from uint64, leaves []uint64,
) (hashes map[uint64][]byte, err error) {
	numbers := make([]string, len(leaves))
	for i, n := range leaves {
		numbers[i] = strconv.FormatUint(n, 10)
	}
	which := writer.Parameters{
		"endpoint": endpointID,
		"from":     strconv.FormatUint(from, 10),
		"leaves":   "[" + strings.Join(numbers, ",") + "]",
	}
	err = h.askLog(ctx, func(ctx context.Context, db tables) (err error) {
		hashes, err = writer.Pairs[uint64, []byte](ctx, db.DB, selectLogHashes, which)
		return err
	})
	return hashes, err
}

func (h *History) askLog(ctx context.Context, q question) error {
	return h.ask(ctx, func(of *reading) error {
		if err := of.whole(ctx, "attempt_log"); err != nil {
			return err
		}
		err := of.readOnly(ctx, func(ctx context.Context) error { return q(ctx, of.db) })
		if err != nil {
			return callersFirst(ctx, fmt.Errorf("%w: %w", readmodel.ErrUnavailable, err))
		}
		return nil
	})
}
