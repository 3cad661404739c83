package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
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

// enter takes the places of a visit's stream.
func (x *Console) enter(v *visit) (func(), error) {
	leave, err := x.streams.Take(v.account, maxAccountStreams)
	if err != nil || v.only == "" {
		return leave, err
	}
	leaveOwn, err := x.narrowStreams.Take(v.only, maxEndpointStreams)
	if err != nil {
		leave()
		return nil, err
	}
	return func() { leaveOwn(); leave() }, nil
}

// EndStreams ends all streams of changes, for http.Server.RegisterOnShutdown.
func (x *Console) EndStreams() { x.endStreams() }

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
		leave, err := x.enter(v)
		if err != nil {
			w.WriteHeader(http.StatusNoContent) // a browser does not come again after it
			return
		}
		defer leave()
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
	defer context.AfterFunc(x.ending, cancel)()
	v.r = v.r.WithContext(ctx)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := v.r.Header.Get("Last-Event-ID") // from the previous stream
	if last == "" {
		last = v.r.URL.Query().Get("shown")
	}
	for x.Now().Unix() < v.session.EndsSec {
		now, ok := x.digestNow(v, read)
		if !ok {
			return
		}
		if now != last {
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

// digestNow returns a digest of the API's answer now, unless the session has ended. It counts as a
// page while it reads, and keeps no answer.
func (x *Console) digestNow(v *visit, read func(*visit) error) (digest string, ok bool) {
	leave, err := x.pages.enter(v.r.Context(), v.account)
	if err != nil {
		return "", false
	}
	defer leave()
	if ended, err := x.hasEnded(v.session); ended || err != nil || read(v) != nil {
		return "", false
	}
	digest = v.shown()
	v.backend.last = nil
	return digest, true
}

// say writes a part of a stream and flushes it.
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
