package directory

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// cachedKeys and cachedEndpoints bound how many rows are kept decoded: a key is looked up by
	// each request, and takes some 300 bytes; an endpoint with all its headers some 20 KiB.
	cachedKeys      = 10_000
	cachedEndpoints = 1_000
)

// rowCache keeps what was read and decoded lately, until its row changes. Its values are
// shared: nobody may change what they point to. A nil one keeps nothing.
//
// The goroutine that fills the store drops what it has changed after that is committed and
// before its position is published: who has waited for a position reads nothing older from
// here than from the store.
type rowCache[V any] struct {
	mu    sync.Mutex
	byKey *simplelru.LRU[string, V]
	drops uint64 // what was read before a drop and comes after it is not kept
}

func newRowCache[V any](size int) *rowCache[V] {
	byKey, err := simplelru.NewLRU[string, V](size, nil)
	if err != nil {
		panic(err) // sizes are constants
	}
	return &rowCache[V]{byKey: byKey}
}

// get returns a value that is kept, or reads it. What is not found is not kept.
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

// drop drops what was kept of rows that changed.
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
