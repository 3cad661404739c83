package receiver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// toleranceSeconds is the maximum difference between the timestamp and the clock, in both
// directions.
const toleranceSeconds = 300

// Errors of Verify. ErrTimestamp means a wrong clock or a replayed request, ErrSignature another
// secret or a changed body. ErrSecret means a bug in this program; nothing was verified.
var (
	ErrTimestamp = errors.New("Webhook-Timestamp is missing, malformed, or more than 300 seconds from the clock")
	ErrSignature = errors.New("no signature in Webhook-Signature matches the body and a secret")
	ErrSecret    = errors.New("a secret must be the endpoint's complete secret, starting with whsec_")
)

// Verify checks that one of the secrets (whsec_…) signed the body, byte for byte as received,
// within 300 seconds of now. Pass several secrets after a rotation. An invalid secret is an error,
// because anyone can sign with an empty one.
func Verify(header http.Header, body []byte, secrets []string, now time.Time) error {
	if err := checkSecrets(secrets); err != nil {
		return err
	}
	timestamp := header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseUint(timestamp, 10, 63) // accepts only digits, unlike ParseInt
	if err != nil || len(timestamp) > 12 {
		return ErrTimestamp
	}
	if d := now.Unix() - int64(seconds); d > toleranceSeconds || d < -toleranceSeconds {
		return ErrTimestamp
	}
	// A repeated header means the same as a single header with a comma.
	given := strings.Join(header.Values("Webhook-Signature"), ",")
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(timestamp + "."))
		mac.Write(body)
		expected := mac.Sum(nil)
		for entry := range strings.SplitSeq(given, ",") {
			// Skip signatures of other kinds.
			text, isV1 := strings.CutPrefix(strings.TrimSpace(entry), "v1=")
			if !isV1 {
				continue
			}
			if signature, err := hex.DecodeString(text); err == nil && hmac.Equal(signature, expected) {
				return nil
			}
		}
	}
	return ErrSignature
}
