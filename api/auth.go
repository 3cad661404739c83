package api

import (
	"crypto/subtle"
	"fmt"
	"strings"

	"github.com/lumenhook/lumenhook/domain"
)

// caller is whose key a request carries.
type caller struct {
	accountID string
	keyID     string
}

// directoryRetrySeconds is after how long a node that was behind may be asked
// again.
const directoryRetrySeconds = 1

// authenticate lets a request in whose key carries the permission. A key that is
// mistyped, unknown or revoked gets one and the same answer.
func (a *API) authenticate(x *exchange, needed domain.Permission) *Problem {
	key, ok := bearerKey(x.request.Header.Values("Authorization"))
	if !ok || !domain.WellFormedAPIKey(key) {
		return unauthenticated()
	}
	if err := a.Directory.Fresh(); err != nil {
		return newProblem(codeDirectoryBehind, "This node has not confirmed the newest keys and endpoints. Repeat the request after the time in Retry-After.").retryAfter(directoryRetrySeconds).because(err)
	}
	hash := domain.APIKeyHash(key)
	found, accountID, known, err := a.Directory.KeyByHash(hash)
	if err != nil {
		return internal(fmt.Errorf("looking up an API key: %w", err))
	}
	if !known || subtle.ConstantTimeCompare(found.Hash, hash) != 1 {
		return unauthenticated()
	}
	x.caller = caller{accountID: accountID, keyID: found.ID}
	if !found.Allows(needed) {
		return newProblem(codeMissingPermission, fmt.Sprintf("The API key lacks the permission %q. Use a key that has it.", needed))
	}
	return nil
}

func unauthenticated() *Problem {
	return newProblem(codeUnauthenticated, "Send a valid API key in the header Authorization: Bearer <API_KEY>.")
}

func bearerKey(headers []string) (string, bool) {
	if len(headers) != 1 {
		return "", false
	}
	scheme, key, ok := strings.Cut(headers[0], " ")
	return strings.TrimSpace(key), ok && strings.EqualFold(scheme, "Bearer")
}
