package api

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// useEvery is how often the use of a key is recorded at most.
const useEvery = time.Minute

// keyUsage remembers when this node last recorded the use of a key.
type keyUsage struct {
	mu   sync.Mutex
	byID *lru.Cache[string, time.Time]
}

func newKeyUsage() *keyUsage { return &keyUsage{byID: newCache[time.Time](maxLimited)} }

// due reports, once a minute for each key, that its use should be recorded.
func (u *keyUsage) due(keyID string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, known := u.byID.Get(keyID); known && now.Sub(last) < useEvery {
		return false
	}
	u.byID.Add(keyID, now)
	return true
}

// noteUse records that a key was used, unless some node has recorded it within the last
// minute.
func (a *API) noteUse(keyID string, now time.Time) {
	if a.Uses == nil || !a.usage.due(keyID, now) {
		return
	}
	usedAt, err := a.Directory.KeyUsedAt(keyID)
	if err == nil && now.UnixMilli()-usedAt < useEvery.Milliseconds() {
		return
	}
	a.Uses.Used(keyID, now.UnixMilli())
}
