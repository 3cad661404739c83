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

// toleranceSeconds is how far the time of signing may be from the clock, either way.
const toleranceSeconds = 300

// Errors of Verify. The first means a wrong clock, or a replayed request; the second another secret
// or a changed body; the third a bug in this program, which verified nothing.
var (
	ErrTimestamp = errors.New("Webhook-Timestamp is missing, malformed, or more than 300 seconds from the clock")
	ErrSignature = errors.New("no signature in Webhook-Signature matches the body and a secret")
	ErrSecret    = errors.New("a secret must be the endpoint's whole secret, which starts with whsec_")
)

// Verify checks that one of the secrets (whsec_…, whole) signed the body, byte for byte as it was
// received, within 300 seconds of now. Several secrets are for the time after a rotation. Invalid
// secrets are an error, because anyone can sign with an empty one.
func Verify(header http.Header, body []byte, secrets []string, now time.Time) error {
	if err := checkSecrets(secrets); err != nil {
		return err
	}
	timestamp := header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseUint(timestamp, 10, 63) // takes digits only, unlike ParseInt
	if err != nil || len(timestamp) > 12 {
		return ErrTimestamp
	}
	if d := now.Unix() - int64(seconds); d > toleranceSeconds || d < -toleranceSeconds {
		return ErrTimestamp
	}
	// A header that was sent twice says the same as one with a comma between.
	given := strings.Join(header.Values("Webhook-Signature"), ",")
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(timestamp + "."))
		mac.Write(body)
		expected := mac.Sum(nil)
		for entry := range strings.SplitSeq(given, ",") {
			// There may be entries of other kinds: they are skipped.
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
