package domain

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// SecretPrefix is the prefix of signing secrets. It is part of the key.
const SecretPrefix = "whsec_"

// SignatureToleranceSeconds is the maximum difference between a delivery's timestamp and the
// receiver's clock, in both directions.
const SignatureToleranceSeconds = 300

// Errors returned by [Verify].
var (
	ErrTimestampSyntax = errors.New("the timestamp is not 1 to 12 digits")
	ErrTimestampTooFar = fmt.Errorf("the timestamp is more than %d seconds from the clock",
		SignatureToleranceSeconds)
	ErrSignatureMismatch = errors.New("no signature matches")
)

// Sign returns a signature in lowercase hex: the HMAC-SHA256, keyed with the complete secret, of
// the timestamp, a period and the body (specification, "Signature").
func Sign(secret Secret, timestampSeconds int64, body []byte) string {
	return hex.EncodeToString(mac(secret, strconv.FormatInt(timestampSeconds, 10), body))
}

// SignatureHeader returns the value of Webhook-Signature, with one entry per secret.
func SignatureHeader(secrets []Secret, timestampSeconds int64, body []byte) string {
	entries := make([]string, len(secrets))
	for i, s := range secrets {
		entries[i] = "v1=" + Sign(s, timestampSeconds, body)
	}
	return strings.Join(entries, ",")
}

// SignatureHeader returns the value of Webhook-Signature for an attempt at the given time,
// including the additional signatures that the endpoint has enabled.
func (a Attempt) SignatureHeader(timestampSeconds int64) string {
	if a.Signatures == 0 {
		return SignatureHeader(a.Secrets, timestampSeconds, a.Body)
	}
	return a.joinedSignatures(timestampSeconds)
}

// Verify verifies a delivery as a receiver does (specification, "Signature", 1 to 3). timestamp is
// the text of the header, and body contains the bytes as received.
func Verify(header, timestamp string, body []byte, secrets []Secret, nowSeconds int64) error {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || len(timestamp) > 12 || !allDigits(timestamp) {
		return ErrTimestampSyntax
	}
	if d := nowSeconds - seconds; d > SignatureToleranceSeconds || d < -SignatureToleranceSeconds {
		return ErrTimestampTooFar
	}
	for _, secret := range secrets {
		if secret == "" {
			continue // everyone knows this key
		}
		want := mac(secret, timestamp, body)
		for entry := range strings.SplitSeq(header, ",") {
			value, ok := strings.CutPrefix(strings.TrimSpace(entry), "v1=")
			if !ok {
				continue
			}
			if got, err := hex.DecodeString(value); err == nil && hmac.Equal(got, want) {
				return nil
			}
		}
	}
	return ErrSignatureMismatch
}

func mac(secret Secret, timestamp string, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(timestamp))
	h.Write([]byte{'.'})
	h.Write(body)
	return h.Sum(nil)
}
