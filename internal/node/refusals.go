package node

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/ingress"
)

// newProblem returns a problem for a request that no handler sees.
func newProblem(code, detail string) *problem.Problem {
	var entropy [16]byte
	rand.Read(entropy[:])
	p := problem.New(code, detail)
	p.RequestID = domain.NewID("req_", entropy)
	return p
}

func setHeaders(h http.Header, p *problem.Problem, body []byte) {
	h.Set("Content-Type", problem.ContentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Request-Id", p.RequestID)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}

func write(w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	body := p.JSON()
	setHeaders(w.Header(), p, body)
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may be gone
	}
}

// message returns a complete HTTP response that closes the connection.
func message(p *problem.Problem) []byte {
	h, body := http.Header{"Connection": {"close"}}, p.JSON()
	setHeaders(h, p, body)
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", p.Status, http.StatusText(p.Status))
	_ = h.Write(&b) // writes to memory
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

type refusingListener struct{ *ingress.Listener }

func (l refusingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return refusingConn{conn.(*ingress.Conn)}, nil
}

// refusingConn replaces net/http's own responses with problems.
type refusingConn struct{ *ingress.Conn }

func (c refusingConn) Write(b []byte) (int, error) {
	p := refusalIn(b)
	if p == nil {
		return c.Conn.Write(b)
	}
	if _, err := c.Conn.Write(message(p)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// boundHeaders rejects requests whose request line and headers are larger than a limit.
func boundHeaders(next http.Handler, most int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := len(r.Method) + len(r.RequestURI) + len(r.Host)
		for name, values := range r.Header {
			for _, value := range values {
				size += len(name) + len(value) + len(": \r\n")
			}
		}
		if size > most {
			write(w, r, headersTooLarge(most))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func headersTooLarge(most int) *problem.Problem {
	detail := "The request line and the headers have too many bytes."
	if most > 0 {
		detail = fmt.Sprintf("The request line and the headers must have at most %d bytes.", most)
	}
	return newProblem(problem.CodeHeadersTooLarge, detail)
}

// Parts of net/http's own responses. It writes them to the connection in a single call: a status
// line, then plainText, then the status again. A handler's response never looks like this, because
// it has a date.
const (
	plainText = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	toTLS     = "HTTP/1.0 400 Bad Request\r\n\r\n" +
		"Client sent an HTTP request to an HTTPS server.\n"
	expectationFailed = "HTTP/1.1 417 Expectation Failed\r\n"
)

// refusalIn returns the problem that replaces b if b is one of net/http's own responses, and nil
// otherwise.
func refusalIn(b []byte) *problem.Problem {
	if !bytes.HasPrefix(b, []byte("HTTP/1.")) {
		return nil
	}
	if string(b) == toTLS {
		return newProblem(problem.CodeTLSRequired, "Use https:// instead of http://.")
	}
	if bytes.HasPrefix(b, []byte(expectationFailed)) {
		return newProblem(problem.CodeExpectationFailed,
			"Only Expect: 100-continue is supported: leave the header out.")
	}
	line, rest, _ := bytes.Cut(b, []byte("\r\n"))
	if !bytes.HasPrefix(rest, []byte(plainText[2:])) || len(line) < len("HTTP/1.1 400") {
		return nil
	}
	status, err := strconv.Atoi(string(line[len("HTTP/1.1 "):len("HTTP/1.1 400")]))
	if err != nil {
		return nil
	}
	_, reason, _ := strings.Cut(string(line), ": ")
	return refusalOf(status, reason)
}

func refusalOf(status int, reason string) *problem.Problem {
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		return headersTooLarge(0)
	case http.StatusNotImplemented:
		return newProblem(problem.CodeTransferCoding,
			"Send the body with Content-Length, or with Transfer-Encoding: chunked.")
	case http.StatusHTTPVersionNotSupported:
		return newProblem(problem.CodeVersion, "Use HTTP/1.1 or HTTP/2.")
	}
	detail := "The request is not valid HTTP."
	if reason != "" {
		detail = "The request is not valid HTTP: " + reason + "."
	}
	p := newProblem(problem.CodeMalformedRequest, detail)
	p.Status = status
	return p
}
