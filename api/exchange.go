package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gorilla/mux"

	"github.com/lumenhook/lumenhook/domain"
)

// Headers of ours.
const (
	headerRequestID  = "X-Request-Id"
	headerIdempotent = "Idempotency-Key"
	headerReplayed   = "Idempotent-Replayed"
)

// overloadRetrySeconds is after how long a node that was full may be asked again.
const overloadRetrySeconds = 1

// exchange is one request on its way to an answer.
type exchange struct {
	request        *http.Request
	requestID      string
	traceID        string // of traceparent; empty: none
	route          string // template of the path: the path itself may hold anything
	caller         caller
	idempotencyKey string
	ifMatch        precondition
	body           []byte
	bodyHash       []byte // SHA-256
	problem        *Problem

	// What the path names, as this node last read it. It is missing when a
	// request that may be a repeat names what is gone: only the engine knows its
	// answer of then.
	missing  string // what it is, for people; empty: it is there
	endpoint domain.Endpoint
	watch    domain.Watch
	key      domain.Key
	event    EventRecord
}

// handler makes the answer to an exchange.
type handler func(context.Context, *exchange) (reply, *Problem)

// reply is an answer that is no problem.
type reply struct {
	status      int
	contentType string // empty: application/json
	location    string
	etag        string
	policy      string // Content-Security-Policy; empty: nothing is allowed
	replayed    bool
	body        []byte
}

func jsonReply(status int, v any) (reply, *Problem) {
	body, err := json.Marshal(v, json.Deterministic(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return reply{}, internal(fmt.Errorf("encoding an answer: %w", err))
	}
	return reply{status: status, body: body}, nil
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange { return r.Context().Value(exchangeKey{}).(*exchange) }

// ServeHTTP answers a request and writes one line about it to the log.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := a.Now()
	x := &exchange{requestID: a.requestID(r), route: "none"}
	x.request = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	x.traceID = traceID(r.Header)
	out := &recorder{ResponseWriter: w}
	setCommonHeaders(out.Header(), x.requestID)
	defer func() {
		if cause := recover(); cause != nil {
			a.recovered(out, x, cause)
		}
		took := a.Now().Sub(began)
		a.logLine(out, x, took)
		if a.Answered != nil {
			a.Answered(x.route, knownMethod(r.Method), out.status, took)
		}
	}()
	a.router.ServeHTTP(out, x.request)
}

func setCommonHeaders(h http.Header, requestID string) {
	h.Set(headerRequestID, requestID)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
}

// saneRequestID keeps what a client may choose harmless in headers, logs and
// JSON.
var saneRequestID = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// requestID takes the client's, so that its logs and ours can be held together.
func (a *API) requestID(r *http.Request) string {
	if id := r.Header.Get(headerRequestID); saneRequestID.MatchString(id) && !holdsSecret(id) {
		return id
	}
	var entropy [16]byte
	if _, err := io.ReadFull(a.Entropy, entropy[:]); err != nil {
		return "req_none"
	}
	return domain.NewID("req_", entropy)
}

// traceParent is the header of W3C Trace Context: version, trace, parent, flags.
var traceParent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.{0,64})?$`)

// traceID is the trace that a request belongs to, for the log; empty: none.
func traceID(h http.Header) string {
	if found := traceParent.FindStringSubmatch(h.Get("traceparent")); found != nil {
		return found[1]
	}
	return ""
}

// answering makes the handler of a route: what the headers decide, then the
// body, then the route's own work.
func (a *API) answering(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r)
		x.request, x.route = r, rt.path
		answer, problem := a.answer(w, x, rt)
		if problem != nil {
			a.refuse(w, x, problem)
			return
		}
		writeReply(w, answer)
	})
}

func (a *API) answer(w http.ResponseWriter, x *exchange, rt route) (reply, *Problem) {
	// what is open to everyone is for those who watch the node, in need above all
	if rt.permission != "" {
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }()
		default:
			return reply{}, newProblem(codeOverloaded,
				"This node answers as many requests as it can. Repeat the request after the time in "+
					"Retry-After.").retryAfter(
				overloadRetrySeconds,
			)
		}
		if problem := a.authenticate(w.Header(), x, rt.permission); problem != nil {
			return reply{}, problem
		}
	}
	// The time of the work begins here, and again behind the body: one that came
	// slowly takes none of it.
	if problem := a.beforeBody(x, rt); problem != nil {
		return reply{}, problem
	}
	if problem := takeBody(w, x, rt.body); problem != nil {
		return reply{}, problem
	}
	ctx, cancel := context.WithTimeout(x.request.Context(), max(workTimeout, a.TestWait+2*time.Second))
	defer cancel()
	answer, problem := rt.handle(ctx, x)
	if problem != nil && x.missing != "" && problem.Code == codeValidationFailed {
		problem = noSuch(x.missing) // held against nothing, a change that was good may look wrong
	}
	return answer, problem
}

// beforeBody reads the headers of a write and finds what its path names.
func (a *API) beforeBody(x *exchange, rt route) (problem *Problem) {
	if rt.permission == domain.PermissionWrite || rt.permission == domain.PermissionOperate {
		if x.idempotencyKey, problem = idempotencyKey(x.request); problem != nil {
			return problem
		}
		if x.ifMatch, problem = readIfMatch(x.request); problem != nil {
			return problem
		}
		if len(x.ifMatch.revisions) > 0 && rt.takes&takesIfMatch == 0 {
			return newProblem(codeInvalidHeader, "This operation takes no If-Match: leave the header out.")
		}
	}
	if rt.permission != "" && rt.takes&takesQuery == 0 {
		if problem := readQuery(x, nil).problem(); problem != nil {
			return problem
		}
	}
	if rt.subject == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(x.request.Context(), workTimeout)
	defer cancel()
	return rt.subject(ctx, x)
}

// takeBody reads a body as its route expects it. What is missing is told once
// the body has turned out to be none that could be a repeat's.
func takeBody(w http.ResponseWriter, x *exchange, kind bodyKind) *Problem {
	if kind == bodyIgnored {
		sum := sha256.Sum256(nil)
		x.bodyHash = sum[:]
		return nil
	}
	if problem := checkBodyHeaders(x, kind); problem != nil {
		return problem
	}
	if problem := readBody(w, x); problem != nil {
		return problem
	}
	if len(x.body) > 0 && x.request.Header.Get("Content-Type") == "" {
		return notJSON()
	}
	if kind != bodyEmpty || len(x.body) == 0 {
		return nil
	}
	root, problem := parseJSON(x.body)
	if problem != nil {
		return problem
	}
	var f faults
	if o, ok := asObject(root, "", &f); ok {
		for _, m := range o.node.members {
			o.fault(m.name, faultUnknownField, "is not a field here: this operation takes no body")
		}
	}
	return f.problem()
}

// checkBodyHeaders decides what the headers tell of a body.
func checkBodyHeaders(x *exchange, kind bodyKind) *Problem {
	r := x.request
	if r.ContentLength > maxBodyBytes {
		return tooLarge()
	}
	if (kind == bodyEmpty || kind == bodyOptional) &&
		(r.ContentLength == 0 || r.ContentLength < 0 && r.Header.Get("Content-Type") == "") {
		return nil // of a body without a length, whether there is one shows only on reading
	}
	types := r.Header.Values("Content-Type")
	if len(types) != 1 ||
		!isJSON(types[0]) &&
			(kind != bodyPatch || !isMediaType(types[0], "application/merge-patch+json")) {
		return notJSON()
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" &&
		!strings.EqualFold(coding, "identity") {
		return newProblem(codeUnsupportedMediaType, "Send the body without a Content-Encoding.")
	}
	return nil
}

func notJSON() *Problem {
	return newProblem(codeUnsupportedMediaType,
		"Send the body as JSON in UTF-8, with the header Content-Type: application/json.")
}

func isJSON(contentType string) bool { return isMediaType(contentType, "application/json") }

// isMediaType compares a media type, which may name the charset UTF-8.
func isMediaType(contentType, want string) bool {
	mediaType, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || mediaType != want {
		return false
	}
	for name, value := range parameters {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return false
		}
	}
	return true
}

func tooLarge() *Problem {
	return newProblem(codeRequestTooLarge,
		fmt.Sprintf("The body must have at most %d bytes.", maxBodyBytes))
}

func readBody(w http.ResponseWriter, x *exchange) *Problem {
	body, err := io.ReadAll(http.MaxBytesReader(w, x.request.Body, maxBodyBytes))
	var tooMany *http.MaxBytesError
	switch {
	case errors.As(err, &tooMany):
		return tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return newProblem(codeRequestTimeout, "The body did not arrive in time. Repeat the request.").because(
			err,
		)
	case err != nil:
		return newProblem(codeBodyUnreadable,
			"The body did not arrive as its headers say. Repeat the request.").because(err)
	}
	sum := sha256.Sum256(body)
	x.body, x.bodyHash = body, sum[:]
	return nil
}

func writeReply(w http.ResponseWriter, answer reply) {
	h := w.Header()
	if answer.contentType == "" {
		answer.contentType = "application/json"
	}
	h.Set("Content-Type", answer.contentType)
	h.Set("Content-Length", strconv.Itoa(len(answer.body)))
	if answer.location != "" {
		h.Set("Location", answer.location)
	}
	if answer.etag != "" {
		h.Set("ETag", answer.etag)
	}
	if answer.policy != "" {
		h.Set("Content-Security-Policy", answer.policy)
	}
	if answer.replayed {
		h.Set(headerReplayed, "true")
	}
	if len(answer.body) == 0 {
		h.Del("Content-Type")
	}
	if answer.status == http.StatusNoContent {
		h.Del("Content-Length")
	}
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body) // the client may be gone: nobody is left to tell
}

// refuse writes a problem.
func (a *API) refuse(w http.ResponseWriter, x *exchange, p *Problem) {
	x.problem = p
	p.RequestID = x.requestID
	p.Detail = redact(p.Detail)
	for i := range p.Errors {
		p.Errors[i].Pointer, p.Errors[i].Detail = redact(p.Errors[i].Pointer), redact(p.Errors[i].Detail)
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="lumenhook"`)
	}
	if p.retryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.retryAfterSeconds))
	}
	body, err := json.Marshal(p)
	if err != nil {
		// strings of ours, made valid where they were cut
		panic(fmt.Sprintf("api: encoding a problem: %v", err))
	}
	writeReply(w,
		reply{status: p.Status, contentType: "application/problem+json", replayed: p.replayed, body: body})
}

// refusing makes a handler that always refuses.
func (a *API) refusing(why func(http.ResponseWriter, *http.Request) *Problem) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.refuse(w, exchangeOf(r), why(w, r))
	})
}

func (a *API) notFound(http.ResponseWriter, *http.Request) *Problem {
	return newProblem(codeNotFound,
		"There is nothing at this path. GET /docs describes what there is, for programs /v1/openapi.json.")
}

func (a *API) methodNotAllowed(w http.ResponseWriter, r *http.Request) *Problem {
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
	return newProblem(codeMethodNotAllowed, "Use one of: "+strings.Join(allowed, ", ")+".")
}

// recovered answers for a handler that panicked. A panic that http.Server wants
// to see goes on.
func (a *API) recovered(w *recorder, x *exchange, cause any) {
	if cause == http.ErrAbortHandler {
		panic(cause)
	}
	err := fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
	if w.status != 0 {
		x.problem = internal(err)
		return
	}
	a.refuse(w, x, internal(err))
}

// logLine tells of a request by its route's template, never by its path, its
// query, its headers or its body.
func (a *API) logLine(w *recorder, x *exchange, took time.Duration) {
	attributes := []slog.Attr{
		slog.String("method", knownMethod(x.request.Method)), slog.String("route", x.route),
		slog.Int("status", w.status),
		slog.Float64("durationMillis", float64(took.Microseconds())/1000),
		slog.Int64("sentBytes", w.sentBytes),
		slog.String("requestId", x.requestID), slog.String("remote", x.request.RemoteAddr),
	}
	if x.caller.keyID != "" {
		attributes = append(attributes, slog.String("account", x.caller.accountID),
			slog.String("key", x.caller.keyID))
	}
	if x.traceID != "" {
		attributes = append(attributes, slog.String("trace", x.traceID))
	}
	level := slog.LevelInfo
	if x.caller.keyID == "" && w.status < http.StatusBadRequest {
		level = slog.LevelDebug // health checks and scrapes come every few seconds
	}
	if p := x.problem; p != nil {
		attributes = append(attributes, slog.String("code", p.Code))
		if p.CommandID != "" {
			attributes = append(attributes, slog.String("command", p.CommandID))
		}
		if p.cause != nil {
			attributes = append(attributes, slog.String("error", redact(p.cause.Error())))
		}
		if p.Status >= http.StatusInternalServerError {
			level = slog.LevelError
		}
	}
	a.Log.LogAttrs(context.WithoutCancel(x.request.Context()), level, "request", attributes...)
}

// knownMethod keeps a client's own words out of the log.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status    int
	sentBytes int64
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
	return n, err
}

// Unwrap lets http.ResponseController reach the server's own writer.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
