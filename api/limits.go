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

// RateLimit limits the requests of all of an account's keys together, and separately those of all
// its portal links. Each node counts its own requests.
type RateLimit struct {
	PerSecond int // 0: 1,000
	Burst     int // 0: twice PerSecond
}

const (
	defaultPerSecond = 1000
	// maxLimited bounds the accounts whose requests are counted. The least recently used account is
	// evicted first, and starts again with a full burst.
	maxLimited = 10_000
	// maxParallel bounds the requests of one account in progress at a node. Requests that wait for
	// events have a separate, lower limit.
	maxParallel = 256
	// Names of the two policies, for an account's keys and for its portal links.
	limitOfKeys  = `"account"`
	limitOfLinks = `"links"`
	// Header names in net/http's canonical form. Any other form would be copied each time.
	headerLimit       = "Ratelimit"
	headerLimitPolicy = "Ratelimit-Policy"
)

// The limits of requests that cost more than others: a lookup makes up to three requests to a
// provider, and the service stores and repeats a test that fails for days.
var (
	lookupLimit = RateLimit{PerSecond: 1, Burst: 20}
	testLimit   = RateLimit{PerSecond: 5, Burst: 100}
)

// limits counts the requests of each account. All keys of an account share one count, so more keys
// don't help. Its portal links share another count, so that visitors don't use up the limit of the
// account's own programs.
type limits struct {
	perSecond, burst int
	policy           string // without the name
	now              func() time.Time
	byHolder         *lru.Cache[holder, *rate.Limiter]
}

// holder identifies the requests that count together.
type holder struct {
	accountID string
	byLink    bool
}

func (c caller) holder() holder { return holder{c.accountID, c.byLink} }

func newLimits(l RateLimit, now func() time.Time) *limits {
	l.PerSecond = cmp.Or(l.PerSecond, defaultPerSecond)
	l.Burst = cmp.Or(l.Burst, 2*l.PerSecond)
	window := max(1, l.Burst/l.PerSecond)
	return &limits{
		perSecond: l.PerSecond,
		burst:     l.Burst,
		now:       now,
		byHolder:  newCache[holder, *rate.Limiter](maxLimited),
		policy:    fmt.Sprintf(";q=%d;w=%d", l.Burst, window),
	}
}

// take counts one request and sets the response's rate limit headers
// (draft-ietf-httpapi-ratelimit-headers): r is the number of requests left, and t the number of
// seconds until the burst is full again.
func (l *limits) take(h http.Header, by caller) error {
	name, whose := limitOfKeys, "The API keys of your account"
	if by.byLink {
		name, whose = limitOfLinks, "The portal links of your account"
	}
	allowed, left := l.count(by.holder())
	full := int(math.Ceil((float64(l.burst) - left) / float64(l.perSecond)))
	h.Set(headerLimitPolicy, name+l.policy)
	h.Set(headerLimit, name+";r="+strconv.Itoa(max(0, int(left)))+";t="+
		strconv.Itoa(max(0, full)))
	if allowed {
		return nil
	}
	wait := int(math.Ceil((1 - left) / float64(l.perSecond)))
	return problem.New(problem.CodeRateLimited,
		fmt.Sprintf("%s may send %d requests a second together, and %d at once. Repeat the request "+
			"after the time in Retry-After.", whose, l.perSecond, l.burst)).RetryAfter(max(1, wait))
}

// count counts one request, if the limit allows it, and returns how many are left.
func (l *limits) count(of holder) (allowed bool, left float64) {
	limiter, known := l.byHolder.Get(of)
	if !known {
		limiter = rate.NewLimiter(rate.Limit(l.perSecond), l.burst)
		if earlier, there, _ := l.byHolder.PeekOrAdd(of, limiter); there {
			limiter = earlier
		}
	}
	now := l.now()
	allowed = limiter.AllowN(now, 1)
	return allowed, limiter.TokensAt(now)
}

// within is count, and refuses a request that is not allowed.
func (l *limits) within(of holder, what string) error {
	if allowed, _ := l.count(of); allowed {
		return nil
	}
	return problem.New(problem.CodeRateLimited, fmt.Sprintf("Your account may %s %d times a second, "+
		"and %d times at once. Repeat the request after the time in Retry-After.",
		what, l.perSecond, l.burst)).RetryAfter(1)
}

// newCache returns a cache that evicts the least recently used entry.
func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // cannot happen: sizes are constants
	}
	return cache
}
