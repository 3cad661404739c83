package api

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/lumenhook/lumenhook/domain"
)

type reply struct {
	status      int    // 0: 200
	contentType string // empty: application/json
	location    string
	etag        string
	caching     string // Cache-Control; empty: no-store
	link        string // URL of the next page, if the body has no cursor
	policy      string // Content-Security-Policy; empty: nothing is allowed
	replayed    bool
	view        any    // encoded as the body
	body        []byte // used if there is no view
}

func (answer *reply) encode() (err error) {
	if answer.view == nil {
		return nil
	}
	if answer.body, err = marshal(answer.view); err != nil {
		return fmt.Errorf("encoding an answer: %w", err)
	}
	return nil
}

func (answer reply) write(w http.ResponseWriter) {
	h := w.Header()
	answer.status = cmp.Or(answer.status, http.StatusOK)
	h.Set("Content-Type", cmp.Or(answer.contentType, "application/json"))
	h.Set("Content-Length", strconv.Itoa(len(answer.body)))
	for _, one := range [][2]string{
		{"Location", answer.location}, {"Link", answer.link}, {headerETag, answer.etag},
		{"Cache-Control", answer.caching}, {"Content-Security-Policy", answer.policy},
	} {
		if one[1] != "" {
			h.Set(one[0], one[1])
		}
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
	_, _ = w.Write(answer.body) // the client may be gone
}

// unlessZero returns nil for the zero value, which the API shows as null.
func unlessZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// wire is the encoding of responses. Times have milliseconds.
var wire = json.JoinOptions(json.Deterministic(true), jsontext.PreserveRawStrings(true),
	json.WithMarshalers(json.MarshalFunc(func(t time.Time) ([]byte, error) {
		return jsontext.AppendQuote(nil, domain.FormatMillis(t.UnixMilli()))
	})))

func marshal(view any) (jsontext.Value, error) { return json.Marshal(view, wire) }

func encoded(view any) jsontext.Value {
	text, err := marshal(view)
	if err != nil {
		panic(fmt.Sprintf("api: a view of %T is not JSON: %v", view, err))
	}
	return text
}

// nullable returns nil for an empty string, which the API shows as null.
func nullable[T ~string](v T) *string { return unlessZero(string(v)) }

func texts[T ~string](all []T) []string {
	list := make([]string, len(all))
	for i, one := range all {
		list[i] = string(one)
	}
	return list
}

// signed converts a count or an event's number.
func signed(n uint64) int64 { return int64(n) } // #nosec G115 -- counts by one

func at(millis int64) time.Time { return time.UnixMilli(millis).UTC() }

// instant returns nil for 0, which the API shows as null.
func instant(millis int64) *time.Time {
	if millis == 0 {
		return nil
	}
	return pointer(at(millis))
}

func pointer[T any](v T) *T { return &v }
