package projections_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
)

// No query of the API may scan a whole table. ClickHouse reports the number of rows read in its
// progress packets.
func TestReadsTouchFewRows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	must(t, writer.Migrate(t.Context(), r.db))
	const events = 200_000
	r.generate(events)
	var rows atomic.Int64
	ctx := clickhouse.Context(t.Context(),
		clickhouse.WithProgress(func(p *clickhouse.Progress) { rows.Add(int64(p.Rows)) }))
	reader := r.history(0)
	account := generatedAccount(7)
	middle := readmodel.Position{CreatedAtMillis: startMillis + events/2, ID: "evt_z"}
	list := func(f readmodel.EventFilter) func() error {
		f.AccountID = account
		return func() error {
			page, _, err := reader.Events(ctx, f, &middle, 50)
			if err == nil && len(page) == 0 {
				err = fmt.Errorf("the list of %+v is empty", f)
			}
			return err
		}
	}
	for name, c := range map[string]struct {
		read func() error
		most int64
	}{
		"one event": {func() error {
			record, err := reader.Event(ctx, generatedAccount(3), generatedEvent(123_453))
			if err == nil && len(record.Attempts) != 2 {
				err = fmt.Errorf("it has %d attempts", len(record.Attempts))
			}
			return err
		}, 5_000},
		"the newest": {list(readmodel.EventFilter{}), 40_000},
		// About 20,000 of these rows are the outcomes of the last attempts on the page.
		"a state":     {list(readmodel.EventFilter{State: domain.StateWaiting}), 90_000},
		"an endpoint": {list(readmodel.EventFilter{EndpointID: generatedEndpoint(17)}), 40_000},
		"endpoint, and time": {
			list(readmodel.EventFilter{
				EndpointID:  generatedEndpoint(17),
				SinceMillis: startMillis + events/4,
			}),
			40_000,
		},
	} {
		rows.Store(0)
		if err := c.read(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %d rows of %d events, %d attempts and %d deliveries", name, rows.Load(), events,
			2*events, events)
		if n := rows.Load(); n == 0 || n > c.most {
			t.Errorf("%s reads %d rows, and should read at most %d", name, n, c.most)
		}
	}
	// A list of a state without events must read a bounded range, not everything.
	rows.Store(0)
	page, next, err := reader.Events(ctx,
		readmodel.EventFilter{AccountID: account, State: domain.StateCancelled}, nil, 50)
	must(t, err)
	if len(page) != 0 || next == nil {
		t.Errorf("the list of a state that no event has gives %d events and continues at %+v",
			len(page), next)
	}
}
