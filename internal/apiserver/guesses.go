package apiserver

import (
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/lumenhook/lumenhook/internal/retry"
)

// Bounds of the slowing. A key has 256 random bits, so that guessing is hopeless
// at any speed; what this saves is the work that guesses make.
const (
	maxGuessers     = 8192
	freeRefusals    = 20               // at once, by one client
	refusalEvery    = 10 * time.Second // gives one back
	firstWait       = 250 * time.Millisecond
	longestWait     = 4 * time.Second
	maxWaiting      = 256
	maxWaitingEach  = 16
	tooManyWaitSecs = 10
)

// guesses counts refused keys by client.
type guesses struct {
	mu       sync.Mutex
	guessers *simplelru.LRU[netip.Prefix, *guesser]
	waiting  int
}

type guesser struct {
	refusals int       // not yet given back
	since    time.Time // when the last was given back
	waiting  int
}

func newGuesses() *guesses {
	guessers, err := simplelru.NewLRU[netip.Prefix, *guesser](maxGuessers, nil)
	if err != nil {
		panic("apiserver: " + err.Error()) // of a size that is not positive
	}
	return &guesses{guessers: guessers}
}

// refused counts a refusal and says how long its answer must wait. The caller
// calls done after the wait. Without ok nobody else may wait.
func (g *guesses) refused(
	client netip.Prefix, now time.Time,
) (wait time.Duration, done func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one, known := g.guessers.Get(client)
	if !known {
		one = &guesser{since: now}
		g.guessers.Add(client, one)
	}
	back := min(int(now.Sub(one.since)/refusalEvery), one.refusals)
	one.refusals += 1 - back
	if one.since = one.since.Add(time.Duration(back) * refusalEvery); one.refusals == 1 {
		one.since = now
	}
	beyond := one.refusals - freeRefusals
	if beyond <= 0 {
		return 0, func() {}, true
	}
	one.refusals = min(one.refusals, 2*freeRefusals)
	if g.waiting >= maxWaiting || one.waiting >= maxWaitingEach {
		return 0, nil, false
	}
	g.waiting++
	one.waiting++
	done = func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting--
		one.waiting--
	}
	return min(firstWait<<min(beyond-1, 10), longestWait), done, true
}

// slowGuesses holds up answers of 401 to clients that got too many.
func slowGuesses(next http.Handler, g *guesses) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&slowWriter{ResponseWriter: w, request: r, guesses: g}, r)
	})
}

// slowWriter waits before it writes a refusal.
type slowWriter struct {
	http.ResponseWriter
	request  *http.Request
	guesses  *guesses
	replaced bool // by 429: the handler's body is not sent
}

func (w *slowWriter) WriteHeader(status int) {
	if status == http.StatusUnauthorized && !w.replaced {
		wait, done, ok := w.guesses.refused(clientOf(w.request.RemoteAddr), time.Now())
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
	p := newProblem(codeRateLimited, http.StatusTooManyRequests, "Too many requests",
		"Too many keys from this address were refused. Repeat the request after the time in Retry-After.")
	if id := w.Header().Get("X-Request-Id"); id != "" {
		p.RequestID = id
	}
	p.write(w.ResponseWriter, w.request)
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.replaced {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the server's own writer.
func (w *slowWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
