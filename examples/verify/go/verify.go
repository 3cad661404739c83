package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// verify checks v1 with the endpoint's secret, whsec_….
func verify(secret string, body []byte, header http.Header) error {
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	return webhook.Verify(body, header)
}

// verifyPublicly checks v1a with the x of each key of your endpoint, which are at
// /.well-known/endpoints/ENDPOINT_ID/jwks.json.
func verifyPublicly(keys []string, body []byte, header http.Header) error {
	sent := header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return errors.New("the timestamp is too far from the clock")
	}
	message := header.Get("Webhook-Id") + "." + sent + "." + string(body)
	for entry := range strings.SplitSeq(header.Get("Webhook-Signature"), " ") {
		text, found := strings.CutPrefix(entry, "v1a,")
		signature, err := base64.StdEncoding.DecodeString(text)
		if !found || err != nil {
			continue
		}
		for _, x := range keys {
			key, err := base64.RawURLEncoding.DecodeString(x)
			if err == nil && len(key) == ed25519.PublicKeySize &&
				ed25519.Verify(key, []byte(message), signature) {
				return nil
			}
		}
	}
	return errors.New("no signature matches")
}
