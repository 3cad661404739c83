package projections

import (
	"context"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// The times of the last attempts lead to them: attempts are sorted by endpoint and time.
const selectOutcomes = `
SELECT event_id, endpoint_id, number, ifNull(status_code, 0), error
FROM {database:Identifier}.attempts
PREWHERE endpoint_id IN {endpoints:Array(String)}
    AND sent_at IN (
        SELECT max(arrayMax(attempt_times)) FROM {database:Identifier}.deliveries
        WHERE event_id IN {events:Array(String)} AND notEmpty(attempt_times)
        GROUP BY event_id, endpoint_id
    )
    AND event_id IN {events:Array(String)}
ORDER BY number`

// readOutcomes fills in what came of the last attempt of each delivery of the page. An attempt that
// the delivery does not count yet is left for the next query (P3).
func (l *lister) readOutcomes(ctx context.Context) error {
	at := make(map[deliveryKey]*readmodel.Event, len(l.page))
	var events, endpoints []string
	for i := range l.page {
		if r := &l.page[i]; r.AttemptsMade > 0 {
			at[deliveryKey{r.ID, r.EndpointID}] = r
			events, endpoints = append(events, r.ID), append(endpoints, r.EndpointID)
		}
	}
	if len(at) == 0 {
		return nil
	}
	which := parameters{"events": arrayOf(events), "endpoints": arrayOf(endpoints)}
	return l.db.query(ctx, selectOutcomes, which, func(read func(...any) error) error {
		var key deliveryKey
		var number uint32
		var status uint16
		var fault string
		err := read(&key.eventID, &key.endpointID, &number, &status, &fault)
		if r := at[key]; r != nil && int(number) <= r.AttemptsMade {
			r.LastStatusCode, r.LastError = int(status), domain.AttemptError(fault)
		}
		return err
	})
}
