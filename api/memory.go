package api

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxRemembered bounds what a node remembers of its own answers.
const maxRemembered = 16_384

// memory holds what this node warned of when it answered a creation that may be
// repeated: a repeat through it gets the warnings of then, and is not held
// against a world that has changed since.
type memory struct {
	warnings *lru.Cache[string, []string] // by command
}

func newMemory() *memory {
	c, err := lru.New[string, []string](maxRemembered)
	if err != nil {
		panic(err) // the size is a constant
	}
	return &memory{c}
}

func (m *memory) has(commandID string) bool { return m.warnings.Contains(commandID) }

// settle gives the warnings to answer with: those of the first answer.
func (m *memory) settle(x *exchange, commandID string, replayed bool, warnings []string) []string {
	if x.idempotencyKey == "" {
		return warnings
	}
	if first, known := m.warnings.Get(commandID); known && replayed {
		return first
	}
	m.warnings.Add(commandID, warnings)
	return warnings
}

// useEvery is how often the use of a key is noted at most.
const useEvery = time.Minute

// lastUses remembers when this node last noted the use of a key.
type lastUses struct {
	mu   sync.Mutex
	byID *lru.Cache[string, time.Time]
}

func newLastUses() *lastUses {
	c, err := lru.New[string, time.Time](maxLimited)
	if err != nil {
		panic(err) // the size is a constant
	}
	return &lastUses{byID: c}
}

// due tells, once a minute for each key, that its use should be noted.
func (u *lastUses) due(keyID string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, known := u.byID.Get(keyID); known && now.Sub(last) < useEvery {
		return false
	}
	u.byID.Add(keyID, now)
	return true
}

// noteUse keeps that a key was used, unless some node has kept it within the
// last minute.
func (a *API) noteUse(keyID string, now time.Time) {
	if a.Uses == nil || !a.uses.due(keyID, now) {
		return
	}
	kept, err := a.Directory.KeyUsedAt(keyID)
	if err == nil && now.UnixMilli()-kept < useEvery.Milliseconds() {
		return
	}
	a.Uses.Used(keyID, now.UnixMilli())
}
