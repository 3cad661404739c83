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

// IdempotencyKey reads the header of that name; empty without one.
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

// Printable reports whether a text consists of printable ASCII characters only.
func Printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

const maxIfMatchTags = 16

// Precondition is the condition of If-Match: the object has one of these revisions.
type Precondition struct {
	revisions []uint64 // none: no check
}

// ETag formats a revision as an ETag. It changes with what a client configures, not with
// counters.
func ETag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }

// IfMatch parses If-Match (RFC 9110, section 13.1.1). "*" is no condition: the object
// exists or is not found anyway.
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

// NoRevision is a revision that no object has: a foreign tag matches nothing.
const NoRevision = ^uint64(0)

// Given reports whether there is a condition.
func (p Precondition) Given() bool { return len(p.revisions) > 0 }

// Revision returns the revision that an object must have, given its current one; 0: any.
func (p Precondition) Revision(current uint64) uint64 {
	switch {
	case len(p.revisions) == 0:
		return 0
	case slices.Contains(p.revisions, current):
		return current
	}
	return p.revisions[0]
}
