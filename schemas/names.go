package schemas

import (
	"hash/maphash"
	"sync/atomic"
)

// names remembers texts that were read lately, so that one which comes again is not allocated
// again: of the facts of a block, which wait in memory together, thousands name the same endpoint.
// Each text has one place, and another of that place takes it over.
type names struct {
	seed   maphash.Seed
	places [namesPlaces]atomic.Pointer[string]
}

const (
	namesPlaces = 4096
	// longestName bounds what a place holds.
	longestName = 64
)

var latestNames = names{seed: maphash.MakeSeed()}

// of returns a text. It may be called from any goroutine.
func (n *names) of(v []byte) string {
	if len(v) == 0 || len(v) > longestName {
		return string(v)
	}
	place := &n.places[maphash.Bytes(n.seed, v)%namesPlaces]
	if known := place.Load(); known != nil && *known == string(v) {
		return *known
	}
	text := string(v)
	place.Store(&text)
	return text
}
