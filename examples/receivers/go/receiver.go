package receiver

import (
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"
)

// maxBodyBytes bounds a body. Events are smaller than 4 KB.
const maxBodyBytes = 64 << 10

// Receiver is the HTTP handler for webhooks. It responds with 200 if the event is recorded now or
// was recorded before, with 503 if it could not be recorded, so that the service retries, and with
// 4xx if the request is not a webhook of the service.
type Receiver struct {
	secrets *Secrets
	inbox   *Inbox
}

// New returns a handler that records an endpoint's webhooks in the inbox.
func New(secrets *Secrets, inbox *Inbox) *Receiver {
	return &Receiver{secrets, inbox}
}

// ServeHTTP implements [http.Handler].
func (rc *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, says := rc.receive(w, r)
	if status != http.StatusOK {
		slog.Warn("rejected a webhook", "status", status, "because", says)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, says+"\n") // the client may be gone
}

func (rc *Receiver) receive(w http.ResponseWriter, r *http.Request) (status int, says string) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return http.StatusMethodNotAllowed, "a webhook is a POST"
	}
	if !isPlainJSON(r.Header) {
		return http.StatusUnsupportedMediaType, "a webhook is application/json in UTF-8, not compressed"
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge, "the body is too large"
	}
	if err != nil {
		return http.StatusBadRequest, "the body could not be read"
	}
	now := time.Now()
	if err := Verify(r.Header, body, rc.secrets.Current(now), now); err != nil {
		if r.ContentLength > int64(len(body)) { // something else has already read the rest
			return http.StatusInternalServerError,
				"the body must be the raw bytes of the request; something has parsed it already"
		}
		return http.StatusUnauthorized, err.Error()
	}
	event, err := ParseEvent(body)
	if err != nil {
		return http.StatusBadRequest, err.Error()
	}
	// The body is signed, but this header is not. Anyone with a recorded webhook could send it
	// again under other ids.
	if r.Header.Get("Webhook-Id") != event.ID {
		return http.StatusBadRequest, "Webhook-Id differs from the id in the body"
	}
	isNew, err := rc.inbox.Record(r.Context(), event.ID, body)
	if err != nil {
		slog.Error("an event could not be recorded", "error", err)
		return http.StatusServiceUnavailable, "the event could not be recorded; send it again"
	}
	if !isNew {
		return http.StatusOK, "recorded before"
	}
	return http.StatusOK, "recorded"
}

// isPlainJSON reports whether the body is uncompressed JSON in UTF-8.
func isPlainJSON(header http.Header) bool {
	kind, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	charset, hasCharset := parameters["charset"]
	encoding := header.Get("Content-Encoding")
	return err == nil && kind == "application/json" &&
		(!hasCharset || strings.EqualFold(charset, "utf-8")) &&
		(encoding == "" || strings.EqualFold(encoding, "identity"))
}
