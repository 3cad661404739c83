package api

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// Limits of a list.
const (
	defaultPage    = 50
	maxPage        = 250
	cursorSumBytes = 16
	// pageBytesMax bounds the size of a page's objects. The first object may be larger.
	pageBytesMax = 1 << 20
)

// newListQuery parses the query of a list, including the parameters for paging.
func newListQuery(r *request, names ...string) *decode.Query {
	return decode.NewQuery(r.http.URL, append(names, "limit", "cursor")...)
}

func idParameter(q *decode.Query, name, prefix string) string {
	s := q.Text(name)
	if s != "" && !domain.IsID(prefix, s) {
		q.Fault(name, problem.FaultInvalidValue, "must be an id: "+prefix+" and 26 characters")
	}
	return s
}

// addressParameter reads an optional address. faultOf returns what is wrong with it.
func addressParameter(
	q *decode.Query, name string, faultOf func(string) (code, detail string),
) string {
	s := q.Text(name)
	if s == "" {
		return ""
	}
	if code, detail := faultOf(s); code != "" {
		q.Fault(name, code, detail)
	}
	return s
}

// A cursor is 8 bytes of milliseconds, a sum and an id, in base64. The sum covers the position, the
// account, the list and its filters. A list never shows another account's objects, whatever its
// cursor. The sum prevents the use of a cursor with other filters, which would silently omit
// objects.

// cursorSum authenticates a position for its list.
func (a *API) cursorSum(r *request, q *decode.Query, at readmodel.Position) []byte {
	mac := hmac.New(sha256.New, a.cursorKey[:])
	part := func(s string) { fmt.Fprintf(mac, "%d:%s", len(s), s) }
	part(r.route)
	part(r.caller.accountID)
	if r.subjectID != "" {
		part(r.subjectID) // a list below an object in the path
	}
	for _, name := range q.Names() {
		if name != "limit" && name != "cursor" {
			part(name)
			part(q.Get(name))
		}
	}
	part(strconv.FormatInt(at.CreatedAtMillis, 10))
	part(at.ID)
	return mac.Sum(nil)[:cursorSumBytes]
}

// page reads the position and the limit of a page, and reports the faults of all parameters.
func (a *API) page(r *request, q *decode.Query) (after *readmodel.Position, limit int, err error) {
	return a.pageWithin(r, q, defaultPage, maxPage)
}

// pageWithin is like page, for a list with other limits.
func (a *API) pageWithin(
	r *request, q *decode.Query, unlessGiven, most int,
) (after *readmodel.Position, limit int, err error) {
	limit = q.Count("limit", unlessGiven, most)
	if err := q.Err(); err != nil {
		return nil, 0, err
	}
	text := q.Get("cursor")
	if text == "" {
		return nil, limit, nil
	}
	after, ok := a.position(r, q, text)
	if !ok {
		return nil, 0, invalidCursor(problem.Fault{Parameter: "cursor"})
	}
	return after, limit, nil
}

// position returns the position in a cursor, and whether the cursor is valid for the list.
func (a *API) position(r *request, q *decode.Query, text string) (*readmodel.Position, bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err == nil && len(raw) > 8+cursorSumBytes {
		at := readmodel.Position{
			CreatedAtMillis: int64(binary.BigEndian.Uint64(raw)),
			ID:              string(raw[8+cursorSumBytes:]),
		}
		if hmac.Equal(raw[8:8+cursorSumBytes], a.cursorSum(r, q, at)) {
			return &at, true
		}
	}
	return nil, false
}

func invalidCursor(at problem.Fault) *problem.Problem {
	p := problem.New(problem.CodeInvalidCursor,
		"The cursor is not from this list with these filters. Start without a cursor, and send the "+
			"same filters with each nextCursor.")
	at.Code, at.Detail = problem.FaultInvalidValue, "is not from this list with these filters"
	p.Errors = []problem.Fault{at}
	return p
}

// list answers with a page, each object in the form of the API, and encodes one object at a time. A
// page ends after pageBytesMax, even if there are more objects: nextCursor then continues after its
// last one, whose position positionOf returns.
func list[T, V any](
	a *API, r *request, q *decode.Query, page []T, next *readmodel.Position,
	positionOf func(T) readmodel.Position, view func(T) (V, error),
) (reply, error) {
	return reply{stream: func(w *bufio.Writer) error {
		before, written := `{"data":[`, 0
		for i, object := range page {
			shown, err := view(object)
			if err != nil {
				return err
			}
			text, err := marshal(shown)
			if err != nil {
				return fmt.Errorf("encoding an answer: %w", err)
			}
			if written += len(text); i > 0 && written > pageBytesMax {
				next = pointer(positionOf(page[i-1]))
				break
			}
			_, _ = w.WriteString(before) // it keeps its first error
			_, _ = w.Write(text)
			before = ","
		}
		if len(page) == 0 {
			_, _ = w.WriteString(before)
		}
		_, _ = w.WriteString(`],"nextCursor":`)
		var cursor *string
		if next != nil {
			cursor = pointer(a.cursorText(r, q, *next))
		}
		_, _ = w.Write(append(encoded(cursor), '}'))
		return nil
	}}, nil
}

// cursorText returns the cursor for a position.
func (a *API) cursorText(r *request, q *decode.Query, at readmodel.Position) string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(at.CreatedAtMillis))
	raw = append(append(raw, a.cursorSum(r, q, at)...), at.ID...)
	return base64.RawURLEncoding.EncodeToString(raw)
}
