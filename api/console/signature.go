package console

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
)

// signedStart is how many bytes of the signed content are shown. The body is also shown separately.
const signedStart = 96

// signatureView shows step by step how a receiver verifies a signature, using headers that the
// server signed for the time when the event was created. It contains no secret. Users can compare
// the digest of the signed content with their own program's.
type signatureView struct {
	Timestamp string
	Start     string // start of the signed content
	Cut       bool   // Start is not all of it
	Bytes     int
	SHA256    string // digest of the signed content
	Entries   []signatureEntry
	Until     *moment // when receivers stop accepting it
	Tolerance string
}

type signatureEntry struct{ Text, Scheme, Key string }

func (x *Console) viewSignature(
	h *client.DeliveryHeaders, body, endpointID string,
) *signatureView {
	if h == nil {
		return nil
	}
	signed := h.Timestamp + "." + body
	sum := sha256.Sum256([]byte(signed))
	v := signatureView{
		Timestamp: h.Timestamp,
		Start:     signed,
		Bytes:     len(signed),
		SHA256:    hex.EncodeToString(sum[:]),
		Entries:   signatureEntries(h.Signature, endpointID),
		Tolerance: fmt.Sprintf("%d minutes", domain.SignatureToleranceSeconds/60),
	}
	if len(signed) > signedStart {
		v.Start, v.Cut = strings.ToValidUTF8(signed[:signedStart], ""), true
	}
	if seconds, err := strconv.ParseInt(h.Timestamp, 10, 64); err == nil {
		until := time.Unix(seconds+domain.SignatureToleranceSeconds, 0)
		v.Until = x.moment(&until)
	}
	return &v
}

// signatureEntries splits a Webhook-Signature header, as receivers do
// (docs/decisions/signatures.md).
func signatureEntries(header, endpointID string) (entries []signatureEntry) {
	secrets := map[string]int{}
	add := func(text, scheme string) {
		key := "the newest secret"
		switch {
		case scheme == "v1a":
			key = "the endpoint's key, at /.well-known/endpoints/" + endpointID + "/jwks.json"
		case secrets[scheme] > 0:
			key = "the previous secret, while both are valid"
		}
		secrets[scheme]++
		entries = append(entries, signatureEntry{Text: text, Scheme: scheme, Key: key})
	}
	for word := range strings.FieldsSeq(header) {
		if version, _, standard := strings.Cut(word, ","); standard &&
			(version == "v1" || version == "v1a") {
			add(word, version)
			continue
		}
		for own := range strings.SplitSeq(word, ",") {
			if own != "" {
				add(own, "v1=")
			}
		}
	}
	return entries
}
