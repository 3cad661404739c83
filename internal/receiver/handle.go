package receiver

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/lumenhook/lumenhook/domain"
)

// maxIDBytes bounds a Webhook-Id; ours have 30.
const maxIDBytes = 128

// verdict is the result of checking a request.
type verdict struct {
	status  int
	webhook Webhook
}

func (r *Receiver) handle(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBodyBytes))
	if err != nil {
		status := http.StatusBadRequest
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		answer(w, status, "the body could not be read whole: at most 1 MiB is accepted")
		return
	}
	v := r.judge(req.Header, body)
	if !r.handOn(v.webhook) {
		answer(w, http.StatusServiceUnavailable, "the receiver is stopping")
		return
	}
	answer(w, v.status, v.webhook.Reason)
}

// judge follows the specification's order: signature over the raw bytes, then whether the
// id was seen, and only then the content of the body.
func (r *Receiver) judge(header http.Header, body []byte) verdict {
	id := header.Get("Webhook-Id")
	signature := strings.Join(header.Values("Webhook-Signature"), ",")
	w := Webhook{Timestamp: header.Get("Webhook-Timestamp"), Signature: signature, Body: body}
	refuse := func(status int, reason string) verdict {
		w.ID, w.Reason = printable(id), reason
		return verdict{status, w}
	}
	if id == "" || len(id) > maxIDBytes {
		return refuse(http.StatusBadRequest, "Webhook-Id is missing or over 128 bytes")
	}
	err := domain.Verify(signature, w.Timestamp, body, r.cfg.Secrets(), r.cfg.Now().Unix())
	switch {
	case errors.Is(err, domain.ErrTimestampSyntax):
		return refuse(http.StatusBadRequest, err.Error())
	case err != nil:
		return refuse(http.StatusUnauthorized, err.Error())
	}
	var event struct{ ID, Type string }
	if err := json.Unmarshal(body, &event); err != nil {
		return refuse(http.StatusBadRequest, "the body is signed but is no JSON object")
	}
	if event.ID != id {
		return refuse(http.StatusBadRequest, "Webhook-Id is not the id of the body")
	}
	w.ID, w.Type, w.Verified = id, event.Type, true
	w.Duplicate, _ = r.seen.ContainsOrAdd(id, struct{}{})
	return verdict{http.StatusOK, w}
}

func answer(w http.ResponseWriter, status int, reason string) {
	if reason == "" {
		reason = "ok"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, reason+"\n")
}

// printable makes an unverified id safe for a terminal and short.
func printable(id string) string {
	id = strings.Map(func(c rune) rune {
		if c > ' ' && c < 0x7f {
			return c
		}
		return '?'
	}, id)
	return id[:min(len(id), maxIDBytes)]
}
