package decode

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lumenhook/lumenhook/api/problem"
)

const maxIdempotencyKeyBytes = 255

// IdempotencyKey returns the Idempotency-Key header, or "" if there is none.
func IdempotencyKey(h http.Header) (string, error) {
	values := h.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	if len(values) != 1 || len(key) == 0 || len(key) > maxIdempotencyKeyBytes || !Printable(key) {
		return "", problem.New(problem.CodeInvalidHeader,
			fmt.Sprintf("Idempotency-Key must be given once, as 1 to %d printable ASCII characters.",
				maxIdempotencyKeyBytes))
	}
	return key, nil
}

// Printable reports whether s consists only of printable ASCII characters.
func Printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

const maxIfMatchTags = 16

// Precondition is an If-Match condition: the object must have one of the revisions.
type Precondition struct {
	revisions []uint64 // empty: no condition
}

// ETag formats a revision as an ETag. A revision changes with an object's configuration, not with
// its counters.
func ETag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }

// IfMatch parses If-Match (RFC 9110, section 13.1.1). "*" means no condition, because operations on
// a missing object fail anyway.
func IfMatch(h http.Header) (Precondition, error) {
	var p Precondition
	values := h.Values("If-Match")
	text := strings.Join(values, ",")
	if len(values) == 0 || strings.TrimSpace(text) == "*" {
		return p, nil
	}
	for tag := range strings.SplitSeq(text, ",") {
		tag = strings.TrimSpace(tag)
		revision := NoRevision
		if number, ok := strings.CutPrefix(tag, `"`); ok && strings.HasSuffix(number, `"`) &&
			strings.Count(tag, `"`) == 2 {
			if n, err := strconv.ParseUint(strings.TrimSuffix(number, `"`), 10, 64); err == nil && n != 0 {
				revision = n
			}
		} else if !strings.HasPrefix(tag, `W/"`) || !strings.HasSuffix(tag, `"`) {
			return p, problem.New(problem.CodeInvalidHeader,
				`If-Match must be an ETag as it was answered, such as "7", quotes included.`)
		}
		if p.revisions = append(p.revisions, revision); len(p.revisions) > maxIfMatchTags {
			return p, problem.New(problem.CodeInvalidHeader,
				"If-Match names too many ETags: give the one of the object as it was read.")
		}
	}
	return p, nil
}

// NoRevision is a revision that no object has. It stands for unknown ETags, which match nothing.
const NoRevision = ^uint64(0)

// Given reports whether the request has a precondition.
func (p Precondition) Given() bool { return len(p.revisions) > 0 }

// Revision returns the revision that the object must have, given its current revision. 0 means any.
func (p Precondition) Revision(current uint64) uint64 {
	switch {
	case len(p.revisions) == 0:
		return 0
	case slices.Contains(p.revisions, current):
		return current
	}
	return p.revisions[0]
}
