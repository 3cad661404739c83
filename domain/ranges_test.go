package domain_test

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/lumenhook/lumenhook/domain"
)

func TestRangesAdd(t *testing.T) {
	const top = math.MaxUint32
	for name, c := range map[string]struct {
		have domain.Ranges
		add  domain.Range
		want domain.Ranges
	}{
		"to nothing": {nil, domain.Range{From: 5, To: 7}, domain.Ranges{{5, 7}}},
		"before": {
			domain.Ranges{{5, 7}}, domain.Range{From: 1, To: 3}, domain.Ranges{{1, 3}, {5, 7}},
		},
		"after": {
			domain.Ranges{{5, 7}}, domain.Range{From: 9, To: 9}, domain.Ranges{{5, 7}, {9, 9}},
		},
		"touching below": {domain.Ranges{{5, 7}}, domain.Range{From: 1, To: 4}, domain.Ranges{{1, 7}}},
		"touching above": {domain.Ranges{{5, 7}}, domain.Range{From: 8, To: 9}, domain.Ranges{{5, 9}}},
		"within":         {domain.Ranges{{5, 9}}, domain.Range{From: 6, To: 7}, domain.Ranges{{5, 9}}},
		"around": {
			domain.Ranges{{5, 7}, {9, 9}, {20, 30}}, domain.Range{From: 2, To: 10},
			domain.Ranges{{2, 10}, {20, 30}},
		},
		"closing a gap": {
			domain.Ranges{{1, 3}, {7, 9}}, domain.Range{From: 4, To: 6}, domain.Ranges{{1, 9}},
		},
		"to the end": {
			domain.Ranges{{1, 3}, {top, top}}, domain.Range{From: 4, To: top},
			domain.Ranges{{1, top}},
		},
		"above the end": {
			domain.Ranges{{1, top}}, domain.Range{From: top, To: top}, domain.Ranges{{1, top}},
		},
		"from zero":        {domain.Ranges{{1, 3}}, domain.Range{From: 0, To: 0}, domain.Ranges{{0, 3}}},
		"one that is none": {domain.Ranges{{1, 3}}, domain.Range{From: 9, To: 8}, domain.Ranges{{1, 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.have.Add(c.add); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestRangesMissing(t *testing.T) {
	have := domain.Ranges{{5, 7}, {10, 20}}
	for name, c := range map[string]struct {
		of   domain.Range
		want domain.Ranges
	}{
		"before":      {domain.Range{From: 1, To: 4}, domain.Ranges{{1, 4}}},
		"after":       {domain.Range{From: 21, To: 22}, domain.Ranges{{21, 22}}},
		"within":      {domain.Range{From: 11, To: 20}, nil},
		"across":      {domain.Range{From: 1, To: 30}, domain.Ranges{{1, 4}, {8, 9}, {21, 30}}},
		"between":     {domain.Range{From: 6, To: 12}, domain.Ranges{{8, 9}}},
		"is none":     {domain.Range{From: 9, To: 8}, nil},
		"to the end":  {domain.Range{From: 15, To: math.MaxUint32}, domain.Ranges{{21, math.MaxUint32}}},
		"of one only": {domain.Range{From: 8, To: 8}, domain.Ranges{{8, 8}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := have.Missing(c.of); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestRangesAreASet compares ranges with a plain set of ledgers.
func TestRangesAreASet(t *testing.T) {
	const last = 60
	drawn := func(t *rapid.T) domain.Range {
		from := rapid.Uint32Range(0, last).Draw(t, "from")
		return domain.Range{From: from, To: rapid.Uint32Range(0, last).Draw(t, "to")}
	}
	rapid.Check(t, func(t *rapid.T) {
		var r domain.Ranges
		set := make(map[uint32]bool)
		for range rapid.IntRange(0, 12).Draw(t, "adds") {
			x := drawn(t)
			before := append(domain.Ranges(nil), r...)
			sum := r.Add(x)
			if !reflect.DeepEqual(append(domain.Ranges(nil), r...), before) {
				t.Fatalf("adding changed what was added to: %v, was %v", r, before)
			}
			r = sum
			for at := x.From; at <= x.To; at++ {
				set[at] = true
			}
		}
		for i, x := range r {
			if x.From > x.To || i > 0 && r[i-1].To+1 >= x.From {
				t.Fatalf("%v are not sorted and apart", r)
			}
		}
		asked := drawn(t)
		missing := make(map[uint32]bool)
		for _, x := range r.Missing(asked) {
			for at := x.From; at <= x.To; at++ {
				missing[at] = true
			}
		}
		for at := range uint32(last + 1) {
			if want := at >= asked.From && at <= asked.To && !set[at]; missing[at] != want {
				t.Fatalf("%v of %v: ledger %d is missing: %t, want %t", asked, r, at, missing[at], want)
			}
		}
	})
}
