package api

import lru "github.com/hashicorp/golang-lru/v2"

// maxRemembered bounds how many of its own answers a node remembers.
const maxRemembered = 16_384

// warnings remembers the warnings with which this node answered writes that may be
// repeated: a repeat through it gets the same warnings, and is not checked against state
// that has changed since.
type warnings struct {
	byCommand *lru.Cache[string, []string]
}

func newWarnings() *warnings { return &warnings{newCache[[]string](maxRemembered)} }

// settle returns the warnings to answer with: those of the first answer, if this node gave
// it.
func (w *warnings) settle(r *request, replayed bool, found []string) []string {
	if found == nil {
		found = []string{} // an empty list instead of null
	}
	if r.idempotencyKey == "" {
		return found
	}
	if first, known := w.byCommand.Get(r.commandID); known && replayed {
		return first
	}
	w.byCommand.Add(r.commandID, found)
	return found
}

// answered reports whether this node remembers that it answered the request before.
func (w *warnings) answered(r *request) bool {
	return r.idempotencyKey != "" && w.byCommand.Contains(r.commandID)
}

// repeatsCreation reports whether a creation was answered before, as far as this node
// knows: then what has changed since is no fault of it. The engine decides, and creates
// nothing twice.
func (a *API) repeatsCreation(r *request, made func() (bool, error)) bool {
	if r.idempotencyKey == "" || r.caller.endpointID != "" { // what such a link names is judged anew
		return false
	}
	if a.warnings.answered(r) {
		return true
	}
	found, err := made()
	return err == nil && found
}

// mayRepeatChange reports whether a change may have been answered before: this node
// remembers it, or its object is gone and only the engine knows.
func (a *API) mayRepeatChange(r *request) bool {
	return r.missing != "" || a.warnings.answered(r)
}
