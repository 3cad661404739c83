package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"
	"github.com/stellar/go-stellar-sdk/strkey"

	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// Response headers.
const (
	headerRequestID = "X-Request-Id"
	headerReplayed  = "Idempotent-Replayed"
	headerETag      = "Etag" // canonical form, which net/http does not copy
)

// ServeHTTP handles a request and logs one line about it.
func (a *API) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	began := a.Now()
	r := &request{id: a.requestID(hr), traceID: traceID(hr.Header), route: "none", done: func() {}}
	r.http = hr.WithContext(context.WithValue(hr.Context(), requestKey{}, r))
	out := &recorder{ResponseWriter: w}
	setCommonHeaders(out.Header(), r.id)
	defer func() {
		cut := false
		if cause := recover(); cause != nil {
			cut = a.answerPanic(out, r, cause)
		}
		took := a.Now().Sub(began)
		a.logLine(out, r, took)
		if a.Answered != nil {
			a.Answered(r.route, knownMethod(hr.Method), out.status, took)
		}
		if cut {
			panic(http.ErrAbortHandler) // http.Server then closes the connection
		}
	}()
	a.router.ServeHTTP(out, r.http)
}

// commonHeaders are in every response. Responses share the values: Set replaces them and Add copies
// them.
var commonHeaders = http.Header{
	"X-Content-Type-Options":  {"nosniff"},
	"Cache-Control":           {"no-store"},
	"Referrer-Policy":         {"no-referrer"},
	"Content-Security-Policy": {"default-src 'none'; frame-ancestors 'none'"},
}

func setCommonHeaders(h http.Header, requestID string) {
	h.Set(headerRequestID, requestID)
	maps.Copy(h, commonHeaders)
}

// saneRequestID matches client request ids that are safe in headers, logs and JSON.
var saneRequestID = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// requestID returns the client's id, so that its logs and ours can be correlated, or a new one.
func (a *API) requestID(r *http.Request) string {
	id := r.Header.Get(headerRequestID)
	if id != "" && saneRequestID.MatchString(id) && !holdsSecret(id) {
		return id
	}
	var entropy [16]byte
	if _, err := io.ReadFull(a.Entropy, entropy[:]); err != nil {
		return "req_none"
	}
	return domain.NewID("req_", entropy)
}

// traceParent matches the header of W3C Trace Context: version, trace, parent, flags.
var traceParent = regexp.MustCompile(
	`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.{0,64})?$`)

// traceID returns the id of the request's trace for the log, or "" if there is none.
func traceID(h http.Header) string {
	if found := traceParent.FindStringSubmatch(h.Get("traceparent")); found != nil {
		return found[1]
	}
	return ""
}

func (a *API) refuse(w http.ResponseWriter, r *request, p *problem.Problem) {
	r.problem = p
	p.RequestID = r.id
	p.Detail = redact(p.Detail)
	for i := range p.Errors {
		f := &p.Errors[i]
		f.Pointer, f.Parameter, f.Detail = redact(f.Pointer), redact(f.Parameter), redact(f.Detail)
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="lumenhook"`)
	}
	if p.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfterSeconds))
	}
	_ = reply{
		status:      p.Status,
		contentType: problem.ContentType,
		replayed:    p.Replayed,
		body:        p.JSON(),
	}.write(w.(*recorder)) // it has no stream that could fail
}

func (a *API) refusing(why func(http.ResponseWriter, *http.Request) *problem.Problem) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.refuse(w, requestOf(r), why(w, r))
	})
}

func (a *API) notFound(http.ResponseWriter, *http.Request) *problem.Problem {
	return problem.New(problem.CodeNotFound,
		"There is nothing at this path. GET /docs describes what there is, for programs "+
			"/v1/openapi.json.")
}

func (a *API) methodNotAllowed(w http.ResponseWriter, r *http.Request) *problem.Problem {
	var allowed []string
	for _, method := range []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete,
	} {
		asked := r.Clone(r.Context())
		asked.Method = method
		var match mux.RouteMatch
		if a.router.Match(asked, &match) && match.MatchErr == nil {
			allowed = append(allowed, method)
		}
	}
	slices.Sort(allowed)
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return problem.New(problem.CodeMethodNotAllowed, "Use one of: "+strings.Join(allowed, ", ")+".")
}

// answerPanic responds for a handler that panicked. If part of the answer has been sent, it reports
// that the connection must be cut, so that no client takes the part for the whole. The log and the
// metrics then have status 500, although the client got another one.
func (a *API) answerPanic(w *recorder, r *request, cause any) (cut bool) {
	if err, is := cause.(error); is && errors.Is(err, http.ErrAbortHandler) {
		return true // it has logged why
	}
	failed := problem.Internal(fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
	if w.status == 0 {
		a.refuse(w, r, failed)
		return false
	}
	r.problem, w.status = failed, http.StatusInternalServerError
	return true
}

// logLine logs a request with its route's template. It never logs the path, the query, the headers
// or the body.
func (a *API) logLine(w *recorder, r *request, took time.Duration) {
	level := slog.LevelInfo
	if r.caller.keyID == "" && w.status < http.StatusBadRequest {
		level = slog.LevelDebug // frequent health checks and scrapes
	}
	// 501 means that the operator has disabled a feature, which is no fault.
	if p := r.problem; p != nil && p.Status >= http.StatusInternalServerError &&
		p.Status != http.StatusNotImplemented {
		level = slog.LevelError
	}
	ctx := context.WithoutCancel(r.http.Context())
	if !a.Log.Enabled(ctx, level) {
		return
	}
	attributes := []slog.Attr{
		slog.String("method", knownMethod(r.http.Method)),
		slog.String("route", r.route),
		slog.Int("status", w.status),
		slog.Float64("durationMillis", float64(took.Microseconds())/1000),
		slog.Int64("sentBytes", w.sentBytes),
		slog.String("requestId", r.id),
		slog.String("remote", r.http.RemoteAddr),
	}
	if r.caller.keyID != "" {
		attributes = append(attributes, slog.String("account", r.caller.accountID),
			slog.String("key", r.caller.keyID), slog.Bool("byPortalLink", r.caller.byLink))
	}
	if r.traceID != "" {
		attributes = append(attributes, slog.String("trace", r.traceID))
	}
	if p := r.problem; p != nil {
		attributes = append(attributes, slog.String("code", p.Code))
		if p.CommandID != "" {
			attributes = append(attributes, slog.String("command", p.CommandID))
		}
		if p.Cause != nil {
			attributes = append(attributes, slog.String("error", redact(p.Cause.Error())))
		}
	}
	a.Log.LogAttrs(ctx, level, "request", attributes...)
}

// knownMethod replaces unknown methods, so that clients' text does not get into the log.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

type recorder struct {
	http.ResponseWriter
	status    int
	sentBytes int64
	gone      bool // the client did not take all of the answer
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.sentBytes += int64(n)
	w.gone = w.gone || err != nil
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ours matches texts that look like our API keys, signing secrets or portal links.
const ours = `wh(sec|k_test|k_live)_[0-9a-z]{8,}|whp_[0-9a-z_-]{8,}`

// secretLike matches texts that look like a Stellar secret key, in either case, or like one of our
// secrets.
var secretLike = regexp.MustCompile(`(?i)s[a-z2-7]{55}|` + ours)

const secretMask = "[secret]"

// redact replaces everything that looks like a secret. It is the second line of defense: messages
// don't contain clients' values in the first place, but names of JSON members and errors of other
// parts also pass through here. It also replaces invalid UTF-8, so that every text can be encoded
// as JSON.
func redact(s string) string {
	return strings.ToValidUTF8(secretLike.ReplaceAllLiteralString(s, secretMask), "\uFFFD")
}

// secretWord matches a whole word that looks like a secret. A muxed address is a longer word, and a
// third of them contain an S followed by 55 such characters.
var secretWord = regexp.MustCompile(`(?i)\b(s[a-z2-7]{55}|` + ours + `)\b`)

const secretKeyLength = 56

// holdsSecret reports whether a text contains a word that looks like a secret, or a secret key with
// a valid checksum inside a word.
func holdsSecret(s string) bool {
	if secretWord.MatchString(s) {
		return true
	}
	upper := strings.ToUpper(s)
	for i := 0; i+secretKeyLength <= len(upper); i++ {
		if upper[i] == 'S' && strkey.IsValidEd25519SecretSeed(upper[i:i+secretKeyLength]) {
			return true
		}
	}
	return false
}
