package forward

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/lumenhook/lumenhook/internal/receiver"
)

// Received is a webhook as a line of JSON: the receiver's verdict, and everything that is needed
// to check the signature.
type Received struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Verified  bool   `json:"verified"`
	Duplicate bool   `json:"duplicate"`
	Reason    string `json:"reason"`

	Timestamp string `json:"timestamp"`
	Signature string `json:"signature"`
	Body      string `json:"body"`
	// BodyBase64 is the body if it is not UTF-8: a JSON string would change it.
	BodyBase64 []byte `json:"bodyBase64,omitempty"`
}

// writeReceived writes the line.
func writeReceived(out io.Writer, w receiver.Webhook) error {
	r := Received{
		ID:        w.ID,
		Type:      w.Type,
		Verified:  w.Verified,
		Duplicate: w.Duplicate,
		Reason:    w.Reason,
		Timestamp: w.Timestamp,
		Signature: w.Signature,
		Body:      string(w.Body),
	}
	if !utf8.Valid(w.Body) {
		r.Body, r.BodyBase64 = "", w.Body
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

var errNotReceived = errors.New("must be one line of `lumenhook devnet receiver " +
	"--json` or `events pull`, or a file of `fixtures record`: " +
	"`tail -n 1 FILE` gives the last line")

// ReadReceived reads one line.
func ReadReceived(line []byte) (r Received, err error) {
	if bytes.Count(bytes.TrimSpace(line), []byte("\n")) > 0 || json.Unmarshal(line, &r) != nil {
		return r, errNotReceived
	}
	if r.Signature == "" && len(r.RawBody()) == 0 { // JSON of something else
		return r, errNotReceived
	}
	return r, nil
}

// RawBody is the body exactly as it was received.
func (r Received) RawBody() []byte {
	if len(r.BodyBase64) > 0 {
		return r.BodyBase64
	}
	return []byte(r.Body)
}
