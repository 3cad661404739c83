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

// LogSize returns the number of leaves in a log, or 0 if there is no such log. If the caller has
// read an attempt, its leaf is included (P3).
func (h *History) LogSize(
	ctx context.Context, endpointID string, from uint64,
) (size uint64, err error) {
	err = h.askLog(ctx, func(ctx context.Context, db tables) error {
		size, err = db.logSize(ctx, endpointID, from)
		return err
	})
	return size, err
}

// LogHashes returns the hashes of leaves in a log, by number. It omits missing leaves.
func (h *History) LogHashes(
	ctx context.Context, endpointID string, from uint64, leaves []uint64,
) (hashes map[uint64][]byte, err error) {
	err = h.askLog(ctx, func(ctx context.Context, db tables) error {
		hashes, err = db.logHashes(ctx, endpointID, from, leaves)
		return err
	})
	return hashes, err
}

func (h *History) askLog(ctx context.Context, question func(context.Context, tables) error) error {
	return h.ask(ctx, func(of *reading) error {
		if err := of.whole(ctx, "attempt_log"); err != nil {
			return err
		}
		err := of.look(ctx, func(ctx context.Context) error { return question(ctx, of.db) })
		if err != nil {
			return callersFirst(ctx, fmt.Errorf("%w: %w", readmodel.ErrUnavailable, err))
		}
		return nil
	})
}

const selectLogSize = `
SELECT leaf FROM {database:Identifier}.attempt_log
PREWHERE endpoint_id = {endpoint:String} AND log_from = {from:UInt64}
ORDER BY endpoint_id DESC, log_from DESC, leaf DESC
LIMIT 1`

func (db tables) logSize(
	ctx context.Context, endpointID string, from uint64,
) (size uint64, err error) {
	err = db.QueryRow(ctx, selectLogSize,
		writer.Parameters{"endpoint": endpointID, "from": strconv.FormatUint(from, 10)}, &size)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("projections: asking for the size of a log: %w", err)
	}
	return size, nil
}

const selectLogHashes = `
SELECT leaf, hashes FROM {database:Identifier}.attempt_log
PREWHERE endpoint_id = {endpoint:String} AND log_from = {from:UInt64}
    AND leaf IN {leaves:Array(UInt64)}`

func (db tables) logHashes(
	ctx context.Context, endpointID string, from uint64, leaves []uint64,
) (map[uint64][]byte, error) {
	numbers := make([]string, len(leaves))
	for i, n := range leaves {
		numbers[i] = strconv.FormatUint(n, 10)
	}
	hashes := make(map[uint64][]byte, len(leaves))
	err := db.Query(ctx, selectLogHashes, writer.Parameters{
		"endpoint": endpointID,
		"from":     strconv.FormatUint(from, 10),
		"leaves":   "[" + strings.Join(numbers, ",") + "]",
	}, func(read func(...any) error) error {
		var number uint64
		var of []byte
		err := read(&number, &of)
		hashes[number] = of
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("projections: reading hashes of a log: %w", err)
	}
	return hashes, nil
}
