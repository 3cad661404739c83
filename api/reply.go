package api

import (
	"bufio"
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
	view        any    // is encoded as the body
	body        []byte // if there is no view
	// stream, if set, writes the body, so that a large one is never in memory as a whole.
	stream func(*bufio.Writer) error
}

// streamBytes is how much of a stream write buffers. A client gets a problem if the stream fails
// before that.
const streamBytes = 32 << 10

// encode writes the view into the body.
func (answer *reply) encode() (err error) {
	if answer.view == nil {
		return nil
	}
	if answer.body, err = marshal(answer.view); err != nil {
		return fmt.Errorf("encoding an answer: %w", err)
	}
	return nil
}

// write sends the answer. If its stream fails, the client may have a part.
func (answer reply) write(w *recorder) error {
	h := w.Header()
	h.Set("Content-Type", cmp.Or(answer.contentType, "application/json"))
	answer.status = cmp.Or(answer.status, http.StatusOK)
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
	if answer.stream != nil {
		out := bufio.NewWriterSize(w, streamBytes)
		if err := answer.stream(out); err != nil {
			return err
		}
		if w.status == 0 { // all of it is in the buffer
			h.Set("Content-Length", strconv.Itoa(out.Buffered()))
		}
		_ = out.Flush() // the client may be gone
		return nil
	}
	h.Set("Content-Length", strconv.Itoa(len(answer.body)))
	if len(answer.body) == 0 {
		h.Del("Content-Type")
	}
	if answer.status == http.StatusNoContent {
		h.Del("Content-Length")
	}
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body) // the client may be gone: the error concerns nobody
	return nil
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
