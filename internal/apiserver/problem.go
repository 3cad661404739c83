package apiserver

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/lumenhook/lumenhook/domain"
)

// Codes of the edge's problems.
const (
	codeExpectationFailed = "EXPECTATION_FAILED"
	codeHeadersTooLarge   = "HEADERS_TOO_LARGE"
	codeMalformedRequest  = "MALFORMED_REQUEST"
	codeRateLimited       = "RATE_LIMITED"
	codeTLSRequired       = "TLS_REQUIRED"
	codeTransferCoding    = "UNSUPPORTED_TRANSFER_CODING"
	codeVersion           = "UNSUPPORTED_VERSION"
)

// Codes lists the codes of problems that no handler answers with.
func Codes() []string {
	return []string{
		codeExpectationFailed, codeHeadersTooLarge, codeMalformedRequest, codeTLSRequired,
		codeTransferCoding, codeVersion,
	}
}

// problem is a refusal of the edge, in the API's own form (RFC 9457).
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Code      string `json:"code"`
	RequestID string `json:"requestId"`
}

func newProblem(code string, status int, title, detail string) problem {
	var entropy [16]byte
	rand.Read(entropy[:])
	return problem{
		Type:      "urn:lumenhook:problem:" + strings.ToLower(strings.ReplaceAll(code, "_", "-")),
		Title:     title,
		Status:    status,
		Detail:    detail,
		Code:      code,
		RequestID: domain.NewID("req_", entropy),
	}
}

func (p problem) body() []byte {
	body, err := json.Marshal(p)
	if err != nil {
		panic("apiserver: " + err.Error()) // of a struct of texts
	}
	return body
}

// headers are those of a problem. Of the connection they say nothing.
func (p problem) headers(h http.Header) {
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(p.body())))
	h.Set("X-Request-Id", p.RequestID)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}

// write answers a request with a problem.
func (p problem) write(w http.ResponseWriter, r *http.Request) {
	p.headers(w.Header())
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(p.body()) // the client may be gone: nobody is left to tell
	}
}

// message is the whole answer on a connection that ends with it.
func (p problem) message() []byte {
	h := http.Header{"Connection": {"close"}}
	p.headers(h)
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", p.Status, http.StatusText(p.Status))
	_ = h.Write(&b) // to memory
	b.WriteString("\r\n")
	b.Write(p.body())
	return b.Bytes()
}

// boundHeaders refuses requests whose line and headers have more bytes than a
// limit.
func boundHeaders(next http.Handler, most int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := len(r.Method) + len(r.RequestURI) + len(r.Host)
		for name, values := range r.Header {
			for _, value := range values {
				size += len(name) + len(value) + len(": \r\n")
			}
		}
		if size > most {
			headersTooLarge(most).write(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func headersTooLarge(most int) problem {
	detail := "The request line and the headers have too many bytes."
	if most > 0 {
		detail = fmt.Sprintf("The request line and the headers must have at most %d bytes.", most)
	}
	return newProblem(codeHeadersTooLarge, http.StatusRequestHeaderFieldsTooLarge,
		"The headers are too large", detail)
}

// What net/http writes by itself, to the connection and in one piece: a status
// line, then plainText and the status again. A handler's answer never looks so: it
// has a date.
const (
	plainText = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	toTLS     = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
	unmet     = "HTTP/1.1 417 Expectation Failed\r\n"
)

// ownRefusal reports whether b is an answer that net/http gives by itself, and
// what is answered in its place.
func ownRefusal(b []byte) (p problem, own bool) {
	if !bytes.HasPrefix(b, []byte("HTTP/1.")) {
		return p, false
	}
	if string(b) == toTLS {
		return newProblem(codeTLSRequired, http.StatusBadRequest, "TLS is spoken here",
			"Use https:// instead of http://."), true
	}
	if bytes.HasPrefix(b, []byte(unmet)) {
		return newProblem(codeExpectationFailed, http.StatusExpectationFailed,
			"The expectation cannot be met",
			"Of Expect, 100-continue alone can be met: leave the header out."), true
	}
	line, rest, _ := bytes.Cut(b, []byte("\r\n"))
	if !bytes.HasPrefix(rest, []byte(plainText[2:])) || len(line) < len("HTTP/1.1 400") {
		return p, false
	}
	status, err := strconv.Atoi(string(line[len("HTTP/1.1 "):len("HTTP/1.1 400")]))
	if err != nil {
		return p, false
	}
	_, reason, _ := strings.Cut(string(line), ": ")
	return refusalOf(status, reason), true
}

// refusalOf is the problem for a status of net/http's.
func refusalOf(status int, reason string) problem {
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		return headersTooLarge(0)
	case http.StatusNotImplemented:
		return newProblem(codeTransferCoding, status, "The transfer coding is not known",
			"Send the body with Content-Length, or with Transfer-Encoding: chunked.")
	case http.StatusHTTPVersionNotSupported:
		return newProblem(codeVersion, status, "The version of HTTP is not spoken here",
			"Use HTTP/1.1 or HTTP/2.")
	}
	detail := "What came is not a request of HTTP."
	if reason != "" {
		detail = "What came is not a request of HTTP: " + reason + "."
	}
	return newProblem(codeMalformedRequest, status, "The request is not well-formed HTTP", detail)
}
