package draw

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Payers is the number of payers.
const Payers = 3

// Source is the source of all random choices.
type Source struct{ *rand.Rand }

// One returns true with probability 1/in.
func (s Source) One(in int) bool { return s.IntN(in) == 0 }

// Of draws an element.
func Of[T any](s Source, from []T) T { return from[s.IntN(len(from))] }

// Choice is an element with a weight.
type Choice[T any] = struct {
	Weight float64
	Of     T
}

// ByWeight draws an element with a probability proportional to its weight.
func ByWeight[T any](s Source, from []Choice[T]) T {
	var total float64
	for _, c := range from {
		total += c.Weight
	}
	at := s.Float64() * total
	for _, c := range from {
		if at -= c.Weight; at < 0 {
			return c.Of
		}
	}
	return from[len(from)-1].Of
}

// Anything returns rules that accept every payment in XLM.
func Anything() *Rules { return &Rules{Amount: "any", MemoIs: "any", Types: []string{Received}} }

// Rules draws rules without an expiry.
func (s Source) Rules() *Rules {
	r := Anything()
	if s.One(3) {
		r.Amount = Of(s, []string{"exact", "min", "max", "range"})
		r.Low = s.Amount()
		r.High = r.Low + s.Amount()
	}
	if s.One(4) {
		r.MemoIs = Of(s, []string{"present", "absent", "equals"})
		if r.Memo = s.Memo(); r.Memo == nil || r.Memo.Type == "return" || r.MemoIs != "equals" {
			r.Memo = &Memo{"text", "order 1"}
		}
	}
	if s.One(5) {
		r.Senders = []int{s.IntN(Payers)}
	}
	if s.One(2) {
		r.Types = []string{Received, Rejected}
	}
	return r
}

// Amount draws an amount. Amounts of rules and payments often coincide.
func (s Source) Amount() int64 { return (1 + s.Int64N(20)) * StroopsPerUnit / 2 }

// Memo draws a memo, or nil.
func (s Source) Memo() *Memo {
	switch s.IntN(6) {
	case 0, 1:
		return &Memo{"text", fmt.Sprintf("order %d", s.IntN(3))}
	case 2:
		return &Memo{"id", fmt.Sprint(s.Uint64N(4))}
	case 3:
		return &Memo{"hash", strings.Repeat(fmt.Sprintf("%02x", s.IntN(3)), 32)}
	case 4:
		return &Memo{"return", strings.Repeat("ab", 32)}
	}
	return nil
}
