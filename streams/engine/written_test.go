package engine_test

import (
	"fmt"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

// Small requests on a watch with 1,000 senders write its row once. Neither the journal nor the
// answers contain its senders again.
func TestAChangeWritesWhatChanged(t *testing.T) {
	c := newCore(t)
	w := goodWatch()
	w.Rules.SenderAllowlist = nil
	for i := range 1000 {
		w.Rules.SenderAllowlist = append(w.Rules.SenderAllowlist, fmt.Sprintf("G%055d", i))
	}
	c.turn(creation(w.EndpointID))
	asked := 0
	size := func(body domain.CommandBody) (small, row int) {
		asked++
		c.turn(domain.Command{ID: fmt.Sprint("cmd_", asked), AccountID: accountID, Body: body})
		for _, r := range c.written {
			if r.Topic == schemas.TopicWatches {
				row += len(r.Value)
			} else {
				small += len(r.Value)
			}
		}
		return small, row
	}
	const senders = 58_000
	if small, row := size(domain.CreateWatch{Watch: w}); small < 3*senders || row < senders {
		t.Fatalf("a creation writes %d bytes and a row of %d", small, row)
	}
	label := "another"
	const request, begun = 7, 10 // versions of the facts that request the backfill and begin its part
	part := domain.NextPart{
		Range: domain.Range{From: 2, To: 9}, EndpointID: w.EndpointID, MatchesFrom: 1,
	}
	for _, one := range []struct {
		what string
		body domain.CommandBody
	}{
		{"label", domain.UpdateWatch{WatchID: watchID, Change: domain.WatchChange{Label: &label}}},
		{"live", domain.RecordCoverage{WatchID: watchID, LiveSince: 100}},
		{"backfill", domain.BackfillWatch{WatchID: watchID, From: 2, To: 9}},
		{"part", domain.RecordCoverage{WatchID: watchID, Request: request, Until: 9, Next: part}},
		{"done", domain.RecordCoverage{
			WatchID: watchID, Request: request, Until: 9, Part: begun, From: 2, To: 9,
		}},
	} {
		small, row := size(one.body)
		t.Logf("%s: %d bytes, and a row of %d", one.what, small, row)
		if small > 2000 || row < senders || row > senders+2000 {
			t.Errorf("%s: %d bytes, and a row of %d", one.what, small, row)
		}
	}
}
