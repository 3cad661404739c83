package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/follower"
)

// pages reads ledgers in pages of ten, up to the latest.
type pages struct {
	follower.Source
	latest uint32
	asked  int // number of calls to Latest
}

func (p *pages) Latest(context.Context) (uint32, error) {
	p.asked++
	return p.latest, nil
}

func (p *pages) Next(_ context.Context, sequence uint32) (page []domain.Ledger, err error) {
	for s := sequence; s <= p.latest && len(page) < 10; s++ {
		page = append(page, domain.Ledger{Sequence: s})
	}
	return page, nil
}

func TestCatchingUpIsReported(t *testing.T) {
	var told []string
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	source := &catchUp{
		Source: &pages{latest: 40},
		now:    func() time.Time { return now },
		say:    func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) },
	}
	for sequence := uint32(1); sequence <= 41; sequence += 10 {
		if _, err := source.Next(t.Context(), sequence); err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * time.Second)
	}
	want := []string{
		"catching up from ledger 1 to 40",
		"catching up [######..................]  25% 5 ledgers/s, 30 to go, 6s",
		"catching up [############............]  50% 5 ledgers/s, 20 to go, 4s",
		"catching up [##################......]  75% 5 ledgers/s, 10 to go, 2s",
		"caught up at ledger 40, 40 ledgers",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// A catch-up that would take years is an error of the source, so no time is reported. The source
// must be asked for its latest ledger once in ten seconds.
func TestCatchingUpToAnImpossibleLedger(t *testing.T) {
	var told []string
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	from := &pages{latest: 1<<31 - 1}
	source := &catchUp{
		Source: from,
		now:    func() time.Time { return now },
		say:    func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) },
	}
	for sequence := uint32(1); sequence <= 401; sequence += 10 {
		if _, err := source.Next(t.Context(), sequence); err != nil {
			t.Fatal(err)
		}
		now = now.Add(500 * time.Millisecond)
	}
	if len(told) != 21 || !strings.HasSuffix(told[20], "20 ledgers/s, 2147483247 to go, …") {
		t.Errorf("told %q", told)
	}
	if from.asked != 3 {
		t.Errorf("asked %d times in 20 s", from.asked)
	}
}
