package decode

import (
	"fmt"
	"net/http"

	"github.com/lumenhook/lumenhook/api/problem"
)

const maxIdempotencyKeyBytes = 255

// IdempotencyKey reads the header of that name; empty if there is none.
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
