package history

import (
	"context"
	"strconv"

	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
)

// An endpoint's attempts are sorted by time, so a query reads no others. Duplicate rows are counted
// once.
const (
	fromAttempts = `
FROM {database:Identifier}.attempts FINAL
PREWHERE endpoint_id IN (
    SELECT endpoint_id FROM {database:Identifier}.endpoints FINAL
    WHERE account_id = {account:String} AND {endpoint:String} IN ('', endpoint_id)
) AND sent_at >= fromUnixTimestamp64Milli({from:Int64})
    AND sent_at < fromUnixTimestamp64Milli({to:Int64})`

	countedAttempts = `
    countIf(state = 'DELIVERED'), countIf(state != 'DELIVERED' AND error = ''),
    countIf(state != 'DELIVERED' AND error != '')`

	selectMinutes = `
SELECT toInt64(toUnixTimestamp(toStartOfMinute(sent_at))) * 1000 AS minute,` + countedAttempts +
		fromAttempts + ` GROUP BY minute ORDER BY minute`

	selectRates = `
SELECT ifNotFinite(quantile(0.5)(duration_ms), 0), ifNotFinite(quantile(0.99)(duration_ms), 0),` +
		countedAttempts + fromAttempts
)

// Rates counts attempts. Its errors are those of Events.
func (h *History) Rates(
	ctx context.Context, f readmodel.RatesFilter,
) (rates readmodel.Rates, err error) {
	which := writer.Parameters{
		"account":  f.AccountID,
		"endpoint": f.EndpointID,
		"from":     strconv.FormatInt(f.FromMillis, 10),
		"to":       strconv.FormatInt(f.ToMillis, 10),
	}
	err = h.onJournal(ctx, func(ctx context.Context, db tables) error {
		rates = readmodel.Rates{}
		err := db.QueryRow(ctx, selectRates, which, &rates.MedianMillis, &rates.P99Millis,
			&rates.Delivered, &rates.Refused, &rates.Unmet)
		if err != nil {
			return err
		}
		return db.Query(ctx, selectMinutes, which, func(read func(...any) error) error {
			var m readmodel.RatesMinute
			err := read(&m.AtMillis, &m.Delivered, &m.Refused, &m.Unmet)
			rates.Minutes = append(rates.Minutes, m)
			return err
		})
	})
	return rates, err
}

// question reads the tables of one server. It may be asked again.
type question func(context.Context, tables) error

func (h *History) onJournal(ctx context.Context, q question) error {
	return h.ask(ctx, func(of *reading) error { return of.onJournal(ctx, q) })
}

// onJournal asks about complete tables ([reading.onFull]).
func (h *reading) onJournal(ctx context.Context, q question) error {
	return h.onFull(ctx, func() error { return h.read(ctx, q) })
}

func (h *reading) read(ctx context.Context, q question) error {
	return readFault(ctx, h.readOnly(ctx, func(ctx context.Context) error { return q(ctx, h.db) }))
}
