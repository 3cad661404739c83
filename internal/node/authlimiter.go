package node

import (
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/internal/ingress"
	"github.com/lumenhook/lumenhook/internal/retry"
)

// Limits for rejected keys. A key has 256 random bits, so guessing is hopeless at any speed. The
// limits only save the work that guessing causes.
const (
	maxGuessers     = 8192
	freeRefusals    = 20               // per client, without delay
	refusalEvery    = 10 * time.Second // restores one free refusal
	firstWait       = 250 * time.Millisecond
	longestWait     = 4 * time.Second
	maxWaiting      = 256
	maxWaitingEach  = 16
	tooManyWaitSecs = 10
)

type authLimiter struct {
	mu       sync.Mutex
	refusals *simplelru.LRU[netip.Prefix, *rate.Limiter] // in debt for those beyond the free ones
	waiting  *ingress.Places[netip.Prefix]
}

func newAuthLimiter() *authLimiter {
	refusals, err := simplelru.NewLRU[netip.Prefix, *rate.Limiter](maxGuessers, nil)
	if err != nil {
		panic("api: " + err.Error()) // cannot happen: the size is positive
	}
	return &authLimiter{refusals: refusals, waiting: ingress.NewPlaces[netip.Prefix](maxWaiting)}
}

// refused counts a refusal and returns how long its response must wait. The caller must call done
// after the wait. If ok is false, too many responses are waiting already.
func (l *authLimiter) refused(
	client netip.Prefix, now time.Time,
) (wait time.Duration, done func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, known := l.refusals.Get(client)
	if !known {
		one = rate.NewLimiter(rate.Every(refusalEvery), freeRefusals)
		l.refusals.Add(client, one)
	}
	if one.TokensAt(now) > -freeRefusals { // bounds the debt
		one.ReserveN(now, 1)
	}
	beyond := int(math.Ceil(-one.TokensAt(now)))
	if beyond <= 0 {
		return 0, func() {}, true
	}
	done, err := l.waiting.Take(client, maxWaitingEach)
	return min(firstWait<<min(beyond-1, 10), longestWait), done, err == nil
}

// wrap delays 401 responses to clients that have received too many.
func (l *authLimiter) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&slowWriter{ResponseWriter: w, request: r, limiter: l}, r)
	})
}

type slowWriter struct {
	http.ResponseWriter
	request  *http.Request
	limiter  *authLimiter
	replaced bool // with a 429; the handler's body is dropped
}

func (w *slowWriter) WriteHeader(status int) {
	if status == http.StatusUnauthorized && !w.replaced {
		wait, done, ok := w.limiter.refused(ingress.AddressOf(w.request.RemoteAddr), time.Now())
		if !ok {
			w.tooMany()
			return
		}
		_ = retry.Sleep(w.request.Context(), wait)
		done()
	}
	if !w.replaced {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *slowWriter) tooMany() {
	w.replaced = true
	w.Header().Del("WWW-Authenticate")
	w.Header().Set("Retry-After", strconv.Itoa(tooManyWaitSecs))
	p := newProblem(problem.CodeRateLimited,
		"Too many keys from this address were refused. Repeat the request after the time in Retry-After.")
	p.Title = "Too many requests" // applies to an address, not to an API key
	if id := w.Header().Get("X-Request-Id"); id != "" {
		p.RequestID = id
	}
	write(w.ResponseWriter, w.request, p)
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.replaced {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *slowWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
