package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
)

const (
	// lookEvery is how often a stream asks the API, and streamMax how long one lasts, which is less
	// than the server's write timeout. The browser then reconnects.
	lookEvery = 2 * time.Second
	streamMax = 25 * time.Second
	// Bounds at one node; a browser has one stream per visible page. Streams of links of one endpoint
	// are also bounded per endpoint, so that no merchant takes all streams of a shared account.
	maxStreams         = 256
	maxAccountStreams  = 16
	maxEndpointStreams = 4
)

// streams counts the pages that receive changes.
type streams struct {
	ending context.Context // ends when the server stops
	end    context.CancelFunc

	mu  sync.Mutex
	all int
	of  map[reach]int // by account, and by endpoint for links of one
}

func newStreams() *streams {
	s := &streams{of: make(map[reach]int)}
	s.ending, s.end = context.WithCancel(context.Background())
	return s
}

// enter takes a place, and reports whether there was one.
func (s *streams) enter(by reach) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	account := reach{AccountID: by.AccountID}
	if s.all >= maxStreams || s.of[account] >= maxAccountStreams ||
		by != account && s.of[by] >= maxEndpointStreams {
		return false
	}
	s.all++
	s.of[account]++
	if by != account {
		s.of[by]++
	}
	return true
}

func (s *streams) leave(by reach) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	account := reach{AccountID: by.AccountID}
	s.fewer(account)
	if by != account {
		s.fewer(by)
	}
}

func (s *streams) fewer(of reach) {
	if s.of[of]--; s.of[of] == 0 {
		delete(s.of, of)
	}
}

// EndStreams ends all streams of changes, for http.Server.RegisterOnShutdown.
func (x *Console) EndStreams() { x.streams.end() }

// shown returns a digest of the API's last answer.
func (v *visit) shown() string {
	sum := sha256.Sum256(v.backend.last)
	return hex.EncodeToString(sum[:12])
}

// streaming returns the handler of a stream of server-sent events, which reports that a page is out
// of date. It does not say what changed: the page's script reloads the page. It asks the API every
// looks times LookEvery.
func (x *Console) streaming(read func(*visit) error, looks int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := x.visiting(w, r)
		if v == nil {
			return
		}
		by := reach{v.account, v.only}
		if !x.streams.enter(by) {
			w.WriteHeader(http.StatusNoContent) // a browser does not come again after it
			return
		}
		defer x.streams.leave(by)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no") // a proxy must pass it on at once
		if v.say("retry: 1000\n\n") == nil {
			x.follow(v, read, time.Duration(looks)*x.LookEvery)
		}
	})
}

// follow asks the API until the stream ends, and reports each changed answer.
func (x *Console) follow(v *visit, read func(*visit) error, every time.Duration) {
	ctx, cancel := context.WithTimeout(v.r.Context(), streamMax)
	defer cancel()
	defer context.AfterFunc(x.streams.ending, cancel)()
	v.r = v.r.WithContext(ctx)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := v.r.Header.Get("Last-Event-ID") // of the stream before
	if last == "" {
		last = v.r.URL.Query().Get("shown")
	}
	for x.Now().Unix() < v.session.EndsSec && read(v) == nil {
		if now := v.shown(); now != last {
			if v.say(fmt.Sprintf("id: %s\ndata: changed\n\n", now)) != nil {
				return
			}
			last = now
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// say writes a part of a stream and flushes it.
func (v *visit) say(text string) error {
	// #nosec G705 -- constants and hexadecimal digits, and no HTML
	if _, err := v.w.Write([]byte(text)); err != nil {
		return err
	}
	return http.NewResponseController(v.w).Flush()
}

// followEvents reads the first page of the list, with its filters.
func (x *Console) followEvents(v *visit) error {
	f := v.filters()
	var filter client.EventFilter
	if f.read(&filter); f.Wrong() {
		return errNoPage
	}
	_, err := v.api.ListEvents(v.r.Context(), filter, client.Page{Limit: listPage})
	return err
}

func (x *Console) followEvent(v *visit) error {
	_, err := v.api.GetEvent(v.r.Context(), v.r.PathValue("id"))
	return err
}
