package api

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/lumenhook/lumenhook/api/problem"
)

// RateLimit is how many requests one key may make. Each node counts for itself.
type RateLimit struct {
	PerSecond int // 0: 1,000
	Burst     int // 0: twice PerSecond
}

const (
	defaultPerSecond = 1000
	// maxLimited bounds the keys whose requests are counted. The least recently used is
	// evicted first, and starts again with a full burst.
	maxLimited = 10_000
	// limitName names the one policy that there is.
	limitName = `"key"`
	// The headers' names as net/http writes them: it would copy any other form each time.
	headerLimit       = "Ratelimit"
	headerLimitPolicy = "Ratelimit-Policy"
)

func (l RateLimit) validate() error {
	if l.PerSecond < 0 || l.Burst < 0 || l.PerSecond > 1_000_000 || l.Burst > 10_000_000 {
		return fmt.Errorf("api: Config.RateLimit is %d a second with bursts of %d: use 0 to 1000000 "+
			"and 0 to 10000000", l.PerSecond, l.Burst)
	}
	return nil
}

// limits counts the requests of each key.
type limits struct {
	perSecond, burst int
	policy           string
	now              func() time.Time
	byKey            *lru.Cache[string, *rate.Limiter]
}

func newLimits(l RateLimit, now func() time.Time) *limits {
	l.PerSecond = cmp.Or(l.PerSecond, defaultPerSecond)
	l.Burst = cmp.Or(l.Burst, 2*l.PerSecond)
	window := max(1, l.Burst/l.PerSecond)
	return &limits{
		perSecond: l.PerSecond,
		burst:     l.Burst,
		now:       now,
		byKey:     newCache[*rate.Limiter](maxLimited),
		policy:    fmt.Sprintf("%s;q=%d;w=%d", limitName, l.Burst, window),
	}
}

// take counts one request and writes what remains into the headers of its answer
// (draft-ietf-httpapi-ratelimit-headers): r is the number of requests left, t the seconds
// until the burst is full again.
func (l *limits) take(h http.Header, keyID string) error {
	limiter, known := l.byKey.Get(keyID)
	if !known {
		limiter = rate.NewLimiter(rate.Limit(l.perSecond), l.burst)
		if earlier, there, _ := l.byKey.PeekOrAdd(keyID, limiter); there {
			limiter = earlier
		}
	}
	now := l.now()
	allowed := limiter.AllowN(now, 1)
	left := limiter.TokensAt(now)
	full := int(math.Ceil((float64(l.burst) - left) / float64(l.perSecond)))
	h.Set(headerLimitPolicy, l.policy)
	h.Set(headerLimit, limitName+";r="+strconv.Itoa(max(0, int(left)))+";t="+
		strconv.Itoa(max(0, full)))
	if allowed {
		return nil
	}
	wait := int(math.Ceil((1 - left) / float64(l.perSecond)))
	return problem.New(problem.CodeRateLimited,
		fmt.Sprintf("The API key may send %d requests a second, and %d at once. Repeat the request "+
			"after the time in Retry-After.", l.perSecond, l.burst)).RetryAfter(max(1, wait))
}

// newCache makes a cache that evicts the least recently used entry.
func newCache[V any](size int) *lru.Cache[string, V] {
	cache, err := lru.New[string, V](size)
	if err != nil {
		panic(err) // sizes are constants
	}
	return cache
}
