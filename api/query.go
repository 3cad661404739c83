package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
)

// Bounds of a list.
const (
	defaultPage    = 50
	maxPage        = 250
	maxQueryBytes  = 4096
	cursorSumBytes = 16
)

// query reads the parameters of a list and collects what is wrong with them.
type query struct {
	x      *exchange
	values url.Values
	faults []Fault
}

// newQuery takes the query apart. Every parameter is one of those named, and is
// given once.
func newQuery(x *exchange, names ...string) *query {
	return readQuery(x, append(names, "limit", "cursor"))
}

// readQuery takes the query of any operation apart.
func readQuery(x *exchange, names []string) *query {
	q := &query{x: x}
	raw := x.request.URL.RawQuery
	values, err := url.ParseQuery(raw)
	if err != nil || len(raw) > maxQueryBytes {
		q.fault("", faultSyntax,
			fmt.Sprintf("the query is not well-formed, or has more than %d bytes", maxQueryBytes))
		return q
	}
	q.values = values
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !slices.Contains(names, name):
			known := "there are none"
			if len(names) > 0 {
				known = "the parameters are " + strings.Join(names, ", ")
			}
			q.fault(name, faultUnknownParameter, "is not a parameter here; "+known)
		case len(values[name]) > 1:
			q.fault(name, faultDuplicate, "is given more than once")
		}
	}
	return q
}

func (q *query) fault(name, code, detail string) {
	if len(name) > maxPointerBytes {
		name = name[:maxPointerBytes]
	}
	if len(q.faults) < maxFaults {
		q.faults = append(q.faults, Fault{Parameter: redact(name), Code: code, Detail: detail})
	}
}

func (q *query) problem() *Problem {
	if len(q.faults) == 0 {
		return nil
	}
	p := newProblem(codeInvalidParameter, "Parameters of the query are not valid; errors names each.")
	for _, f := range q.faults {
		if f.Code == codeSecretKeyRefused {
			p = newProblem(codeSecretKeyRefused, p.Detail)
		}
	}
	p.Errors = q.faults
	return p
}

// text gives an optional parameter. One that is given says something.
func (q *query) text(name string) string {
	s := q.values.Get(name)
	if s == "" && q.values.Has(name) {
		q.fault(name, faultEmpty, "is empty: leave it out or give a value")
	}
	return s
}

// id reads an optional identifier.
func (q *query) id(name, prefix string) string {
	s := q.text(name)
	if s != "" && !domain.IsID(prefix, s) {
		q.fault(name, faultInvalidValue, "must be an id: "+prefix+" and 26 characters")
	}
	return s
}

// wallet reads an optional address.
func (q *query) wallet(name string) string {
	s := q.text(name)
	if s == "" {
		return ""
	}
	var f faults
	readAccount(s, "", &f)
	for _, fault := range f.list {
		q.fault(name, fault.Code, fault.Detail)
	}
	return s
}

// oneOf reads an optional word.
func oneOf[T ~string](q *query, name string, words ...T) T {
	s := T(q.text(name))
	if s != "" && !slices.Contains(words, s) {
		names := make([]string, len(words))
		for i, word := range words {
			names[i] = string(word)
		}
		q.fault(name, faultInvalidValue, "must be one of "+strings.Join(names, ", "))
	}
	return s
}

// time reads an optional time.
func (q *query) time(name string) int64 {
	s := q.text(name)
	if s == "" {
		return 0
	}
	millis, err := parseTime(s)
	if err != nil {
		q.fault(name, faultInvalidTime, err.Error())
	}
	return millis
}

func (q *query) limit() int {
	s := q.values.Get("limit")
	if s == "" && !q.values.Has("limit") {
		return defaultPage
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n < 1 || n > maxPage {
		q.fault("limit", faultOutOfRange, fmt.Sprintf("must be a number from 1 to %d", maxPage))
	}
	return int(n)
}

var errTime = errors.New("must be a time in ISO 8601 UTC, such as 2026-11-21T10:15:30.123Z, from " +
	"the year 1970 to 9999")

// timeForm is stricter than time.Parse, which takes an hour of one digit.
var timeForm = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}([.,]\d+)?(Z|[+-]00:00)$`)

// parseTime reads a time in UTC as Unix milliseconds; what is finer is cut off.
func parseTime(s string) (int64, error) {
	at, err := time.Parse(time.RFC3339Nano, s)
	if !timeForm.MatchString(s) || err != nil || at.Year() > 9999 || at.UnixMilli() < 0 {
		return 0, errTime
	}
	return at.UnixMilli(), nil
}

// A cursor is a position and a sum over it, the account, the list and its
// filters, in base64: 8 bytes of milliseconds, the sum, the id. A list gives
// nothing of another account whatever its cursor says; the sum keeps a cursor
// from being used with other filters than its own, where it would silently
// leave things out.

// cursorSum binds a position to its list.
func (a *API) cursorSum(x *exchange, q *query, at Position) []byte {
	mac := hmac.New(sha256.New, a.cursorKey[:])
	part := func(s string) { fmt.Fprintf(mac, "%d:%s", len(s), s) }
	part(x.route)
	part(x.caller.accountID)
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		if name != "limit" && name != "cursor" && q.values.Get(name) != "" {
			part(name)
			part(q.values.Get(name))
		}
	}
	part(strconv.FormatInt(at.CreatedAtMillis, 10))
	part(at.ID)
	return mac.Sum(nil)[:cursorSumBytes]
}

// page reads where a list goes on and how much of it is asked for, after all
// other parameters.
func (a *API) page(x *exchange, q *query) (after *Position, limit int, problem *Problem) {
	limit = q.limit()
	if problem := q.problem(); problem != nil {
		return nil, 0, problem
	}
	text := q.values.Get("cursor")
	if text == "" {
		return nil, limit, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err == nil && len(raw) > 8+cursorSumBytes {
		at := Position{
			CreatedAtMillis: int64(binary.BigEndian.Uint64(raw)),
			ID:              string(raw[8+cursorSumBytes:]),
		}
		if hmac.Equal(raw[8:8+cursorSumBytes], a.cursorSum(x, q, at)) {
			return &at, limit, nil
		}
	}
	p := newProblem(codeInvalidCursor,
		"The cursor was not given by this list with these filters. Begin without a cursor, and repeat "+
			"the same filters with the cursor that is answered.")
	p.Errors = []Fault{{
		Parameter: "cursor",
		Code:      faultInvalidValue,
		Detail:    "was not given by this list with these filters",
	}}
	return nil, 0, p
}

// listView is a page of a list.
type listView[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"nextCursor"`
}

// listReply answers with a page.
func listReply[T any](a *API, x *exchange, q *query, data []T, next *Position) (reply, *Problem) {
	v := listView[T]{Data: data}
	if next != nil {
		raw := binary.BigEndian.AppendUint64(nil, uint64(next.CreatedAtMillis))
		raw = append(append(raw, a.cursorSum(x, q, *next)...), next.ID...)
		text := base64.RawURLEncoding.EncodeToString(raw)
		v.NextCursor = &text
	}
	return jsonReply(200, v)
}
