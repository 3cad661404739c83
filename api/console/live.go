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
	// lookEvery is how often a stream reads from the API. streamMax is how long a stream lasts: less
	// than the server's write timeout. Browsers then reconnect.
	lookEvery = 2 * time.Second
	streamMax = 25 * time.Second
	// Limits per node. A browser has one stream per visible page. Links to one endpoint have a
	// separate limit, so that one merchant cannot use up all streams of a shared account.
	maxStreams         = 256
	maxAccountStreams  = 16
	maxEndpointStreams = 4
)

type streams struct {
	ending context.Context // cancelled when the server stops
	end    context.CancelFunc

	mu  sync.Mutex
	all int
	of  map[reach]int // per account, and per endpoint for links to one
}

func newStreams() *streams {
	s := &streams{of: make(map[reach]int)}
	s.ending, s.end = context.WithCancel(context.Background())
	return s
}

// enter reserves a stream, and reports whether there was room.
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

// EndStreams ends all streams. It is for http.Server.RegisterOnShutdown.
func (x *Console) EndStreams() { x.streams.end() }

// shown returns a digest of the API's last response.
func (v *visit) shown() string {
	sum := sha256.Sum256(v.backend.last)
	return hex.EncodeToString(sum[:12])
}

// streaming returns the handler of a server-sent event stream, which reports when a page is out of
// date. It doesn't send the changes: the page's script reloads the page. It reads from the API
// every looks times LookEvery.
func (x *Console) streaming(read func(*visit) error, looks int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := x.visiting(w, r)
		if v == nil {
			return
		}
		by := reach{v.account, v.only}
		if !x.streams.enter(by) {
			w.WriteHeader(http.StatusNoContent) // a browser doesn't reconnect after this status
			return
		}
		defer x.streams.leave(by)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no") // a proxy must not buffer the stream
		if v.say("retry: 1000\n\n") == nil {
			x.follow(v, read, time.Duration(looks)*x.LookEvery)
		}
	})
}

// follow reads from the API until the stream ends, and reports each changed response.
func (x *Console) follow(v *visit, read func(*visit) error, every time.Duration) {
	ctx, cancel := context.WithTimeout(v.r.Context(), streamMax)
	defer cancel()
	defer context.AfterFunc(x.streams.ending, cancel)()
	v.r = v.r.WithContext(ctx)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := v.r.Header.Get("Last-Event-ID") // from the previous stream
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

func (v *visit) say(text string) error {
	// #nosec G705 -- constants and hexadecimal digits, and no HTML
	if _, err := v.w.Write([]byte(text)); err != nil {
		return err
	}
	return http.NewResponseController(v.w).Flush()
}

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
