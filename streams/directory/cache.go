package directory

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// Sizes of the caches of decoded rows. Each request looks up a key, which takes about 300 bytes.
	// An endpoint with all its headers takes about 20 KiB.
	cachedKeys      = 10_000
	cachedEndpoints = 1_000
)

// rowCache caches decoded rows until they change. Its values are shared, so callers must not change
// them. A nil cache caches nothing.
//
// Changed rows are dropped after their batch is committed and before its position is published. So
// a caller that has waited for a position reads nothing older from the cache than from the store.
type rowCache[V any] struct {
	mu    sync.Mutex
	byKey *simplelru.LRU[string, V]
	drops uint64 // incremented by drop; a value read before a drop is not cached after it
}

func newRowCache[V any](size int) *rowCache[V] {
	byKey, err := simplelru.NewLRU[string, V](size, nil)
	if err != nil {
		panic(err)
	}
	return &rowCache[V]{byKey: byKey}
}

func (c *rowCache[V]) get(key string, read func() (V, bool, error)) (V, bool, error) {
	if c == nil {
		return read()
	}
	c.mu.Lock()
	value, kept := c.byKey.Get(key)
	drops := c.drops
	c.mu.Unlock()
	if kept {
		return value, true, nil
	}
	value, found, err := read()
	if err != nil || !found {
		return value, found, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops == drops {
		c.byKey.Add(key, value)
	}
	return value, true, nil
}

func (c *rowCache[V]) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	c.byKey.Remove(key)
}

func (d *Directory) drop(changes []change) {
	for _, c := range changes {
		if c.table == endpoints {
			d.endpoints.drop(c.id)
		}
		for _, hash := range c.hashes {
			d.keys.drop(hash)
		}
	}
}
