package receiver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
)

// toleranceSeconds is how far a timestamp may be from the receiver's clock.
const toleranceSeconds = 300

var (
	errTimestampForm = errors.New("Webhook-Timestamp is not 1 to 12 digits")
	errTimestampAge  = errors.New("Webhook-Timestamp is more than 300 seconds from this clock")
	errNoSecret      = errors.New("no secret is known yet")
	errSignature     = errors.New("no v1 value of Webhook-Signature fits the body")
)

// Sign is the specification's signature: lowercase hex of HMAC-SHA256 over
// "timestamp.body", keyed with the whole secret, prefix included.
func Sign(secret string, timestampSeconds int64, body []byte) string {
	return hex.EncodeToString(sum(secret, strconv.FormatInt(timestampSeconds, 10), body))
}

// Verify judges a webhook as the specification tells receivers to: the
// timestamp's form and age, then one v1 value that fits one of the secrets.
func Verify(header, timestamp string, body []byte, secrets []string, nowSeconds int64) error {
	at, err := parseTimestamp(timestamp)
	if err != nil {
		return err
	}
	if at-nowSeconds > toleranceSeconds || nowSeconds-at > toleranceSeconds {
		return errTimestampAge
	}
	if len(secrets) == 0 {
		return errNoSecret
	}
	given := signatures(header)
	for _, secret := range secrets {
		want := sum(secret, timestamp, body)
		for _, got := range given {
			// A value of another length does not match; equal lengths are
			// compared in constant time.
			if hmac.Equal(got, want) {
				return nil
			}
		}
	}
	return errSignature
}

// parseTimestamp takes ASCII digits alone: no sign, no space, no fraction.
func parseTimestamp(timestamp string) (int64, error) {
	if len(timestamp) < 1 || len(timestamp) > 12 || strings.Trim(timestamp, "0123456789") != "" {
		return 0, errTimestampForm
	}
	return strconv.ParseInt(timestamp, 10, 64)
}

// signatures returns the decoded v1 values of a header; others are passed over.
func signatures(header string) [][]byte {
	var values [][]byte
	for entry := range strings.SplitSeq(header, ",") {
		text, ok := strings.CutPrefix(strings.TrimSpace(entry), "v1=")
		if !ok {
			continue
		}
		if value, err := hex.DecodeString(text); err == nil {
			values = append(values, value)
		}
	}
	return values
}

// sum signs the timestamp as it was written: leading zeros count.
func sum(secret, timestamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return mac.Sum(nil)
}
