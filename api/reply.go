package api

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/lumenhook/lumenhook/domain"
)

// reply is a successful answer.
type reply struct {
	status      int    // 0: 200
	contentType string // empty: application/json
	location    string
	etag        string
	caching     string // Cache-Control; empty: no-store
	link        string // of the next page, where the body has no cursor
	policy      string // Content-Security-Policy; empty: nothing is allowed
	replayed    bool
	view        any    // is encoded as the body
	body        []byte // if there is no view
}

// encode writes the view into the body.
func (answer *reply) encode() (err error) {
	if answer.view == nil {
		return nil
	}
	answer.body, err = json.Marshal(answer.view, json.Deterministic(true),
		jsontext.PreserveRawStrings(true))
	if err != nil {
		return fmt.Errorf("encoding an answer: %w", err)
	}
	return nil
}

func (answer reply) write(w http.ResponseWriter) {
	h := w.Header()
	answer.status = cmp.Or(answer.status, http.StatusOK)
	h.Set("Content-Type", cmp.Or(answer.contentType, "application/json"))
	h.Set("Content-Length", strconv.Itoa(len(answer.body)))
	if answer.location != "" {
		h.Set("Location", answer.location)
	}
	if answer.link != "" {
		h.Set("Link", answer.link)
	}
	if answer.etag != "" {
		h.Set(headerETag, answer.etag)
	}
	if answer.caching != "" {
		h.Set("Cache-Control", answer.caching)
	}
	if answer.policy != "" {
		h.Set("Content-Security-Policy", answer.policy)
	}
	if answer.replayed {
		h.Set(headerReplayed, "true")
	}
	if len(answer.body) == 0 {
		h.Del("Content-Type")
	}
	if answer.status == http.StatusNoContent {
		h.Del("Content-Length")
	}
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body) // the client may be gone: the error concerns nobody
}

// unlessZero returns nil for the zero value, which the API shows as null.
func unlessZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// instant formats a time; 0: null.
func instant(millis int64) *string {
	if millis == 0 {
		return nil
	}
	return pointer(domain.FormatMillis(millis))
}

func pointer[T any](v T) *T { return &v }
