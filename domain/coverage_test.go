package domain_test

import (
	"reflect"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

func TestCoverage(t *testing.T) {
	read := func(from, to uint32, verified bool) domain.LedgersRead {
		return domain.LedgersRead{Range: domain.Range{From: from, To: to}, Verified: verified}
	}
	type ledger struct {
		sequence uint32
		verified bool
	}
	for name, c := range map[string]struct {
		ledgers []ledger
		want    domain.Coverage
		gaps    domain.Ranges
		since   uint32
	}{
		"nothing": {},
		"one after the other": {
			ledgers: []ledger{{7, true}, {8, true}, {9, true}},
			want:    domain.Coverage{read(7, 9, true)},
			since:   7,
		},
		"one that was read before": {
			ledgers: []ledger{{7, true}, {8, true}, {8, false}, {7, true}},
			want:    domain.Coverage{read(7, 8, true)},
			since:   7,
		},
		"a source that gives nothing to verify": {
			ledgers: []ledger{{7, true}, {8, false}, {9, false}, {10, true}},
			want:    domain.Coverage{read(7, 7, true), read(8, 9, false), read(10, 10, true)},
			since:   7,
		},
		"gaps": {
			ledgers: []ledger{{2, true}, {4, true}, {5, true}, {9, false}},
			want:    domain.Coverage{read(2, 2, true), read(4, 5, true), read(9, 9, false)},
			gaps:    domain.Ranges{{From: 3, To: 3}, {From: 6, To: 8}},
			since:   9,
		},
	} {
		var got domain.Coverage
		for _, l := range c.ledgers {
			before := append(domain.Coverage(nil), got...)
			next := got.Read(l.sequence, l.verified)
			if !reflect.DeepEqual(before, append(domain.Coverage(nil), got...)) {
				t.Errorf("%s: what was given is changed to %v", name, got)
			}
			got = next
		}
		if !reflect.DeepEqual(got, c.want) || !reflect.DeepEqual(got.Gaps(), c.gaps) ||
			got.Since() != c.since {
			t.Errorf("%s: %v with gaps %v since %d", name, got, got.Gaps(), got.Since())
		}
	}
}

// A cursor must stay small even if its source changes with every ledger.
func TestCoverageIsBounded(t *testing.T) {
	var c domain.Coverage
	for sequence := uint32(1); sequence <= 1000; sequence++ {
		c = c.Read(sequence, sequence%2 == 0)
	}
	if len(c) != 100 || c[99].To != 1000 || c.Since() != 901 {
		t.Errorf("%d ranges, since %d: %v", len(c), c.Since(), c)
	}
}
