package engine

import (
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/store"
)

type inFlight struct {
	perEndpoint int
	byEvent     map[string]begun
	windows     map[string]*window
	probing     int // attempts in flight to probing endpoints
	blocking    int // windows with blocked groups
	// Until uncountedMillis, attempts may have begun that no window counts: before the task began, or
	// before a window was dropped.
	uncountedMillis int64
}

type begun struct {
	claim    store.Claimed
	number   int
	endpoint string
	probing  bool
}

// rememberedWindows bounds the windows that are kept for endpoints without attempts in flight.
const rememberedWindows = 16_384

func newInFlight(perEndpoint int) *inFlight {
	return &inFlight{
		perEndpoint: perEndpoint,
		byEvent:     make(map[string]begun),
		windows:     make(map[string]*window),
	}
}

func (f *inFlight) len() int { return len(f.byEvent) }

func (f *inFlight) has(eventID string) bool {
	_, is := f.byEvent[eventID]
	return is
}

func (f *inFlight) window(endpointID string) *window {
	w := f.windows[endpointID]
	if w == nil {
		w = newWindow(f.perEndpoint, f.uncountedMillis)
		f.windows[endpointID] = w
	}
	return w
}

func (f *inFlight) begin(
	claim store.Claimed, a domain.Attempt, nowMillis int64, limited bool,
) {
	w := f.window(a.EndpointID)
	w.begin(nowMillis, limited)
	if w.probing {
		f.probing++
	}
	f.byEvent[a.EventID] = begun{
		claim:    claim,
		number:   a.Number,
		endpoint: a.EndpointID,
		probing:  w.probing,
	}
}

func (f *inFlight) block(w *window, group string) {
	if len(w.blocked) == 0 {
		f.blocking++
	}
	w.block(group)
}

// end removes an attempt, if it is in flight. It returns its claim and the groups to unblock.
func (f *inFlight) end(
	o Outcome, nowMillis int64,
) (claim store.Claimed, unblocked []string, was bool) {
	attempt, ok := f.byEvent[o.Attempt.EventID]
	if !ok || attempt.number != o.Attempt.Number {
		return claim, nil, false
	}
	delete(f.byEvent, o.Attempt.EventID)
	if attempt.probing {
		f.probing--
	}
	w := f.window(attempt.endpoint)
	w.end(o.Result)
	if len(w.blocked) > 0 {
		f.blocking--
	}
	unblocked, w.blocked = w.blocked, nil
	if w.inFlight == 0 && len(f.windows) > rememberedWindows {
		delete(f.windows, attempt.endpoint)
		f.uncountedMillis = nowMillis
	}
	return attempt.claim, unblocked, true
}
